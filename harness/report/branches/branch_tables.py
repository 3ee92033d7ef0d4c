"""The table of branches that were computed as they arrived, and its numbers of the run (pure)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import pandas as pd

from trunkline.agents.events.round_events import ComputeFinished
from trunkline.harness.record.branches import list_computed
from trunkline.harness.record.history import History
from trunkline.harness.report import columns
from trunkline.workloads.layered.model import LayeredModel


def tabulate_branches(history: History, layers: LayeredModel) -> pd.DataFrame:
    """One row per computed branch, in order of its end; `layers` has the names of the branches."""
    names = [
        f"{base.name}/{branch.name}" if len(base.branches) > 1 else base.name
        for base in layers.bases
        for branch in base.branches
    ]
    rows: list[Mapping[str, Any]] = []
    for done in list_computed(history):
        rows.append(
            {
                "site": done.site,
                "iteration": done.iteration,
                "branch": done.branch,
                "name": names[done.branch] if done.branch < len(names) else "",
                "task": done.task,
                "arrived_s": None if done.arrived_ns is None else done.arrived_ns / 1e9,
                "start_s": done.start_ns / 1e9,
                "end_s": done.end_ns / 1e9,
                "stall_s": done.stall_ns / 1e9,
                "kept": done.kept,
            }
        )
    return columns.BRANCHES.frame(rows)


def summarize(
    branches: pd.DataFrame | None, history: History, begin_s: float = 0.0
) -> dict[str, float | None]:
    """The columns of the table `run` that are about stalls; empty without branches that arrived.

    They count the iterations that were finished with the parameters of one hand-out, which began
    after the warm-up.
    """
    empty: dict[str, float | None] = dict.fromkeys(("stall_s", "step_s", "stall_percent"))
    if branches is None:
        return empty
    finished_s: defaultdict[tuple[Any, Any], list[float]] = defaultdict(list)
    for event in history.all(ComputeFinished):
        finished_s[event.site, event.iteration].append(event.t_ns / 1e9)
    stalls, steps = [], []
    brought = branches[branches["kept"] & branches["task"].notna()]
    for (site, iteration, _), step in brought.groupby(["site", "iteration", "task"]):
        begun_s = float(step["start_s"].iloc[0] - step["stall_s"].iloc[0])
        if begun_s >= begin_s:
            computed_s = float(step["end_s"].iloc[-1])
            end_s = min(t_s for t_s in finished_s[site, iteration] if t_s >= computed_s - 1e-6)
            stalls.append(float(step["stall_s"].sum()))
            steps.append(end_s - begun_s)
    if not steps:
        return empty
    return {
        "stall_s": sum(stalls) / len(stalls),
        "step_s": sum(steps) / len(steps),
        "stall_percent": 100 * sum(stalls) / sum(steps),
    }
