"""Readings: what was measured of each link's quantities, and what is concluded (pure)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from trunkline.harness.checks.verdict import Check, Finding, Result, Verdict, judged, note
from trunkline.harness.measure.impaired import PERCENTILES

UNITS_OF = {
    "goodput": "Mbit/s",
    "rate": "Mbit/s",
    "delay": "ms",
    "jitter": "ms",
    **{f"p{percent}": "ms" for percent in PERCENTILES},
    "order": "packets",
    "loss": "%",
    "burst": "packets",
    "reorder": "%",
    "duplicate": "%",
    "corrupt": "%",
    "queue": "bytes",
    "ping": "ms",
    "iperf3": "Mbit/s",
}
QUANTITIES = tuple(UNITS_OF)


@dataclass(frozen=True, slots=True)
class Reading:
    """One quantity of one link; `error` and `bar` are in `error_unit`.

    Without an `outcome` the quantity was not judged; `note` says why.
    """

    src: str
    dst: str
    quantity: str
    unit: str
    expected: float | None
    measured: float | None
    error: float | None
    bar: float | None
    error_unit: str
    outcome: Result | None
    note: str = ""

    @property
    def share(self) -> float:
        """The error as a share of its bar."""
        assert self.error is not None and self.bar is not None  # noqa: PT018
        return abs(self.error) / self.bar if self.bar else math.inf if self.error else 0.0


def make_verdict(readings: Sequence[Reading]) -> Verdict:
    """The verdict: one check per quantity, with the worst link in words."""
    return Verdict.of(
        Check.of(name, "links", _list_findings(rows))
        for name in QUANTITIES
        if (rows := [row for row in readings if row.quantity == name and row.outcome])
    )


def list_unjudged(readings: Iterable[Reading]) -> Iterator[str]:
    """A line for each reason why quantities are not judged, with a link as an example."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for row in readings:
        if row.outcome is None and row.note:
            reasons.setdefault((row.quantity, row.note), []).append(f"{row.src} -> {row.dst}")
    for (quantity, reason), links in reasons.items():
        others = f" and {len(links) - 1} more" if links[1:] else ""
        yield f"{quantity}: {links[0]}{others} not judged: {reason}"


def find_worst(readings: Iterable[Reading]) -> Reading | None:
    """The reading whose error is largest relative to its bar."""
    found = [row for row in readings if row.error is not None and row.bar is not None]
    return max(found, key=lambda row: row.share, default=None)


def _list_findings(rows: Sequence[Reading]) -> Iterable[Finding]:
    yield judged(len(rows))
    farthest = find_worst(rows)
    if farthest:
        yield note(f"the worst {describe(farthest)}")
    for row in rows:
        if row.outcome != "pass" and row.outcome is not None:
            yield Finding(row.outcome, describe(row))


def describe(row: Reading) -> str:
    """Describe a reading in words."""
    where = f"{row.src} -> {row.dst}"
    if row.measured is None or row.expected is None or row.error is None or row.bar is None:
        return f"{where}: {row.note}"
    what = f"{row.measured:.6g} {row.unit}, set {row.expected:.6g}"
    note = f" ({row.note})" if row.note else ""
    return f"{where}: {what}, off by {row.error:.2g} of {row.bar:.2g} {row.error_unit}{note}"
