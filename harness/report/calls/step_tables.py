"""The table of the steps of programs, and a sentence on where the time of a run went (pure)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pandas as pd

from trunkline.harness.record.history import History
from trunkline.harness.record.step_times import list_step_times
from trunkline.harness.report.tables.row import Row, column


class StepRow(Row, table="steps"):
    """One row per process of a site and step: from one start of computing to the next.

    A process that reports no computing has one row, for its whole run. Only with timed calls.
    """

    site: str = column("the site")
    process: int | None = column("the id of the process at the site; empty if none is known")
    step: int | None = column("the iteration; empty for a whole run")
    start_s: float = column("when it began")
    duration_s: float = column("until the next step began, or the last call ended")
    computing_s: float = column("computing")
    waiting_s: float = column("in collective calls that another process had not begun yet")
    moving_s: float = column("in calls that all whose data they need had begun")
    rest_s: float = column("everything else")
    waited_for: str = column(
        "the site that began last, for most of the waiting, such as `n2`, or another process of "
        "the same site, such as `n1 (process 17)`; empty for none"
    )


def tabulate_steps(history: History, sites: tuple[str, ...]) -> Iterator[StepRow]:
    """One row per process and step, by site."""
    for step in list_step_times(history, sites):
        most = max(step.waited_for, key=step.waited_for.__getitem__, default="")
        yield StepRow(
            site=step.site,
            process=step.process,
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
    """The sums of all steps by process, in the order of the table; `steps` is their number."""
    processes = steps.groupby(["site", "process"], sort=False, dropna=False)
    sums = processes[["duration_s", *PARTS]].sum()
    sums.insert(0, "steps", processes.size())
    return sums.reset_index()


def name_processes(sums: pd.DataFrame) -> list[str]:
    """The site of each row of `sum_steps`, with the process if the site has several."""
    several = sums["site"].duplicated(keep=False)
    rows = zip(sums["site"], sums["process"], several, strict=True)
    return [f"{site} (process {process})" if more else site for site, process, more in rows]


def rank_stragglers(history: History, sites: tuple[str, ...]) -> list[tuple[str, float]]:
    """The sites and processes for which others waited, and how long together, longest first."""
    waited = Counter[str]()
    for step in list_step_times(history, sites):
        waited.update(step.waited_for)
    return [(site, time_ns / 1e9) for site, time_ns in waited.most_common() if site]
