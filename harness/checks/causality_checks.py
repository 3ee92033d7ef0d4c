"""Causes come before their effects, by at least the delay of the path between them (pure).

A message cannot arrive before it was sent. So no member has a result before it has the last
contribution, no task completes before its members have finished, and no fault acts before it
begins.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

from trunkline.agents.events.causes import DecidedWithout
from trunkline.agents.events.event import TaskEvent
from trunkline.agents.events.lifecycle import Doing
from trunkline.agents.events.round_events import ComputeStarted, Ready, WorkerFinished
from trunkline.agents.events.run_events import Stopping
from trunkline.agents.events.task_events import (
    Contributed,
    ContributionTaken,
    Discarded,
    Received,
    Routed,
    Sent,
    SiteExcluded,
    TaskAbandoned,
    TaskCompleted,
    TaskDropped,
    TaskFinished,
    TaskJoined,
)
from trunkline.agents.planning.plan import Chunks
from trunkline.harness.checks.control_paths import Paths
from trunkline.harness.checks.losses import Losses
from trunkline.harness.checks.protocol.measurement_checks import measurements_fit
from trunkline.harness.checks.rules import Rules
from trunkline.harness.checks.tolerances import CLOCK_NS, Tolerances
from trunkline.harness.checks.verdict import Finding, excused, fail, judged
from trunkline.harness.record.history import History, Task


def messages_take_time(history: History, rules: Rules) -> Iterator[Finding]:
    """An agent acts on a message only after it was sent and had time to arrive.

    Judged are the starts of tasks, the reports of results, the ends of tasks and of the run. A
    passive member need not have been ready; a member that waits after a task is not ready again.
    """
    losses, paths = Losses.of(history, rules), Paths(history, rules)
    stop_ns, follow_ns = history.stop_ns, Tolerances.of(history).follow_ns
    ready = list_ready(history)
    waits = _list_waits(history)
    for task in history.tasks:
        told_by = task.started.site
        for given in task.all(Contributed):
            if task.is_passive(given.site):
                continue
            ready_ns = ready.before(given.site, given.t_ns)
            least_ns = ready_ns + paths.control_ns(given.site, told_by)
            if (before := waits.get((given.site, task.number))) is not None:
                # It waits since a task has ended, which the controller knew at once.
                least_ns = min(
                    (event.t_ns for event in before.all(TaskCompleted)), default=least_ns
                )
            if rules.barrier and losses.term_of(task.started) is not None:
                text = f"{task} with {given.site} began"
                yield from judge_after(task.started.t_ns, least_ns, text)
        for joined in task.all(TaskJoined):
            least_ns = task.started.t_ns + paths.control_ns(told_by, joined.site)
            yield from judge_after(joined.t_ns, least_ns, f"{task}: {joined.site} joined")
        for event in task.all(TaskCompleted):
            yield from _judge_completion(task, event, paths)
        for taken in task.all(ContributionTaken):
            yield from _judge_taking(task, taken, paths)
        yield from _judge_moments(task, follow_ns)
        for dropped in task.all(TaskDropped):
            yield from _judge_drop(task, dropped, paths, losses)
        yield from _judge_reports(task, paths, losses, stop_ns)
    yield from _judge_departures(history, rules, paths)
    yield from measurements_fit(history, rules, paths)


def results_follow(history: History, rules: Rules) -> Iterator[Finding]:
    """No member installs a result before the last contribution to it had time to arrive."""
    paths = Paths(history, rules)
    ready = list_ready(history)
    for task in history.tasks:
        early = task.early
        offered_ns = {
            event.site: ready.before(event.site, event.t_ns) if event.site in early else event.t_ns
            for event in task.inputs
        }
        held = task.shards
        for done in task.all(TaskFinished):
            for site, t_ns in offered_ns.items():
                if not _shares(held, site, done.site):
                    continue
                text = f"{task}: {done.site} had the result"
                yield from judge_after(done.t_ns, t_ns + paths.payload_ns(site, done.site), text, 0)
            yield judged()


def allreduces_take_time(history: History, rules: Rules) -> Iterator[Finding]:
    """No site has the result of a program's all-reduce before every site has begun it."""
    paths = Paths(history, rules)
    for sync in history.syncs:
        if sync.operation != "allreduce":
            continue
        for site, end_ns in sync.ended_ns.items():
            yield judged()
            for other, begun_ns in sync.begun_ns.items():
                least_ns = begun_ns + paths.payload_ns(other, site)
                yield from judge_after(
                    end_ns, least_ns, f"task {sync.number}: {site} had the result", 0
                )


@dataclass(frozen=True, slots=True)
class ReadyTimes:
    """When each site was ready, in order of time."""

    times_ns: Mapping[str, list[int]]

    def before(self, site: str, t_ns: int) -> int:
        """The site's last time ready until `t_ns`; 0 if it never was."""
        return max((each for each in self.times_ns.get(site, ()) if each <= t_ns), default=0)


def list_ready(history: History) -> ReadyTimes:
    """When each site was ready."""
    times_ns: defaultdict[str, list[int]] = defaultdict(list)
    for event in history.all(Ready):
        times_ns[event.site].append(event.t_ns)
    return ReadyTimes(times_ns)


def _list_waits(history: History) -> Mapping[tuple[str, int], Task]:
    """By site and task: the task after which the site waited for it, if it was not ready anew."""
    tasks = {task.number: task for task in history.tasks}
    found: dict[tuple[str, int], Task] = {}
    for site, phases in history.lives.phases(Doing.WAITING, Doing.IN_TASK).items():
        for wait, joined in pairwise(phases):
            if joined.task is None or wait.doing is not Doing.WAITING:
                continue
            if isinstance(wait.begun, TaskEvent):
                found[site, joined.task] = tasks[wait.begun.task]
    return found


def judge_after(t_ns: int, least_ns: int, what: str, objects: int = 1) -> Iterator[Finding]:
    """Judge that something happened at `least_ns` or later."""
    if t_ns < least_ns - CLOCK_NS:
        early_ms = (least_ns - t_ns) / 1e6
        yield fail(f"{what} at {t_ns / 1e9:.6f} s, {early_ms:.3f} ms too early")
    if objects:
        yield judged(objects)


def _judge_completion(task: Task, event: TaskCompleted, paths: Paths) -> Iterator[Finding]:
    """A task is complete when all of its receivers but those in `without` have reported."""
    finished_ns = {done.site: done.t_ns for done in reversed(task.all(TaskFinished))}
    for site in set(event.without) - set(task.started.receivers):
        yield fail(f"{task} was completed without {site}, which is not a member")
    for site in task.started.receivers:
        if site in event.without:
            continue
        if site not in finished_ns:
            yield fail(f"{task} was completed, but {site} did not finish it")
            continue
        least_ns = finished_ns[site] + paths.control_ns(site, event.site)
        text = f"{task}: the {event.site} knew of {site} and completed the task"
        yield from judge_after(event.t_ns, least_ns, text)


def _judge_taking(task: Task, taken: ContributionTaken, paths: Paths) -> Iterator[Finding]:
    """A contributor learns from a controller that the task is completed."""
    name = f"{task}: {taken.site} learned of its end"
    told_ns = [
        event.t_ns + paths.control_ns(event.site, taken.site) for event in task.all(TaskCompleted)
    ]
    if told_ns:
        yield from judge_after(taken.t_ns, min(told_ns), name)
    else:
        yield judged()
        yield fail(f"{name}, but no controller completed it")


def _judge_moments(task: Task, most_ns: int) -> Iterator[Finding]:
    """A member that is told of the task's end logs its traffic, and at once how the task ended."""
    told_ns: defaultdict[str, list[int]] = defaultdict(list)
    for report in (*task.all(Sent, Received), *task.all(Routed, Discarded)):
        told_ns[report.site].append(report.t_ns)
    for end in task.all(ContributionTaken, TaskDropped):
        last_ns = max((t_ns for t_ns in told_ns[end.site] if t_ns <= end.t_ns), default=end.t_ns)
        if end.t_ns > last_ns + most_ns:
            late_ms = (end.t_ns - last_ns) / 1e6
            yield fail(f"{task}: {end.site} logged the end {late_ms:.3f} ms after its traffic")


def _shares(held: Mapping[str, Chunks], contributor: str, receiver: str) -> bool:
    """Whether a contribution is a part of what a receiver gets, if members hold shards."""
    if contributor not in held or receiver not in held:
        return True
    return any(a < d and c < b for a, b in held[contributor] for c, d in held[receiver])


def _judge_drop(
    task: Task, dropped: TaskDropped, paths: Paths, losses: Losses
) -> Iterator[Finding]:
    """A member gives a task up when a controller tells it to, or when it has no controller."""
    contributed = [event.t_ns for event in task.all(Contributed) if event.site == dropped.site]
    since_ns = contributed[0] if contributed else task.started.t_ns
    if dropped.cause != DecidedWithout():
        since_ns = dropped.t_ns - CLOCK_NS
    alone = losses.find(losses.without_controller(dropped.site), since_ns, dropped.t_ns)
    if alone is not None:
        yield excused(
            "the member had no controller", f"{_member(task, dropped)}: {losses.explain(alone)}"
        )
        return
    told_ns = [
        event.t_ns + paths.control_ns(event.site, dropped.site)
        for event in task.all(TaskCompleted, TaskAbandoned)
    ]
    if not told_ns:
        yield fail(f"{_member(task, dropped)} gave up, but no controller ended the task")
    else:
        yield from judge_after(dropped.t_ns, min(told_ns), f"{_member(task, dropped)} gave up")


def _judge_reports(task: Task, paths: Paths, losses: Losses, stop_ns: int) -> Iterator[Finding]:
    """A site reports its traffic when a controller ends the task, or when the run ends.

    A site without a controller reports when it gives the task up.
    """
    reported_ns = {e.site: e.t_ns for e in reversed(task.all(Sent))}
    reported_ns |= {e.site: e.t_ns for e in reversed(task.all(Received))}
    for site, t_ns in sorted(reported_ns.items()):
        ends = task.all(TaskCompleted, TaskAbandoned)
        told_ns = [event.t_ns + paths.control_ns(event.site, site) for event in ends]
        if any(told <= t_ns + CLOCK_NS for told in told_ns) or t_ns >= stop_ns:
            yield judged()
        elif lost := losses.find(losses.without_controller(site), task.started.t_ns, t_ns):
            text = f"{task}: {site} reported its traffic; {losses.explain(lost)}"
            yield excused("the site had no controller", text)
        else:
            yield judged()
            at = f"{t_ns / 1e9:.6f} s"
            yield fail(f"{task}: {site} reported its traffic at {at}, before its end")


def _judge_departures(history: History, rules: Rules, paths: Paths) -> Iterator[Finding]:
    """A worker finishes when it has done its rounds, is excluded, or a controller stops the run."""
    iterations: dict[str, int] = {}
    limit = rules.stop.rounds
    stops = history.all(Stopping)
    excluded = history.all(SiteExcluded)
    for event in history.events:
        if isinstance(event, ComputeStarted):
            iterations[event.site] = event.iteration + 1
        elif isinstance(event, WorkerFinished):
            if limit is not None and iterations.get(event.site, 0) >= limit:
                yield judged()
                continue
            orders = [*stops, *(each for each in excluded if each.worker == event.site)]
            told_ns = [order.t_ns + paths.control_ns(order.site, event.site) for order in orders]
            if not told_ns:
                yield fail(f"{event.site} finished, but no controller stopped it or the run")
            else:
                yield from judge_after(event.t_ns, min(told_ns), f"{event.site} finished")


def _member(task: Task, event: TaskDropped) -> str:
    return f"{task}: {event.site}"
