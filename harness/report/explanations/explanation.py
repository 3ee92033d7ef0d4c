"""Why a task took as long as it did, and why its group waited before it (pure)."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

from trunkline.agents.events.task_events import TaskAbandoned
from trunkline.agents.planning.plan import Directed
from trunkline.harness.record.history import Task
from trunkline.harness.record.lives import Interval
from trunkline.harness.report.explanations.abandonment import (
    Failure,
    Stay,
    divide_abandoned,
    list_failures,
    list_given_up,
    list_stays,
)
from trunkline.harness.report.explanations.costs.faster_bytes import (
    describe_faster,
)
from trunkline.harness.report.explanations.critical_path import PathStep, find_critical_path
from trunkline.harness.report.explanations.detours import Detour
from trunkline.harness.report.explanations.links.link_loads import Shared
from trunkline.harness.report.explanations.other_ways import charge_other_ways
from trunkline.harness.report.explanations.repairs import divide_repaired
from trunkline.harness.report.explanations.task_time import Run
from trunkline.harness.report.explanations.time_parts import (
    PLANNED,
    Part,
    cut_part,
    merge_parts,
    sort_parts,
)
from trunkline.harness.report.explanations.waits import Wait

SLOW = 0.5
"""A task is slow if it took longer than expected by more than this share."""

DISTURBED = 0.1
"""A fault that took more than this share of a task's expected time is worth a word."""

LEAST_WAIT_S = 0.1
"""A shorter wait before a task is not worth a word."""

EXPECTED = (*PLANNED, "before the fault")
"""The causes that are no reason why a task was late."""


@dataclass(frozen=True, slots=True, eq=False)
class Explanation:
    """Why a task took `duration_s`, where `expected_s` was predicted for its plan.

    Attributes:
        steps: the critical path; empty if the task was not completed.
        parts: where the time went, the longest first.
        main: the part that explains best why it did not end earlier; None if it was abandoned.
        wait: how its group came together; None for tasks without members that are ready.
        failures: why it was abandoned, or why some members got no result.
        lost_s: by how much it took longer than expected, or until a member gave up, how long others
            waited for a last member while a fault stopped that, and how long they waited after
            their group was complete; of an abandoned task it is all of its time.
        shared: the links of its path on which its contributions and its results met.
        stays: the members that were in it for long after it had been abandoned.
        detour: what its plan did without, if `expected_s` is that of a plan with all of it.
        planned_s: what its own plan was to take.
        spared: why its own bytes took less than expected.
    """

    task: Task
    duration_s: float
    expected_s: float
    steps: tuple[PathStep, ...]
    parts: tuple[Part, ...]
    main: Part | None
    wait: Wait | None
    failures: tuple[Failure, ...] = ()
    lost_s: float = 0.0
    shared: tuple[Shared, ...] = ()
    stays: tuple[Stay, ...] = ()
    detour: Detour | None = None
    planned_s: float = math.nan
    spared: str = ""

    @property
    def is_slow(self) -> bool:
        """Whether it took much longer than expected."""
        return self.duration_s > (1 + SLOW) * self.expected_s

    @property
    def is_abandoned(self) -> bool:
        """Whether no member got a result."""
        return bool(self.task.all(TaskAbandoned))

    @property
    def taken_s(self) -> dict[int, float]:
        """How much of its critical path each fault took, in seconds, by the number of the fault.

        An abandoned task lost all of its time to the fault behind its end, but for the parts of
        other faults. One that members gave up after its end lost the time until they did.
        """
        found: defaultdict[int, float] = defaultdict(float)
        for part in self.parts:
            if part.fault is not None:
                found[part.fault] += part.seconds
        for failure in self.failures:
            if self.is_abandoned and failure.fault is not None:
                found[failure.fault] += self.duration_s - sum(found.values())
            for fault, seconds in failure.late.took_s:
                found[fault] += seconds
        return dict(found)

    @property
    def before_s(self) -> dict[int, float]:
        """How long its group waited for something that a fault was behind, in seconds.

        For what the controller waited for, and for the last member while a fault stopped it.
        """
        if self.wait is None:
            return {}
        found = self.wait.behind_s
        held = self.wait.held
        if held is not None and held.stop.fault is not None and held.lost_s:
            found[held.stop.fault] = found.get(held.stop.fault, 0.0) + held.lost_s
        return found

    @property
    def faults(self) -> frozenset[int]:
        """The faults that took some of its time, or were behind a wait before it."""
        ended = (each.fault for each in self.failures if each.fault is not None)
        return frozenset((*self.taken_s, *self.before_s, *ended))

    def began_late(self, fault: int) -> bool:
        """Whether it began late because of a fault: for a good part of a wait worth a word."""
        is_long = self.wait is not None and self.wait.lost_s >= LEAST_WAIT_S
        return is_long and self.wait is not None and fault in self.wait.faults

    @property
    def is_disturbed(self) -> bool:
        """Whether faults took a considerable share of its expected time."""
        return sum(self.taken_s.values()) > DISTURBED * self.expected_s

    @property
    def groups(self) -> list[tuple[Part, ...]]:
        """The unexpected parts by fault, or by cause without one; the longest group first.

        The times of faults, of other causes and `own_s` add up to `late_s`.
        """
        found: defaultdict[str | int, list[Part]] = defaultdict(list)
        for part in self.parts:
            if part.cause not in EXPECTED:
                found[_name_cause(part)].append(part)
        groups = (tuple(parts) for parts in found.values())
        return sorted(groups, key=lambda parts: -sum(part.seconds for part in parts))

    @property
    def late_s(self) -> float:
        """By how much it took longer than expected; less than nothing if it was fast."""
        return self.duration_s - self.expected_s

    @property
    def own_s(self) -> float:
        """By how much its own bytes and propagation took longer than expected, or less."""
        return sum(part.seconds for part in self.parts if part.cause in EXPECTED) - self.expected_s

    @property
    def main_parts(self) -> tuple[Part, ...]:
        """The parts of the main cause of a slow task: all that the same fault caused.

        Of a main cause that was expected, and of other tasks without a fault, it is one part.
        """
        if self.main is None or self.main.cause in EXPECTED:
            return () if self.main is None else (self.main,)
        if not self.is_slow and self.main.fault is None:
            return (self.main,)
        cause = _name_cause(self.main)
        others = (part for part in self.parts if part.cause not in EXPECTED)
        return tuple(part for part in others if _name_cause(part) == cause)

    @property
    def main_s(self) -> float:
        """How long the main cause took, in seconds."""
        return sum(part.seconds for part in self.main_parts)

    @property
    def is_notable(self) -> bool:
        """Whether it was slow, failed for a member, or lost time or began late for a fault."""
        waited_s = 0.0 if self.wait is None else self.wait.lost_s
        began_late = any(map(self.began_late, self.before_s))
        has_waited = waited_s > SLOW * max(self.expected_s, 0.0) and waited_s >= LEAST_WAIT_S
        return any((self.is_slow, self.failures, began_late, has_waited, self.is_disturbed))


def explain(
    run: Run,
    task: Task,
    expected_s: float,
    wait: Wait | None,
    detour: Detour | None = None,
) -> Explanation:
    """Explain one task, which must have ended; `expected_s` is what its plan was to take.

    `wait` has the fault behind its reason.
    """
    whole, task = task, task.until_end
    assert task.duration_s is not None
    steps = find_critical_path(task, run.delays_ms, run.was_busy, find_got=run.find_got_ns)
    is_repaired = bool(steps) and steps[0].kind == "repair"
    if is_repaired:
        steps, parts = divide_repaired(run, task, steps, expected_s)
    else:
        parts = merge_parts(part for step in steps for part in run.divide(task, step))
        if steps:
            parts = charge_other_ways(run, task, steps[-1].end_ns, parts)
    failures, is_abandoned = tuple(list_failures(run, whole)), bool(task.all(TaskAbandoned))
    planned_s = expected_s
    if is_abandoned:
        parts = sort_parts(divide_abandoned(run, task, failures[0].fault))
    elif detour is not None:
        expected_s = detour.usual_s
        parts = _charge_detour(run, task, parts, detour, planned_s)
    made = Explanation(
        whole,
        task.duration_s,
        expected_s,
        steps,
        parts,
        None,
        wait,
        failures,
        measure_lost_s(task, expected_s, wait),
        run.loads.find_shared(task.number, _list_hops(run, steps)),
        tuple(list_stays(run, task)) if is_abandoned else (),
        None if is_abandoned else detour,
        planned_s,
    )
    faster = describe_faster(run, task, parts, -made.own_s)
    made = replace(made, spared=faster)
    return made if is_abandoned else replace(made, main=_choose_main(made))


def _list_hops(run: Run, steps: Iterable[PathStep]) -> Iterator[tuple[Directed, Interval]]:
    """The links of a path, and when it waited for what they carried."""
    for step in steps:
        if step.kind == "transfer":
            for hop in pairwise(run.topology.path(step.src, step.site)):
                yield hop, (step.start_ns, step.end_ns)


def _charge_detour(
    run: Run, task: Task, parts: tuple[Part, ...], detour: Detour, planned_s: float
) -> tuple[Part, ...]:
    """Charge by how much the task's plan is longer to the fault behind the loss in it.

    So is what connections took that only this plan uses, because they were cold.
    """
    when = task.started.t_ns, task.started.t_ns
    fault = run.faults.find_behind(detour.cause, (), when)
    usual = {" -> ".join(hop) for hop in detour.links}
    parts = tuple(
        replace(part, fault=fault)
        if part.cause == "cold start" and part.fault is None and part.where not in usual
        else part
        for part in parts
    )
    longest = next((part for part in parts if part.cause == "rate"), None)
    took_s = sum(part.seconds for part in parts if part.cause in PLANNED)
    excess_s = min(took_s, planned_s) - detour.usual_s
    if longest is None or (excess_s := min(excess_s, longest.seconds)) <= 0:
        return parts
    more = cut_part(longest, excess_s, "longer plan", fault, detour.without)
    return sort_parts([part for part in parts if part is not longest] + more)


def _choose_main(found: Explanation) -> Part | None:
    """Of a slow task the cause that took longest and was not expected, else the longest part.

    All that the same fault caused counts as one cause. Of a task that was not slow it is a fault
    that took a considerable share of its time.
    """
    by_cause: defaultdict[str | int, float] = defaultdict(float)
    for part in found.parts:
        if part.cause not in EXPECTED and (found.is_slow or part.fault is not None):
            by_cause[_name_cause(part)] += part.seconds
    enough_s = found.late_s / 2 if found.is_slow else DISTURBED * found.expected_s
    if by_cause and sum(by_cause.values()) >= enough_s:
        cause = max(by_cause, key=lambda each: by_cause[each])
        return next(part for part in found.parts if _name_cause(part) == cause)
    return next(iter(found.parts), None)


def _name_cause(part: Part) -> str | int:
    return part.cause if part.fault is None else part.fault


def measure_lost_s(task: Task, expected_s: float, wait: Wait | None) -> float:
    """The time that a task lost, which has ended; less than nothing if it was fast."""
    ends_ns = [task.end_ns or 0, *(event.t_ns for event in list_given_up(task))]
    needed_s = 0.0 if task.all(TaskAbandoned) or math.isnan(expected_s) else expected_s
    waited_s = 0.0 if wait is None else wait.lost_s
    return waited_s + (max(ends_ns) - task.started.t_ns) / 1e9 - needed_s
