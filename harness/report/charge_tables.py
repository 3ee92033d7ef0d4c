"""The table of what took virtual time at the sites of programs (pure)."""

from __future__ import annotations

from collections.abc import Iterator

from trunkline.harness.record.charges import find_totals
from trunkline.harness.record.history import History
from trunkline.harness.report.tables.row import Row, column


class ChargeRow(Row, table="charges"):
    """One row per site of programs whose computing or whose empty polls took virtual time."""

    site: str = column("its name")
    processor_s: float = column("the processor time that its processes used on the host")
    charged_s: float = column("the virtual time that this took: times the site's factor")
    queued_s: float = column("how long its processes waited for one of its processors, in all")
    charges: int = column("how often a process was charged")
    polls: int = column("the empty polls that took time")


def tabulate_charges(history: History) -> Iterator[ChargeRow]:
    """One row per site, in the order of their starts."""
    for each in find_totals(history):
        yield ChargeRow(
            site=each.site,
            processor_s=each.measured_ns / 1e9,
            charged_s=each.charged_ns / 1e9,
            queued_s=each.queued_ns / 1e9,
            charges=each.charges,
            polls=each.polls,
        )
