"""The section on where the time of programs went (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pandas as pd

from trunkline.harness.report.calls.step_tables import PARTS, describe_before, sum_steps
from trunkline.harness.report.pages.markup import Child, make_table, tag

MAX_ROWS = 200
"""The most programs that the table shows; the file has all."""

SHOWN = 3
"""The most stragglers that are named."""


def write_steps(
    steps: pd.DataFrame, stragglers: Sequence[tuple[str, float]], more: Iterable[str]
) -> list[Child]:
    """A row for each program, for which ones they waited, and `more` sentences: hangs, faults."""
    sums = sum_steps(steps)
    rows = [
        [row["program"], row["steps"], *(f"{row[key]:.3f}" for key in ("duration_s", *PARTS))]
        for row in sums.to_dict("records")
    ]
    heads = ["program", "steps", "time (s)", *(f"{part.removesuffix('_s')} (s)" for part in PARTS)]
    words = (
        "A program waits in a collective call until the last member whose data it needs has begun "
        "it, and moves bytes from then on. It is stopped while a fault pauses it, and until it is "
        "started again. tables/steps.csv has each step."
    )
    sentences = (*describe_before(sums), *describe_stragglers(stragglers), *more)
    said = [tag("p", sentence) for sentence in sentences]
    return [
        tag("p", words),
        *said,
        make_table(heads, rows[:MAX_ROWS], "steps", range(1, len(heads))),
    ]


def describe_stragglers(stragglers: Sequence[tuple[str, float]]) -> Iterator[str]:
    """A sentence on the programs for which others waited longest; none if none waited."""
    if stragglers:
        named = ", ".join(f"{time_s:.3f} s for {who}" for who, time_s in stragglers[:SHOWN])
        left = len(stragglers) - SHOWN
        rest = "another one" if left == 1 else f"{left} others"
        yield f"The programs waited {named}{f' and less for {rest}' if left > 0 else ''}."
