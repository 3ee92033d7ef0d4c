"""The table of the steps of programs, and a sentence on where the time of a run went (pure)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pandas as pd

from trunkline.harness.record.history import History
from trunkline.harness.record.step_times import list_step_times
from trunkline.harness.report.tables.row import Row, column


class StepRow(Row, table="steps"):
    """One row per site and step of its program: from one start of computing to the next.

    A site that reports no computing has one row, for its whole run. Only with timed calls.
    """

    site: str = column("the site")
    step: int | None = column("the iteration; empty for a whole run")
    start_s: float = column("when it began")
    duration_s: float = column("until the next step began, or the last call ended")
    computing_s: float = column("computing")
    waiting_s: float = column("in collective calls that another site had not begun yet")
    moving_s: float = column("in calls that all sites whose data they need had begun")
    rest_s: float = column("everything else")
    waited_for: str = column("the site that began last, for most of the waiting; empty for none")


def tabulate_steps(history: History, sites: tuple[str, ...]) -> Iterator[StepRow]:
    """One row per site and step, by site."""
    for step in list_step_times(history, sites):
        most = max(step.waited_for, key=step.waited_for.__getitem__, default="")
        yield StepRow(
            site=step.site,
            step=step.number,
            start_s=step.start_ns / 1e9,
            duration_s=(step.end_ns - step.start_ns) / 1e9,
            computing_s=step.computing_ns / 1e9,
            waiting_s=step.waiting_ns / 1e9,
            moving_s=step.moving_ns / 1e9,
            rest_s=step.rest_ns / 1e9,
            waited_for=most,
        )


PARTS = ("computing_s", "waiting_s", "moving_s", "rest_s")
"""The columns that add up to a step's time."""


def sum_steps(steps: pd.DataFrame) -> pd.DataFrame:
    """The sums of all steps by site, in the order of the table; `steps` is their number."""
    sums = steps.groupby("site", sort=False)[["duration_s", *PARTS]].sum()
    sums.insert(0, "steps", steps.groupby("site", sort=False).size())
    return sums.reset_index()


def rank_stragglers(history: History, sites: tuple[str, ...]) -> list[tuple[str, float]]:
    """The sites for which others waited, and how long all of them did together, longest first."""
    waited = Counter[str]()
    for step in list_step_times(history, sites):
        waited.update(step.waited_for)
    return [(site, time_ns / 1e9) for site, time_ns in waited.most_common() if site]
