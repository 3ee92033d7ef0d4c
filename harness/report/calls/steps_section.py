"""The section on where the time of programs went (pure)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pandas as pd

from trunkline.harness.report.calls.step_tables import PARTS, name_processes, sum_steps
from trunkline.harness.report.pages.markup import Child, make_table, tag

MAX_ROWS = 200
"""The most processes that the table shows; the file has all."""

SHOWN = 3
"""The most stragglers that are named."""


def write_steps(steps: pd.DataFrame, stragglers: Sequence[tuple[str, float]]) -> list[Child]:
    """A row for each process, and for which sites they waited."""
    sums = sum_steps(steps)
    rows = [
        [name, row["steps"], *(f"{row[key]:.3f}" for key in ("duration_s", *PARTS))]
        for name, row in zip(name_processes(sums), sums.to_dict("records"), strict=True)
    ]
    heads = ["site", "steps", "time (s)", "computing (s)", "waiting (s)", "moving (s)", "rest (s)"]
    words = (
        "A process waits in a collective call until the last member whose data it needs has begun "
        "it, and moves bytes from then on; tables/steps.csv has each step."
    )
    said = [tag("p", sentence) for sentence in describe_stragglers(stragglers)]
    return [
        tag("p", words),
        *said,
        make_table(heads, rows[:MAX_ROWS], "steps", range(1, len(heads))),
    ]


def describe_stragglers(stragglers: Sequence[tuple[str, float]]) -> Iterator[str]:
    """A sentence on the sites for which others waited longest; none if no site waited."""
    if stragglers:
        named = ", ".join(f"{time_s:.3f} s for {site}" for site, time_s in stragglers[:SHOWN])
        left = len(stragglers) - SHOWN
        yield f"The sites waited {named}{f' and less for {left} others' if left > 0 else ''}."
