"""Why a task's own bytes took less than expected (pure)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from trunkline.agents.events.task_events import TaskHalted, TaskRearranged
from trunkline.harness.background.flows import leave_rates
from trunkline.harness.checks.payload.byte_checks import count_planned
from trunkline.harness.config.units import short_size
from trunkline.harness.record.history import Task
from trunkline.harness.report.explanations.costs.hop_needs import count_on_hops, need_s
from trunkline.harness.report.explanations.task_time import Run
from trunkline.harness.report.explanations.time_parts import Part
from trunkline.harness.report.tables.forecasts import make_forecaster
from trunkline.harness.scenario.settings import Scenario

SPARED = 0.95
"""A link carried less on the critical path than planned if it was less than this share."""

ENOUGH = 0.5
"""Background traffic is the reason if it adds this share of the time that was saved."""

LEAST_S = 0.0005
"""A shorter time is none."""


def make_background_meter(scenario: Scenario) -> Callable[[Task], float]:
    """A function that says what background traffic adds to the estimate of a task's plan, in s."""
    if not scenario.background:
        return lambda task: 0.0
    usual, quiet = make_forecaster(scenario), make_forecaster(replace(scenario, background=()))
    return lambda task: usual(task.started).estimate_s - quiet(task.started).estimate_s


def describe_faster(
    run: Run, task: Task, parts: Iterable[Part], saved_s: float, background_s: float
) -> str:
    """Why a task's own bytes took `saved_s` less than in the estimate; empty if it is not known.

    Background traffic adds `background_s` to the estimate.
    """
    if background_s >= max(LEAST_S, ENOUGH * saved_s):  # which is a cause of its own
        return f"the expected time has {background_s:.3f} s for background traffic in it"
    stopped = [part for part in parts if part.cause == "stop" and part.seconds >= saved_s]
    if stopped:
        return f"bytes moved while {stopped[0].where} was stopped"
    planned = count_on_hops(run.topology, count_planned(task))
    if not planned or task.all(TaskHalted, TaskRearranged):
        return ""
    active = [flow for flow in run.flows if flow.is_active(task.started.t_ns / 1e9)]
    mbps = leave_rates(run.topology.rates_mbps(), run.topology, active)
    hop = max(planned, key=lambda hop: need_s(planned[hop], mbps[hop]))
    where = " -> ".join(hop)
    own = (part for part in parts if part.cause in ("rate", "longer plan"))
    carried = sum(part.bytes for part in own if part.where == where)
    if not carried:
        return f"{where}, the busiest link of the plan, is not on the critical path"
    sizes = f"{short_size(carried)} of {short_size(planned[hop])}"
    text = f"only {sizes} on {where}, the busiest link of the plan, are on the critical path"
    return text if carried < SPARED * planned[hop] else ""
