"""The table of branches that were computed as they arrived, and its numbers of the run (pure)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pandas as pd

from trunkline.agents.events.round_events import ComputeFinished
from trunkline.harness.record.branches import list_computed
from trunkline.harness.record.history import History
from trunkline.harness.report.tables.row import Columns, Row, column, to_s
from trunkline.workloads.layered.model import LayeredModel


class BranchRow(Row, table="branches"):
    """One row per forward computation of a branch, in order of its end; only with a workload
    in layers: `layered`, `training_in_layers`, or one of your own.
    """  # noqa: D205

    site: str = column("the worker")
    iteration: int = column("its iteration, from 0")
    branch: int = column("the number of the branch, from 0")
    name: str = column("its base, and its name if the base has several branches")
    task: int | None = column(
        "the task that brought its parameters; empty if they were here before"
    )
    arrived_s: float | None = column("when all of its parameters had arrived")
    start_s: float = column("when its computation began")
    end_s: float = column("when its computation had ended")
    stall_s: float = column(
        "how long the worker waited for it: since the branch before, or for the first one since it "
        "had joined the task"
    )
    kept: bool = column(
        "whether the worker finished the iteration with it; false if it forgot the branch, because "
        "the task was given up or the worker was killed, or if the run ended before"
    )


class StallsOfRun(Columns):
    """The columns of the table `run` that are about stalls."""

    stall_s: float = column(
        "mean time in which a worker waited for branches of its next iteration. This column and "
        "the next two count iterations that were finished with the branches of one hand-out, if it "
        "began after the warm-up. They do not count what was forgotten (`kept` of `branches`), and "
        "are empty without a workload in layers"
    )
    step_s: float = column(
        "mean time from the start of a hand-out at a worker to the end of the iteration that it "
        "computes with it, forward and backward"
    )
    stall_percent: float = column(
        "share of the stalls in these steps: communication that is not hidden"
    )


def tabulate_branches(history: History, layers: LayeredModel) -> Iterator[BranchRow]:
    """One row per computed branch, in order of its end; `layers` has the names of the branches."""
    names = [
        f"{base.name}/{branch.name}" if len(base.branches) > 1 else base.name
        for base in layers.bases
        for branch in base.branches
    ]
    for done in list_computed(history):
        yield BranchRow(
            site=done.site,
            iteration=done.iteration,
            branch=done.branch,
            name=names[done.branch] if done.branch < len(names) else "",
            task=done.task,
            arrived_s=to_s(done.arrived_ns),
            start_s=done.start_ns / 1e9,
            end_s=done.end_ns / 1e9,
            stall_s=done.stall_ns / 1e9,
            kept=done.kept,
        )


def summarize(
    branches: pd.DataFrame | None, history: History, begin_s: float = 0.0
) -> StallsOfRun | None:
    """The stalls of a run; None without branches that arrived.

    They count the iterations that were finished with the parameters of one hand-out, which began
    after the warm-up.
    """
    if branches is None:
        return None
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
        return None
    return StallsOfRun(
        stall_s=sum(stalls) / len(stalls),
        step_s=sum(steps) / len(steps),
        stall_percent=100 * sum(stalls) / sum(steps),
    )
