"""Where the time of an abandoned task went, which bytes it lacked, and who stayed (pure)."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate, pairwise

from trunkline.agents.events.causes import Dropping, SiteLost
from trunkline.agents.events.connection_events import WorkerLost
from trunkline.agents.events.task_events import (
    TaskAbandoned,
    TaskCompleted,
    TaskDropped,
    TaskHalted,
    TaskRearranged,
)
from trunkline.agents.planning.plan import Directed
from trunkline.harness.checks.payload.byte_checks import count_planned, count_received
from trunkline.harness.record.history import Task
from trunkline.harness.record.lives import Interval
from trunkline.harness.report.explanations.fault_search import CHANGES, CUTS
from trunkline.harness.report.explanations.links.tcp_limits import SHORTEST_TIMER_S
from trunkline.harness.report.explanations.repairs import divide_before
from trunkline.harness.report.explanations.task_time import Run
from trunkline.harness.report.explanations.time_parts import Part, merge_parts


@dataclass(frozen=True, slots=True)
class Stay:
    """A member was in an abandoned task for `seconds` from when a fault began, because of it.

    It left the task `beyond_s` after the controller had given it up.
    """

    site: str
    seconds: float
    beyond_s: float
    fault: int


@dataclass(frozen=True, slots=True)
class Missing:
    """What an abandoned task still waited for when it ended.

    Attributes:
        where: the link of the overlay that needed most time for what was missing.
        arrived, planned: bytes of the task over it.
        mbps, usual_mbps: the rate of its slowest link below, on average while the task ran, and in
            the scenario.
        fault: the number of the fault that slowed or cut it; None without one.
    """

    where: str
    arrived: int
    planned: int
    mbps: float
    usual_mbps: float
    fault: int | None

    @property
    def left_s(self) -> float:
        """How long it would have needed at this rate for what was missing."""
        missing = self.planned - self.arrived
        return missing * 8e-6 / self.mbps if self.mbps else math.inf


@dataclass(frozen=True, slots=True)
class Late:
    """How long after a task's end for others members gave it up: `seconds`, in all.

    Of them, `took_s` has what each fault took, by number. What was before the task's end is divided
    among the parts of its time.
    """

    seconds: float = 0.0
    took_s: tuple[tuple[int, float], ...] = ()

    @property
    def faults_s(self) -> float:
        """The time that all faults took of it."""
        return sum(seconds for _, seconds in self.took_s)

    @classmethod
    def of(cls, run: Run, task: Task, fault: int | None, span: Interval) -> Late:
        """The time that members lost from the task's end until they gave it up.

        The task waited for repairs meanwhile: each fault behind one took the time from when it
        began until the next one did, and that behind the end the rest.
        """
        repairs = task.all(TaskHalted, TaskRearranged)
        inside = [event for event in repairs if span[0] < event.t_ns <= span[1]]
        started_ns = task.started.t_ns
        behind = [run.faults.find_behind(e.cause, (), (started_ns, e.t_ns)) for e in inside]
        known = [each for each in (*behind, fault) if each is not None]
        begun_ns = [run.faults.find_begin_ns(each, span) for each in known]
        turns_ns = [*accumulate(begun_ns, max), span[1]]
        took_s: defaultdict[int, float] = defaultdict(float)
        for each, (since_ns, until_ns) in zip(known, pairwise(turns_ns), strict=True):
            took_s[each] += (until_ns - since_ns) / 1e9
        return cls((span[1] - span[0]) / 1e9, tuple((n, s) for n, s in took_s.items() if s))


LEAST_S = 0.001
"""A shorter time is none."""

IN_TIME = Late()
"""Nothing was lost after a task's end."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why members of a task got no result, and the number of the fault behind it, if any.

    Without `members`, the task was abandoned, and `missing` is what it still waited for, unless the
    reason names the fault. `late` tells how long after its end for others members gave it up.
    """

    members: tuple[str, ...]
    reason: str
    fault: int | None
    missing: Missing | None = None
    late: Late = IN_TIME


def list_failures(run: Run, task: Task) -> Iterator[Failure]:
    """Why the task was abandoned, or why members gave it up that others completed; by cause."""
    if task.all(TaskAbandoned):
        last = task.all(TaskAbandoned)[-1]
        fault = _find_fault(run, task, last)
        missing = find_missing(run, task) if fault is None else None
        yield Failure((), run.faults.describe(last.cause, fault, task), fault, missing)
    by_cause: defaultdict[Dropping | None, list[TaskDropped]] = defaultdict(list)
    for event in list_given_up(task):
        by_cause[event.cause].append(event)
    since_ns = task.end_ns or 0
    for cause, events in by_cause.items():
        sites = tuple(event.site for event in events)
        fault = _find_fault(run, task, events[0])
        until_ns = max(since_ns, *(event.t_ns for event in events))
        late = Late.of(run, task, fault, (since_ns, until_ns))
        yield Failure(sites, run.faults.describe(cause, fault, task), fault, late=late)
        since_ns = until_ns


def _find_fault(run: Run, task: Task, event: TaskAbandoned | TaskDropped) -> int | None:
    """The fault behind the end of a task for a member or for all."""
    return run.faults.find_behind(event.cause, {event.site}, (task.started.t_ns, event.t_ns))


def list_given_up(task: Task) -> list[TaskDropped]:
    """The members that gave up what others completed."""
    without = {site for event in task.all(TaskCompleted) for site in event.without}
    return [event for event in task.all(TaskDropped) if event.site in without]


def divide_abandoned(run: Run, task: Task, fault: int | None) -> Iterator[Part]:
    """The time before a fault, until the controller halted the task, and until it abandoned it.

    The time that other faults took before that fault is theirs.

    `fault` is the number of the fault behind the end, if there is one. The task must have been
    abandoned.
    """
    abandoned, started_ns = task.all(TaskAbandoned)[-1], task.started.t_ns
    halts = [event for event in task.all(TaskHalted) if event.t_ns <= abandoned.t_ns]
    last = halts[-1] if halts else abandoned
    begun_ns = run.faults.find_begin_ns(fault, (started_ns, last.t_ns))
    if begun_ns > started_ns:
        yield from _divide_before(run, task, fault, (started_ns, begun_ns))
    reason = run.faults.describe(last.cause, fault, task)
    why = f"{'halted' if halts else 'abandoned'} the task: {reason}"
    if silent_s := run.faults.find_silence_s(last.cause, fault, (begun_ns, last.t_ns)):
        why += f" ({silent_s:.3f} s of this were the wait for failover.timeout)"
    since = "from the fault until" if begun_ns > started_ns else "until"
    text = f"{since} the controller {why}"
    yield Part("end", (last.t_ns - begun_ns) / 1e9, "", fault, text=text)
    if halts:
        yield from _divide_answers(run, halts[-1], abandoned)


def _divide_before(run: Run, task: Task, fault: int | None, span: Interval) -> Iterator[Part]:
    """The time before the fault behind the end: what other faults took of it, and the rest."""
    others = [p for p in divide_before(run, task, span, fault)[1] if p.fault is not None]
    left_s = (span[1] - span[0]) / 1e9 - sum(part.seconds for part in others)
    yield from merge_parts(others)
    yield Part("before the fault", left_s, "", text=f"fault {fault}")


def _divide_answers(run: Run, halted: TaskHalted, abandoned: TaskAbandoned) -> Iterator[Part]:
    """The wait for a member that was lost before it answered the halt, and what is left."""
    lost = [
        event
        for event in run.history.all(WorkerLost)
        if halted.t_ns < event.t_ns <= abandoned.t_ns and event.worker in halted.members
    ]
    answered_ns = halted.t_ns
    if lost:
        who, answered_ns = lost[-1].worker, lost[-1].t_ns
        span, waited_s = (halted.t_ns, answered_ns), (answered_ns - halted.t_ns) / 1e9
        fault = run.faults.find_behind(SiteLost(who), (), span)
        why = f": it waited for {who}, until that counted as lost"
        if silent_s := run.faults.find_silence_s(SiteLost(who), fault, span):
            much = f"{silent_s:.3f} s" if silent_s < waited_s - LEAST_S else "all"
            why += f", {much} of it for failover.timeout"
        yield Part("abandonment", waited_s, who, fault, text=why)
    if answered_ns < abandoned.t_ns:
        yield Part("abandonment", (abandoned.t_ns - answered_ns) / 1e9, "")


def list_stays(run: Run, task: Task) -> Iterator[Stay]:
    """The members that a fault kept in a task for long after it had been abandoned."""
    abandoned, started_ns = task.all(TaskAbandoned)[-1], task.started.t_ns
    for event in task.all(TaskDropped):
        if (beyond_s := (event.t_ns - abandoned.t_ns) / 1e9) > SHORTEST_TIMER_S:
            fault = run.faults.find_behind(SiteLost(event.site), (), (started_ns, event.t_ns))
            if fault is not None:
                begun_ns = run.faults.find_begin_ns(fault, (started_ns, event.t_ns))
                yield Stay(event.site, (event.t_ns - begun_ns) / 1e9, beyond_s, fault)


def find_missing(run: Run, task: Task) -> Missing | None:
    """What a task still waited for when it was abandoned; None if all its bytes had arrived."""
    span = task.started.t_ns, max(event.t_ns for event in task.all(TaskAbandoned))
    planned, arrived = count_planned(task), count_received(task)
    found = []
    for ends, size in planned.items():
        hops = pairwise(run.topology.path(*ends))
        mbps, hop = min((_mean_usable_mbps(run, each, span), each) for each in hops)
        rates = mbps, run.topology.link(*hop).rate_mbps
        fault = run.faults.find({" -> ".join(hop)}, (*CUTS, *CHANGES), *span)
        found.append(Missing(" -> ".join(ends), arrived[ends], size, *rates, fault))
    found = [each for each in found if each.arrived < each.planned]
    return max(found, key=lambda each: each.left_s, default=None)


def _mean_usable_mbps(run: Run, hop: Directed, span: Interval) -> float:
    """The link's mean rate in a span of time, 0 while it is cut."""
    megabits = sum(
        spell.link.rate_mbps * (end_ns - start_ns) / 1e9
        for spell, start_ns, end_ns in run.conditions.within(hop, *span)
        if not spell.is_cut
    )
    return megabits * 1e9 / max(1, span[1] - span[0])
