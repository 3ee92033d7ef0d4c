"""Why a task took as long as it did, and why its group waited before it (pure)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

import pandas as pd

from trunkline.agents.events.round_events import ComputeStarted, Ready
from trunkline.agents.events.task_events import Contributed
from trunkline.harness.background.flows import list_flows
from trunkline.harness.record.history import History, Task
from trunkline.harness.report.explanations.causes import PLANNED, Part, Run
from trunkline.harness.report.explanations.critical_path import Step, find_critical_path
from trunkline.harness.scenario.settings import Scenario

SLOW = 0.5
"""A task is slow if it took longer than expected by more than this share."""


@dataclass(frozen=True, slots=True)
class Wait:
    """How the group of a task came together.

    Attributes:
        last: the member that was ready last.
        wait_s: how long the first one had waited for it.
        compute_s: how long the last one had computed; None if it came otherwise.
        decide_s: from then until the controller started the task.
    """

    last: str
    wait_s: float
    compute_s: float | None
    decide_s: float


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a task took `duration_s`, where `expected_s` was predicted for its plan.

    Attributes:
        steps: the critical path; empty if the task was not completed.
        parts: where the time went, the longest first.
        main: the part that explains best why it did not end earlier; None without parts.
        wait: how its group came together; None for tasks without members that are ready.
    """

    task: Task
    duration_s: float
    expected_s: float
    steps: tuple[Step, ...]
    parts: tuple[Part, ...]
    main: Part | None
    wait: Wait | None

    @property
    def is_slow(self) -> bool:
        """Whether it took much longer than expected."""
        return self.duration_s > (1 + SLOW) * self.expected_s


def explain(run: Run, task: Task, expected_s: float) -> Explanation:
    """Explain one task, which must have ended."""
    assert task.duration_s is not None
    steps = find_critical_path(task, run.delays_ms, run.was_busy)
    parts = _merge(part for step in steps for part in run.divide(task, step))
    made = Explanation(
        task, task.duration_s, expected_s, steps, parts, None, _find_wait(run.history, task)
    )
    return replace(made, main=_choose_main(made))


def _merge(parts: Iterator[Part]) -> tuple[Part, ...]:
    """Add parts of the same cause, place and fault; the longest first."""
    found: dict[tuple[str, str, int | None], Part] = {}
    for part in parts:
        key = part.cause, part.where, part.fault
        if before := found.get(key):
            seconds, size = before.seconds + part.seconds, before.bytes + part.bytes
            longer = max(before, part, key=lambda each: each.seconds)
            part = replace(longer, seconds=seconds, bytes=size)
        found[key] = part
    return tuple(sorted(found.values(), key=lambda part: -part.seconds))


def _choose_main(found: Explanation) -> Part | None:
    """Of a slow task the cause that took longest and was not expected, else the longest one."""
    by_cause: defaultdict[str, float] = defaultdict(float)
    for part in found.parts:
        by_cause[part.cause] += part.seconds
    unexpected = {cause: s for cause, s in by_cause.items() if cause not in PLANNED}
    late_s = found.duration_s - found.expected_s
    if found.is_slow and sum(unexpected.values()) >= late_s / 2:
        cause = max(unexpected, key=lambda each: unexpected[each])
        return next(part for part in found.parts if part.cause == cause)
    return next(iter(found.parts), None)


def _find_wait(history: History, task: Task) -> Wait | None:
    started = task.started
    active = set(started.group) - set(started.passive)
    ready: dict[str, int] = {}
    began: dict[str, int] = {}
    computed: dict[str, int] = {}
    for event in history.events:
        if event.t_ns > started.t_ns:
            break
        if isinstance(event, ComputeStarted):
            began[event.site] = event.t_ns
        elif isinstance(event, Ready):
            ready[event.site] = event.t_ns
            if event.site in began:
                computed[event.site] = event.t_ns - began.pop(event.site)
        elif isinstance(event, Contributed):  # it waits no more, such as before a pull
            ready.pop(event.site, None)
    known = {site: t_ns for site, t_ns in ready.items() if site in active}
    if not known:
        return None
    last = max(known, key=lambda site: known[site])
    wait_ns = known[last] - min(known.values())
    compute_s = computed[last] / 1e9 if last in computed else None
    return Wait(last, wait_ns / 1e9, compute_s, (started.t_ns - known[last]) / 1e9)


def explain_tasks(
    scenario: Scenario, history: History, tasks: pd.DataFrame, numbers: Collection[int]
) -> list[Explanation]:
    """Explain these tasks, as far as they have ended, in order of start.

    `tasks` is the table of tasks, which has what was expected of them.
    """
    run = Run(
        history,
        scenario.topology,
        scenario.network.mtu,
        scenario.controller_site,
        list_flows(scenario.background),
    )
    expected_s = (tasks["estimate_s"] + tasks["latency_s"]).tolist()
    return [
        explain(run, task, expected_s[row])
        for row, task in enumerate(history.tasks)
        if task.number in numbers and task.duration_s is not None
    ]


def find_slowest(tasks: pd.DataFrame, count: int) -> list[int]:
    """The numbers of the tasks that took longest, compared with what was expected of them."""
    ratio = tasks["duration_s"] / (tasks["estimate_s"] + tasks["latency_s"])
    rows = ratio.dropna().nlargest(count).index
    return [int(number) for number in tasks["task"][rows]]
