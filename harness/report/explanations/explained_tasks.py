"""The explanations of the tasks of a run, and of those that lost most time (pure)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import pandas as pd

from trunkline.agents.events.task_events import TaskAbandoned
from trunkline.harness.background.flows import list_flows
from trunkline.harness.record.history import History, Task
from trunkline.harness.record.link_history import Conditions
from trunkline.harness.report.explanations.costs.wait_faults import add_fault
from trunkline.harness.report.explanations.detours import Detour, find_detours
from trunkline.harness.report.explanations.explanation import (
    Explanation,
    explain,
    measure_lost_s,
)
from trunkline.harness.report.explanations.lost_reports import Overlay, restore
from trunkline.harness.report.explanations.stretches import Turns
from trunkline.harness.report.explanations.task_time import Run
from trunkline.harness.report.explanations.waits import LATE, Wait, find_waits
from trunkline.harness.report.tables.forecasts import make_forecaster
from trunkline.harness.scenario.failover_timeouts import make_failover
from trunkline.harness.scenario.settings import Scenario

MOST = 60
"""Of a run, so many tasks that lost most time are explained."""

LEAST_LATE_S = 0.002
"""A task that took so much longer than expected may have lost it to a fault."""


def explain_tasks(
    scenario: Scenario, history: History, tasks: pd.DataFrame, numbers: Collection[int]
) -> list[Explanation]:
    """Explain these tasks, as far as they have ended, in order of start.

    `tasks` is the table of tasks, which has what was expected of them.
    """
    expected_s = list_alone(scenario, history, tasks)
    detours = find_detours(scenario, history, expected_s)
    waits = find_waits(history)
    return _explain(scenario, history, expected_s, waits, numbers, detours)


def explain_latest(
    scenario: Scenario, history: History, tasks: pd.DataFrame, count: int = MOST
) -> list[Explanation]:
    """Explain the `count` tasks that lost most time (`lost_s`), the worst first."""
    expected_s, waits = list_alone(scenario, history, tasks), find_waits(history)
    detours = find_detours(scenario, history, expected_s)
    usual_s = {number: detour.usual_s for number, detour in detours.items()}
    lost_s = {
        task.number: measure_lost_s(
            task, usual_s.get(task.number, planned_s), waits.get(task.number)
        )
        for task, planned_s in zip(history.tasks, expected_s, strict=True)
        if task.end_ns is not None
    }
    worst = sorted(lost_s, key=lambda number: -lost_s[number])[:count]
    found = _explain(scenario, history, expected_s, waits, worst, detours)
    return sorted(found, key=lambda each: worst.index(each.task.number))


@dataclass(frozen=True)
class _Tasks:
    """The tasks of a run that have ended, each explained when it is asked for.

    Attributes:
        planned_s: what the plan of each task was to take, in seconds, by its number.
    """

    scenario: Scenario
    history: History
    planned_s: Mapping[int, float]
    waits: Mapping[int, Wait]
    detours: Mapping[int, Detour]

    @cached_property
    def _run(self) -> Run:
        return Run(
            self.history,
            self.scenario.topology,
            self.scenario.network.mtu,
            self.scenario.controller_site,
            list_flows(self.scenario.background),
            round(make_failover(self.scenario).timeout_s * 1e9),
            self.scenario.failover.backup or "",
        )

    @cached_property
    def ended(self) -> Mapping[int, Task]:
        """The tasks that have ended, by their numbers."""
        return {task.number: task for task in self.history.tasks if task.duration_s is not None}

    @cached_property
    def _turns(self) -> Turns:
        return Turns(self.history, self._run.faults, self._waits, self._list_taken_s)

    @cached_property
    def _waits(self) -> Mapping[int, Wait]:
        """The waits before all tasks, with the faults behind their reasons."""
        if not self.history.faults:
            return self.waits
        started = {task.number: task for task in self.history.tasks}
        return {
            number: add_fault(self._run, started[number], wait)
            for number, wait in self.waits.items()
        }

    @cached_property
    def _alone(self) -> dict[int, Explanation]:
        return {}

    def _explain_alone(self, number: int) -> Explanation:
        """A task without what held its group up in earlier tasks."""
        if number not in self._alone:
            task, wait = self.ended[number], self._waits.get(number)
            if wait is not None and not self.history.faults:
                wait = add_fault(self._run, task, wait)
            self._alone[number] = explain(
                self._run,
                task,
                self.planned_s[number],
                wait,
                self.detours.get(number),
            )
        return self._alone[number]

    def _list_taken_s(self, number: int) -> dict[int, float]:
        """What faults took of a task; nothing is asked of one that was as expected."""
        if number not in self.ended or not self.history.faults:
            return {}
        task = self.ended[number]
        late_s = (task.duration_s or 0.0) - self.planned_s[number]
        if late_s < LEAST_LATE_S and number not in self.detours and not task.all(TaskAbandoned):
            return {}
        return self._explain_alone(number).taken_s

    def _find_behind(self, wait: Wait) -> int | None:
        """The fault that held the last member up in the task before, for a good part of the wait.

        It had begun when this member left that task.
        """
        task, left_ns = self._turns.find_left(wait)
        if wait.after is None or task is None or task.number not in self.ended:
            return None
        began_ns = {e.started.fault: e.started.t_ns for e in self.history.faults}
        taken_s = self._list_taken_s(task.number)
        begun = [fault for fault in taken_s if began_ns[fault] < left_ns]
        fault = max(begun, key=lambda each: taken_s[each], default=None)
        late_s = (left_ns - task.started.t_ns) / 1e9 - self.planned_s[task.number]
        least_s = max(LATE * wait.wait_s, LEAST_LATE_S)
        is_much = fault is not None and min(taken_s[fault], late_s) >= least_s
        return fault if is_much else None

    def explain(self, number: int) -> Explanation:
        """A task with what held its group up, and its last member, in earlier tasks."""
        found = self._explain_alone(number)
        if (wait := found.wait) is None:
            return found
        wait = replace(wait, behind=self._find_behind(wait))
        wait = replace(wait, stretches=self._turns.divide(found.task, wait))
        return replace(found, wait=wait)


def _explain(
    scenario: Scenario,
    history: History,
    expected_s: Sequence[float],
    waits: Mapping[int, Wait],
    numbers: Collection[int],
    detours: Mapping[int, Detour],
) -> list[Explanation]:
    topology = scenario.topology
    overlay = Overlay(
        Conditions.of(history, topology).least_delays_ms, topology.overlay.rates_mbps()
    )
    history = restore(history, overlay)
    planned_s = dict(zip((task.number for task in history.tasks), expected_s, strict=True))
    tasks = _Tasks(scenario, history, planned_s, waits, detours)
    return [tasks.explain(number) for number in tasks.ended if number in numbers]


def list_alone(scenario: Scenario, history: History, tasks: pd.DataFrame) -> list[float]:
    """The same without background traffic, which is a cause of its own."""
    if not scenario.background:
        return list_expected(tasks)
    forecast = make_forecaster(replace(scenario, background=()))
    found = (forecast(task.started) for task in history.tasks)
    return [each.estimate_s + each.latency_s for each in found]


def list_expected(tasks: pd.DataFrame) -> list[float]:
    """The time that each task's plan needs, in seconds; NaN where it is not known."""
    found: list[float] = (tasks["estimate_s"] + tasks["latency_s"]).tolist()
    return found
