"""The section on where the time of programs went (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pandas as pd

from trunkline.harness.report.calls.steps.step_tables import PARTS, sum_steps
from trunkline.harness.report.pages.markup import Child, make_table, tag

MAX_ROWS = 200
"""The most programs that the table shows; the file has all."""

SHOWN = 3
"""The most stragglers that are named."""

TOLD_S = 0.0005
"""A shorter wait is not worth a word."""


def write_steps(
    steps: pd.DataFrame,
    sentences: Iterable[str],
    faults: Sequence[str] = (),
    more: Iterable[str] = (),
) -> list[Child]:
    """Sentences, a list of `faults`, `more` sentences, and a row for each program."""
    sums = sum_steps(steps)
    rows = [
        [row["program"], row["steps"], *(f"{row[key]:.3f}" for key in ("duration_s", *PARTS))]
        for row in sums.to_dict("records")
    ]
    heads = ["program", "steps", "time (s)", *(f"{part.removesuffix('_s')} (s)" for part in PARTS)]
    words: list[Child] = [
        "A program waits in a collective call until the last member whose data it needs has begun "
        "it, and moves bytes from then on. It is held up while a fault makes the call longer than "
        "its calls of the same name and size without a fault. It is stopped while a fault "
        "pauses it, and until it is started again. tables/steps.csv has each step. "
    ]
    if sums["steps"].any():
        command = tag("code", "trunkline explain RUN ", tag("span", "--step N", class_="whole"))
        words += [command, " explains one of them."]
    listed = [tag("li", fault) for fault in faults]
    return [
        tag("p", *words),
        *(tag("p", sentence) for sentence in sentences),
        tag("ul", listed) if listed else None,
        *(tag("p", sentence) for sentence in more),
        make_table(heads, rows[:MAX_ROWS], "steps", range(1, len(heads))),
    ]


def describe_stragglers(stragglers: Sequence[tuple[str, float]], programs: int) -> Iterator[str]:
    """A sentence on whom one of so many programs waited for, on average; none if none waited."""
    if stragglers:
        means = [(who, time_s / programs) for who, time_s in stragglers]
        told = [each for each in means if each[1] >= TOLD_S] or means[:1]
        named = [f"{mean_s:.3f} s for {who}" for who, mean_s in told[:SHOWN]]
        if left := told[SHOWN:]:
            whom = f"{len(left)} others" if len(left) > 1 else left[0][0]
            named.append(f"{sum(mean_s for _, mean_s in left):.3f} s for {whom}")
        total_s = sum(mean_s for _, mean_s in means)
        yield f"A program waited {total_s:.3f} s on average: {', '.join(named)}."
