"""The table of calls of `torch.distributed`, and their durations by kind (pure)."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from trunkline.harness.record.calls import list_calls
from trunkline.harness.record.history import History
from trunkline.harness.report.tables.row import Row, column


class CallRow(Row, table="calls"):
    """One row per timed call of `torch.distributed` and site, in order of start; only with
    `time_calls`, or if programs report calls.
    """  # noqa: D205

    site: str = column("its site")
    rank: int = column("the rank of its process in the default group")
    process: int = column("the id of its process at the site")
    thread: int = column("its thread: the number in the order of their first calls, from 0")
    number: int = column("its number among the calls of its process, from 0")
    call: str = column("the function, such as `all_reduce`")
    bytes: int = column(
        "the tensors that it reads or those that it writes, whichever are more; 0 for a barrier"
    )
    start_s: float = column("when it began")
    duration_s: float | None = column("until it was done; empty if it never was")
    outcome: str = column("`completed`, `failed` or `unfinished`")
    group: str = column("the name of its group of processes")
    ranks: str = column("the ranks of the group's members, separated by spaces")
    peer: int | None = column(
        "the rank that sends or receives, or the root; empty if there is none or any"
    )
    blocks: bool = column("whether its caller waits for its end at once")


def tabulate_calls(history: History) -> Iterator[CallRow]:
    """One row per call and site, in the order of their starts."""
    for call in list_calls(history):
        yield CallRow(
            site=call.started.site,
            rank=call.started.rank,
            process=call.started.process,
            thread=call.started.thread,
            number=call.started.call,
            call=call.started.name,
            bytes=call.started.bytes,
            start_s=call.started.t_ns / 1e9,
            duration_s=call.duration_s,
            outcome=call.outcome,
            group=call.started.group,
            ranks=" ".join(map(str, call.started.ranks)),
            peer=call.started.peer,
            blocks=call.started.blocks,
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
