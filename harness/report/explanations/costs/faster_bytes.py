"""Why a task's own bytes took less than expected (pure)."""

from __future__ import annotations

from collections.abc import Iterable

from trunkline.agents.events.task_events import TaskHalted, TaskRearranged
from trunkline.harness.checks.payload.byte_checks import count_planned
from trunkline.harness.config.units import short_size
from trunkline.harness.record.history import Task
from trunkline.harness.report.explanations.costs.hop_needs import count_on_hops, need_s
from trunkline.harness.report.explanations.task_time import Run
from trunkline.harness.report.explanations.time_parts import Part

SPARED = 0.95
"""A link carried less on the critical path than planned if it was less than this share."""


def describe_faster(run: Run, task: Task, parts: Iterable[Part], saved_s: float) -> str:
    """Why a task's own bytes took `saved_s` less than in the estimate; empty if it is not known."""
    stopped = [part for part in parts if part.cause == "stop" and part.seconds >= saved_s]
    if stopped:
        return f"bytes moved while {stopped[0].where} was stopped"
    planned = count_on_hops(run.topology, count_planned(task))
    if not planned or task.all(TaskHalted, TaskRearranged):
        return ""
    mbps = run.topology.rates_mbps()
    hop = max(planned, key=lambda hop: need_s(planned[hop], mbps[hop]))
    where = " -> ".join(hop)
    own = (part for part in parts if part.cause in ("rate", "longer plan"))
    carried = sum(part.bytes for part in own if part.where == where)
    if not carried:
        return f"{where}, the busiest link of the plan, is not on the critical path"
    sizes = f"{short_size(carried)} of {short_size(planned[hop])}"
    text = f"only {sizes} on {where}, the busiest link of the plan, are on the critical path"
    return text if carried < SPARED * planned[hop] else ""
