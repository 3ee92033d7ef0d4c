"""The table of the updates that servers got, and its numbers of the whole run (pure)."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from trunkline.agents.events.task_events import ModelMerged, TaskFinished
from trunkline.harness.fluid.fluid_counts import compute_zero_share
from trunkline.harness.record.history import History, Task
from trunkline.harness.report.tables.row import Columns, Row, column

MEASURES: Mapping[str, str] = {
    "gap_s": "gap between updates (s)",
    "pull_s": "time of a pull (s)",
    "staleness": "staleness (updates)",
}
"""The columns whose distributions are drawn -> the labels of their axes."""


@dataclass(frozen=True, slots=True)
class Pull:
    """A worker's pull: when servers gave their models, when the worker had them, its duration."""

    given_ns: int
    had_ns: int
    duration_s: float


class UpdateRow(Row, table="updates"):
    """One row per update of a worker that all servers have, in order of time; only with servers."""

    t_s: float = column("when the last server had added it to its model")
    task: int = column("the push; updates of one push come at the same time")
    site: str = column("the worker")
    iteration: int = column("its iteration, from 0")
    staleness: int = column(
        "pushes that the servers added between the worker's latest pull and this one"
    )
    gap_s: float | None = column(
        "time since the update before; 0 within a push, empty for the first"
    )
    push_s: float = column("time from the push's start at the controller to `t_s`")
    pull_s: float | None = column(
        "time from the start of that latest pull until the worker had the model; empty before its "
        "first pull"
    )


class UpdatesOfRun(Columns):
    """The columns of the table `run` that are about updates at servers."""

    zero_gaps_percent: float = column(
        "gaps between updates at servers that are shorter than a tenth of the mean gap; this "
        "column and the next three are empty without servers"
    )
    staleness: float = column("mean staleness of updates")
    staleness_most: float = column("largest staleness of an update")
    push_s: float = column("mean time of the pushes of updates")
    pull_s: float = column("mean time of the pulls before updates")


def tabulate_updates(history: History, servers: Sequence[str]) -> Iterator[UpdateRow]:
    """One row per update of a worker that all `servers` have, in order of time.

    The updates of a push come at the same time: when the last server has the sum.
    """
    merged = ((_find_merge(task, servers), task) for task in history.completed)
    pushes = [(at_ns, task) for at_ns, task in merged if at_ns is not None]
    pushes.sort(key=lambda push: push[0])
    times_ns = [at_ns for at_ns, _ in pushes]
    pulls = _find_pulls(history, servers)
    before_ns: int | None = None
    for number, (merged_ns, task) in enumerate(pushes):
        for event in task.inputs:
            known = pulls.get(event.site, [])
            had = bisect_right(known, event.t_ns, key=lambda pull: pull.had_ns)
            pull = known[had - 1] if had else None
            version = bisect_right(times_ns, pull.given_ns) if pull else 0
            yield UpdateRow(
                t_s=merged_ns / 1e9,
                task=task.number,
                site=event.site,
                iteration=event.iteration,
                staleness=number - version,
                gap_s=None if before_ns is None else (merged_ns - before_ns) / 1e9,
                push_s=(merged_ns - task.started.t_ns) / 1e9,
                pull_s=pull.duration_s if pull else None,
            )
            before_ns = merged_ns


def summarize(updates: pd.DataFrame | None) -> UpdatesOfRun | None:
    """The updates of a run in numbers; None without updates that have gaps."""
    if updates is None or len(updates) < 2:
        return None
    gaps = updates["gap_s"].dropna()
    return UpdatesOfRun(
        zero_gaps_percent=compute_zero_share(gaps.to_numpy(np.float64)),
        staleness=float(updates["staleness"].mean()),
        staleness_most=float(updates["staleness"].max()),
        push_s=float(updates["push_s"].mean()),
        pull_s=float(updates["pull_s"].mean()),
    )


def distribute(values: pd.Series) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The values in ascending order, and the share of values up to each, in percent."""
    known = np.sort(values.dropna().to_numpy(np.float64))
    return known, 100.0 * np.arange(1, len(known) + 1) / max(1, len(known))


def _find_merge(task: Task, servers: Sequence[str]) -> int | None:
    """When the last server had added the result; None if one of them never did."""
    at_ns = {event.site: event.t_ns for event in task.all(ModelMerged)}
    has_all = servers and at_ns.keys() >= set(servers)
    return max(at_ns[server] for server in servers) if has_all else None


def _find_pulls(history: History, servers: Sequence[str]) -> Mapping[str, list[Pull]]:
    """The pulls of every worker, in the order in which it had their results."""
    found: defaultdict[str, list[Pull]] = defaultdict(list)
    for task in history.tasks:
        if task.merges or not set(task.started.weights) <= set(servers):
            continue
        given_ns = [event.t_ns for event in task.inputs]
        for event in task.all(TaskFinished):
            if event.site not in servers and given_ns:
                duration_s = (event.t_ns - task.started.t_ns) / 1e9
                found[event.site].append(Pull(min(given_ns), event.t_ns, duration_s))
    for pulls in found.values():
        pulls.sort(key=lambda pull: pull.had_ns)
    return found
