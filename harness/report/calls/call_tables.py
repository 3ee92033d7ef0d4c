"""The table of calls of `torch.distributed`, and their durations by kind (pure)."""

from __future__ import annotations

import pandas as pd

from trunkline.harness.record.calls import list_calls
from trunkline.harness.record.history import History
from trunkline.harness.report import columns


def tabulate_calls(history: History) -> pd.DataFrame:
    """One row per call and site, in the order of their starts."""
    return columns.CALLS.frame(
        {
            "site": call.started.site,
            "rank": call.started.rank,
            "process": call.started.process,
            "thread": call.started.thread,
            "number": call.started.call,
            "call": call.started.name,
            "bytes": call.started.bytes,
            "start_s": call.started.t_ns / 1e9,
            "duration_s": call.duration_s,
            "outcome": call.outcome,
            "group": call.started.group,
            "ranks": " ".join(map(str, call.started.ranks)),
            "peer": call.started.peer,
            "blocks": call.started.blocks,
        }
        for call in list_calls(history)
    )


MAX_SIZES = 8
"""The most sizes of one kind of call that have a row each."""


def list_kinds(calls: pd.DataFrame) -> list[str]:
    """The kinds of calls, those that took most time first."""
    spent_s = calls.groupby("call", sort=True)["duration_s"].sum()
    return list(map(str, spent_s.sort_values(ascending=False, kind="stable").index))


def summarize(calls: pd.DataFrame) -> pd.DataFrame:
    """The calls by kind and size, in the order of `list_kinds`; small ones come first.

    The columns are `call`, `low_bytes` and `high_bytes`, `calls`, `completed`, `mean_s`,
    `median_s`, `max_s` and `sum_s`. Calls of a kind that has many sizes share one row.
    """
    rows = [
        {
            "call": kind,
            "low_bytes": int(found["bytes"].min()),
            "high_bytes": int(found["bytes"].max()),
            "calls": len(found),
            "completed": int((found["outcome"] == "completed").sum()),
            "mean_s": found["duration_s"].mean(),
            "median_s": found["duration_s"].median(),
            "max_s": found["duration_s"].max(),
            "sum_s": found["duration_s"].sum(),
        }
        for kind in list_kinds(calls)
        for found in _split_by_size(calls[calls["call"] == kind])
    ]
    return pd.DataFrame(rows)


def _split_by_size(calls: pd.DataFrame) -> list[pd.DataFrame]:
    if calls["bytes"].nunique() > MAX_SIZES:
        return [calls]
    return [found for _, found in calls.groupby("bytes", sort=True)]
