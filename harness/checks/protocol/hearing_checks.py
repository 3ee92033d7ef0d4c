"""The repairs of tasks reach the sites: what controllers say, workers hear (pure).

A controller halts a task at all sites that are present, and tells the sites of new blocks about
them. It concludes a halt when all members that it asked have answered or are lost.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

from trunkline.agents.events.connection_events import BackupTookOver, WorkerFound, WorkerLost
from trunkline.agents.events.event import Event
from trunkline.agents.events.event_writing import event_name
from trunkline.agents.events.fault_events import AgentChanged
from trunkline.agents.events.run_events import Stopping
from trunkline.agents.events.task_events import (
    BlocksHeard,
    HaltHeard,
    TaskAbandoned,
    TaskCompleted,
    TaskFinished,
    TaskHalted,
    TaskJoined,
    TaskRearranged,
    TaskReplanned,
)
from trunkline.harness.checks.control_paths import Paths
from trunkline.harness.checks.losses import HEARD_TIMEOUTS, Losses, Term
from trunkline.harness.checks.rules import Rules
from trunkline.harness.checks.tolerances import CLOCK_NS
from trunkline.harness.checks.verdict import Finding, excused, fail, format_time, judged
from trunkline.harness.record.history import History, Task

Repair = TaskRearranged | TaskReplanned
Said = TaskHalted | Repair


def repairs_are_heard(history: History, rules: Rules) -> Iterator[Finding]:
    """Workers hear each halt and all new blocks, and no others; halts end after their answers."""
    losses, paths = Losses.of(history, rules), Paths(history, rules)
    stops_ns = [event.t_ns for event in history.all(Stopping)]
    stop_ns = min(stops_ns, default=history.end_ns)
    absent = _list_absent(history)
    for task in history.tasks:
        yield from _check_halts_heard(history, task, losses, paths)
        yield from _check_blocks_heard(task, paths)
        yield from _check_promises(task)
        yield from _check_reached(history, task, losses, absent, stop_ns)
    yield from _check_answers(history, losses, paths)


def _check_halts_heard(
    history: History, task: Task, losses: Losses, paths: Paths
) -> Iterator[Finding]:
    """A site hears a halt once, and again if it comes back to its controller during the halt.

    It answers that it has finished if it has. A site that was killed since has forgotten it, and so
    has one that was told of the task's end before another controller halted the task.
    """
    found = history.all(WorkerFound)
    for site in sorted({event.site for event in task.all(HaltHeard)}):
        heard = [event for event in task.all(HaltHeard) if event.site == site]
        finished_ns = [event.t_ns for event in task.all(TaskFinished) if event.site == site]
        for count, event in enumerate(heard, 1):
            yield judged()
            name = f"{task}: {site} heard a halt at {format_time(event.t_ns)}"
            said = [each for each in task.all(TaskHalted) if _may_have_heard(event, each, paths)]
            again = [
                each
                for each in found
                if each.worker == site and said and said[0].t_ns <= each.t_ns <= event.t_ns
            ]
            if count > len(said) + len(again):
                yield fail(f"{name}, which no controller logged before")
                continue
            done_ns = min(finished_ns, default=event.t_ns + 1)
            if event.finished == (done_ns <= event.t_ns):
                continue
            others = {losses.term_of(each) for each in said} - {losses.term_of(task.started)}
            if event.finished or not (
                others or losses.find(losses.dead(site), done_ns, event.t_ns)
            ):
                answer = "had" if event.finished else "had not"
                yield fail(f"{name}, and answered that it {answer} finished, which is wrong")


def _check_blocks_heard(task: Task, paths: Paths) -> Iterator[Finding]:
    """A site hears of new blocks once, after its controller has announced them."""
    heard = set[tuple[str, int]]()
    for event in task.all(BlocksHeard):
        yield judged()
        name = f"{task}: {event.site} heard of {event.blocks} blocks at {format_time(event.t_ns)}"
        said = [each for each in task.changes if _may_have_heard(event, each, paths)]
        if event.blocks not in {_count_blocks(task, each) for each in said}:
            yield fail(f"{name}, which no controller logged before")
        if (event.site, event.blocks) in heard:
            yield fail(f"{name} twice")
        heard.add((event.site, event.blocks))


def _check_promises(task: Task) -> Iterator[Finding]:
    """A member that answered a halt without the result finishes only by new blocks."""
    for done in task.all(TaskFinished):
        halts = [
            event.t_ns
            for event in task.all(HaltHeard)
            if event.site == done.site and event.t_ns <= done.t_ns and not event.finished
        ]
        if not halts:
            continue
        yield judged()
        anew = task.all(BlocksHeard, TaskJoined)
        if not any(
            event.site == done.site and max(halts) <= event.t_ns <= done.t_ns for event in anew
        ):
            when = format_time(done.t_ns)
            yield fail(f"{task}: {done.site} finished at {when}, halted and without new blocks")


def _check_reached(
    history: History,
    task: Task,
    losses: Losses,
    absent: Mapping[int, Collection[str]],
    stop_ns: int,
) -> Iterator[Finding]:
    """A halt reaches all sites that are present, and new blocks all that take part in them."""
    for said in (*task.all(TaskHalted), *task.changes):
        term = losses.term_of(said)
        name = f"{task}: {event_name(type(said))} at {format_time(said.t_ns)}"
        latest_ns = said.t_ns + HEARD_TIMEOUTS * losses.timeout_ns
        heard = {
            event.site
            for event in _heard_of(task, said)
            if said.t_ns - CLOCK_NS <= event.t_ns <= latest_ns
        }
        addressees = _addressees(history, task, said)
        yield judged(len(heard.intersection(addressees)))
        for site in sorted(set(addressees) - heard):
            lost_ns = latest_ns + losses.timeout_ns  # a broken connection counts as lost by then
            later_ns = losses.joins_next(site, said.t_ns)
            sure_ns = lost_ns if later_ns is None else min(lost_ns, later_ns)
            if term is None or losses.leader_of(site, said.t_ns) not in (term.controller, None):
                yield excused("the site followed another controller", f"{name}, {site}")
            elif site in absent[id(said)] or not losses.are_connected(
                term, site, said.t_ns, sure_ns
            ):
                yield excused("the site or its controller was lost", f"{name}, {site}")
            elif sure_ns > stop_ns:
                yield excused("the run stopped", f"{name}, {site}")
            else:
                yield fail(f"{name} was not heard by {site}")


def _list_absent(history: History) -> Mapping[int, Collection[str]]:
    """By the id of each event of a repair: the workers that its controller had not found again."""
    found: dict[int, Collection[str]] = {}
    away = defaultdict[str, set[str]](set)
    for event in history.events:
        match event:
            case WorkerLost(worker=worker):
                away[event.site].add(worker)
            case WorkerFound(worker=worker):
                away[event.site].discard(worker)
            case BackupTookOver(site=controller) | AgentChanged(who=controller, do="restart"):
                away[controller].clear()
            case TaskHalted() | TaskRearranged() | TaskReplanned():
                found[id(event)] = frozenset(away[event.site])
    return found


@dataclass(slots=True)
class _Halt:
    """A halt that is not concluded: whom it awaits, and who has come back since, at which time."""

    t_ns: int
    awaited: set[str]
    back_ns: dict[str, int] = field(default_factory=dict)


def _check_answers(history: History, losses: Losses, paths: Paths) -> Iterator[Finding]:
    """A halted task continues or ends only after all members asked have answered or are lost.

    A member that comes back during the halt is told of it, and awaited, if it has not finished.
    """
    halts_ns = defaultdict[int, list[int]](list)
    for said in history.all(TaskHalted):
        halts_ns[said.task].append(said.t_ns)
    answers = defaultdict[int, list[HaltHeard]](list)
    for heard in history.all(HaltHeard):
        answers[heard.task].append(heard)
    asked: dict[tuple[Term | None, int], _Halt] = {}
    for event in history.events:
        match event:
            case TaskHalted(task=task, members=members):
                asked[losses.term_of(event), task] = _Halt(event.t_ns, set(members))
            case WorkerLost(worker=worker) | WorkerFound(worker=worker):
                for (term, _), halt in asked.items():
                    if term == losses.term_of(event):
                        halt.awaited.discard(worker)
                        halt.back_ns.pop(worker, None)
                        if isinstance(event, WorkerFound):
                            halt.back_ns[worker] = event.t_ns
            case TaskReplanned(task=task) | TaskCompleted(task=task) | TaskAbandoned(task=task):
                none = _Halt(event.t_ns, set())
                halt = asked.pop((losses.term_of(event), task), none)
                since_ns = dict.fromkeys(halt.awaited, halt.t_ns) | halt.back_ns
                next_ns = min((t for t in halts_ns[task] if t > event.t_ns), default=math.inf)
                least_ns = {
                    each.site: each.t_ns + paths.control_ns(each.site, event.site)
                    for each in reversed(answers[task])
                    if since_ns.get(each.site, math.inf) - CLOCK_NS <= each.t_ns < next_ns
                }
                yield judged(len(halt.awaited))
                never_ns = event.t_ns + 2 * CLOCK_NS
                told = halt.awaited | (halt.back_ns.keys() & least_ns.keys())
                for member in sorted(told):
                    if least_ns.get(member, never_ns) > event.t_ns + CLOCK_NS:
                        what, when = event_name(type(event)), format_time(event.t_ns)
                        text = f"{what} at {when}, before {member} answered a halt"
                        yield fail(f"task {event.task}: {text}")


def _may_have_heard(event: HaltHeard | BlocksHeard, said: Said, paths: Paths) -> bool:
    """Whether what a controller said had the time to arrive by then."""
    least_ns = said.t_ns + paths.control_ns(said.site, event.site)
    return event.t_ns >= least_ns - CLOCK_NS


def _count_blocks(task: Task, repair: Repair) -> int:
    """How many block numbers of its task are announced with a repair."""
    return repair.first + len(task.plan_of(repair).blocks)


def _addressees(history: History, task: Task, said: Said) -> Sequence[str]:
    """The sites that a controller tells of a halt or of new blocks, if they are present."""
    if isinstance(said, TaskHalted):
        return () if history.run is None else history.run.sites
    return sorted(task.plan_of(said).participants())


def _heard_of(task: Task, said: Said) -> Iterator[Event]:
    """The events with which sites hear of a halt or of new blocks; some join the task by them."""
    if isinstance(said, TaskHalted):
        return iter(task.all(HaltHeard))
    count = _count_blocks(task, said)
    return chain(
        (each for each in task.all(BlocksHeard) if each.blocks == count), task.all(TaskJoined)
    )
