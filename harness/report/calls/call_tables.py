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


def summarize(calls: pd.DataFrame) -> pd.DataFrame:
    """The calls by their kind, those that took most time first.

    The columns are `calls`, `completed`, `bytes_median`, `mean_s`, `median_s`, `max_s` and `sum_s`.
    """
    rows = {
        kind: {
            "calls": len(found),
            "completed": int((found["outcome"] == "completed").sum()),
            "bytes_median": float(found["bytes"].median()),
            "mean_s": found["duration_s"].mean(),
            "median_s": found["duration_s"].median(),
            "max_s": found["duration_s"].max(),
            "sum_s": found["duration_s"].sum(),
        }
        for kind, found in calls.groupby("call", sort=True)
    }
    return pd.DataFrame.from_dict(rows, orient="index").sort_values(
        "sum_s", ascending=False, kind="stable"
    )
