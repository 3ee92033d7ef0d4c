"""By how much faults made sites and tasks late, as decisions of the run passed it on (pure).

A site is late by what faults took of its computing and of its tasks. It stays late for as long as
it waits for no other one. A task is as late as what decided when it began: its last member, the
task whose end the controller awaited, or the turn before. Without the faults, it would have begun
when the last of these would have come without them; the groups and their order stay as they were.
So a wait for a site that is late because of an earlier fault is that fault's. A site that did
rounds alone is not late afterwards: it has left out tasks of the others.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field

from trunkline.agents.events.event import Event
from trunkline.agents.events.fault_events import AgentChanged
from trunkline.agents.events.round_events import ComputeStarted, Ready, RoundAlone
from trunkline.agents.events.task_events import (
    TaskAbandoned,
    TaskCompleted,
    TaskDropped,
    TaskFinished,
    TaskStarted,
)
from trunkline.harness.record.history import History, Task
from trunkline.harness.record.stops import Standstill
from trunkline.harness.report.explanations.wait_reasons import TICKED
from trunkline.harness.report.explanations.waits import Wait

Late = Mapping[int, float]
"""By how many seconds each fault made something late, by their numbers."""

NOT_LATE: Late = {}


@dataclass(frozen=True, slots=True)
class Due:
    """What decided when a task began: it came at this time, and was late by so much."""

    t_ns: int
    late: Late

    @property
    def without_ns(self) -> int:
        """When it would have come without faults."""
        return self.t_ns - round(sum(self.late.values()) * 1e9)


@dataclass(frozen=True, slots=True)
class Sources:
    """What is known of a run's faults and decisions.

    Attributes:
        stops: when agents were stopped, and by which fault.
        find_turn: the push after which the policy gave a task its turn; None without one.
        turn_due_ns: when the turn after a push was due; None if the policy gives no turns.
        compute_s: how long a site usually computes for an iteration, in seconds.
        longer: by how much faults made a task longer, by its number.
        begun: how late a lost site was for which the controller waited before a task; or else what
            the fault of that wait took of it.
    """

    stops: Collection[Standstill]
    find_turn: Callable[[Task], Task | None]
    turn_due_ns: Callable[[Task], int | None]
    compute_s: Callable[[str, int], float]
    longer: Callable[[int], Late]
    begun: Callable[[int], Late]


@dataclass(slots=True)
class _Known:
    """How late everything is at a time of the log.

    Attributes:
        sites: each site, since it last left a task or was ready.
        starts, ends: each task when it began, and when it ended.
        turns: each task when it began, for those that had their turn after it.
        computing: since when each site computes for its next task.
        killed: since when a killed site has computed nothing that counts, and by which fault.
        behind: how far a site is behind because it was killed. Only what waits for its pushes and
            turns is late by that: it has left out tasks itself, and does others than without the
            fault.
    """

    sites: dict[str, Late] = field(default_factory=dict)
    starts: dict[int, Late] = field(default_factory=dict)
    turns: dict[int, Late] = field(default_factory=dict)
    ends: dict[int, tuple[int, Late]] = field(default_factory=dict)
    computing: dict[str, int] = field(default_factory=dict)
    killed: dict[str, tuple[int, int]] = field(default_factory=dict)
    behind: dict[str, Late] = field(default_factory=dict)


def find_lateness(history: History, waits: Mapping[int, Wait], sources: Sources) -> dict[int, Late]:
    """What each fault took of the time in which the controller did not start a task, by task.

    Of tasks that waited for the end of another task, for their turn, or for a site.
    """
    known, found = _Known(), dict[int, Late]()
    tasks = {task.number: task for task in history.tasks}
    stops: dict[str, list[Standstill]] = {}
    for stop in sources.stops:
        stops.setdefault(stop.who, []).append(stop)
    for event in history.events:
        if isinstance(event, TaskStarted):
            task, wait = tasks[event.task], waits.get(event.task)
            if wait is not None and (late := _start(known, task, wait, sources)) is not None:
                found[event.task] = late
        elif isinstance(event, TaskFinished | TaskDropped | TaskCompleted | TaskAbandoned):
            if event.task in tasks:
                _leave(known, tasks[event.task], event, sources)
        else:
            _compute(known, event, stops, sources)
    return found


def _compute(
    known: _Known, event: Event, stops: Mapping[str, list[Standstill]], sources: Sources
) -> None:
    """What happens at a site between two tasks."""
    match event:
        case AgentChanged(who=site, do="kill"):
            since_ns = known.computing.pop(site, event.t_ns)
            known.killed[site] = since_ns, event.fault
            known.sites.pop(site, None)
        case RoundAlone(site=site):
            known.computing.pop(site, None)
            known.sites.pop(site, None)
        case ComputeStarted(site=site):
            known.computing[site] = event.t_ns
            if site in known.killed:
                since_ns, fault = known.killed.pop(site)
                known.behind[site] = {fault: (event.t_ns - since_ns) / 1e9}
        case Ready(site=site) if site in known.computing:
            span = known.computing.pop(site), event.t_ns
            own = [stop for stop in stops.get(site, ()) if stop.overlap_s(span)]
            late_s = (span[1] - span[0]) / 1e9 - sources.compute_s(site, event.iteration)
            if own and late_s > 0:
                longest = max(own, key=lambda stop: stop.overlap_s(span))
                late = {longest.fault: late_s}
                known.sites[site] = _add(known.sites.get(site, NOT_LATE), late)


def _start(known: _Known, task: Task, wait: Wait, sources: Sources) -> Late | None:
    """What faults took of the wait before a task that begins now; None if it awaited nothing."""
    number, start_ns = task.number, task.started.t_ns
    last = known.sites.get(wait.last, NOT_LATE)
    ready = [
        Due(wait.span[0] - round(waited_s * 1e9), known.sites.get(site, NOT_LATE))
        for site, waited_s in wait.waited_s.items()
    ]
    awaited = _list_awaited(known, task, wait, sources)
    late = _pass_on(start_ns, [*ready, *awaited, *_list_turns(known, task, wait, sources)])
    if not awaited:
        late = _add(late, sources.begun(number))
    known.starts[number] = late
    known.turns[number] = _add(late, _find_behind(known, task))
    for site, waited_s in wait.waited_s.items():
        known.sites[site] = late
        if site in known.behind:
            left_s = sum(known.behind[site].values()) - waited_s - wait.decide_s
            known.behind[site] = _keep(known.behind[site], left_s)
    if not awaited:
        return None
    own = {fault: s - last.get(fault, 0.0) for fault, s in late.items()}
    return _keep({fault: s for fault, s in own.items() if s > 0}, wait.decide_s)


def _list_awaited(known: _Known, task: Task, wait: Wait, sources: Sources) -> list[Due]:
    """The task whose end the controller awaited, the turn before, or a site; nothing if none.

    For a site that was lost, it waited until it knew that, and the site had been late already.
    """
    if wait.awaited is not None and wait.awaited in known.ends:
        return [Due(*known.ends[wait.awaited])]
    if wait.cause is None and len(wait.names) == 1:
        late = known.sites.get(wait.names[0], NOT_LATE)
        return [Due(task.started.t_ns, _add(late, sources.begun(task.number)))]
    turn = sources.find_turn(task) if wait.reason == TICKED else None
    if turn is None or turn.number not in known.turns:
        return []
    return [Due(task.started.t_ns, known.turns[turn.number])]


def _list_turns(known: _Known, task: Task, wait: Wait, sources: Sources) -> Iterator[Due]:
    """The time of the task's turn, if the policy gives turns: it would not have begun before.

    A pull after a push needs none.
    """
    turn = sources.find_turn(task) if wait.push is None else None
    if turn is None or turn.number not in known.turns:
        return
    if (due_ns := sources.turn_due_ns(turn)) is not None and due_ns <= task.started.t_ns:
        yield Due(due_ns, known.turns[turn.number])


def _pass_on(start_ns: int, dues: Collection[Due]) -> Late:
    """How late a task is that began then, after all of these had come."""
    decided = max(dues, key=lambda due: due.t_ns)
    without_ns = max(due.without_ns for due in dues) + start_ns - decided.t_ns
    return _keep(decided.late, (start_ns - without_ns) / 1e9)


def _leave(
    known: _Known,
    task: Task,
    event: TaskFinished | TaskDropped | TaskCompleted | TaskAbandoned,
    sources: Sources,
) -> None:
    """A site leaves a task, or the controller ends it; its members then wait or compute.

    A site that left it before the others lost less.
    """
    begun, longer = known.starts.get(task.number, NOT_LATE), sources.longer(task.number)
    if isinstance(event, TaskFinished | TaskDropped):
        if event.site not in task.started.passive:
            rest_s = max(0, (task.end_ns or event.t_ns) - event.t_ns) / 1e9
            known.sites[event.site] = _add(begun, _keep(longer, sum(longer.values()) - rest_s))
        return
    late = _add(begun, longer)
    known.ends[task.number] = event.t_ns, _add(late, _find_behind(known, task))
    if task.waits or isinstance(event, TaskAbandoned):
        for site in task.started.group:
            if site not in task.started.passive:
                known.sites[site] = late


def _find_behind(known: _Known, task: Task) -> Late:
    """How far the member of a task is behind that is furthest behind."""
    behind = (known.behind.get(site, NOT_LATE) for site in task.started.group)
    return max(behind, key=lambda each: sum(each.values()), default=NOT_LATE)


def _add(late: Late, more: Late) -> Late:
    return {fault: late.get(fault, 0.0) + more.get(fault, 0.0) for fault in {**late, **more}}


def _keep(late: Late, seconds: float) -> Late:
    """What is left of it if it is so many seconds in all: of the latest faults first.

    Time in which something would have waited anyway makes up for the earlier ones.
    """
    found: dict[int, float] = {}
    for fault in sorted(late, reverse=True):
        if (own_s := min(late[fault], seconds)) > 0:
            found[fault] = own_s
            seconds -= own_s
    return found
