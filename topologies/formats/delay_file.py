"""Measured delays from a file, as the distribution of a link (pure).

A file has a delay a line, in ms or with a unit: `12.3`, `850 us`. With a title line it may have
several columns; then a column `delay` or `rtt` is read, in the words and units of `attributes`. A
round trip counts half. `#` begins a comment.
"""

from __future__ import annotations

import re
import statistics
from dataclasses import dataclass

from trunkline.topologies.distributions import interpolate
from trunkline.topologies.formats.attributes import find_meaning, read_link
from trunkline.topologies.formats.network_file import Problems
from trunkline.topologies.formats.quantities import TIME, quote, read_quantity
from trunkline.topologies.links import TopologyError

ENDINGS = (".csv", ".txt", ".dat")

QUANTILES = 257
LEAST_DELAYS = 10
"""A file of fewer delays says little of how they spread."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A distribution as text, and the mean and the standard deviation of the delays in ms."""

    distribution: str
    delay_ms: float
    jitter_ms: float


def is_file(distribution: str) -> bool:
    """Whether the text names a file of delays."""
    return distribution.lower().endswith(ENDINGS)


def read(text: str) -> Measured:
    """Read a file of measured delays.

    Raises:
        TopologyError: lines are not delays, or there are too few, or all are equal.
    """
    lines = [(number, line.partition("#")[0].strip()) for number, line in enumerate(
        text.removeprefix("\ufeff").splitlines(), 1)]  # fmt: skip
    rows = [(n, [cell.strip(" \"'") for cell in re.split("[,;\t]", x)]) for n, x in lines if x]
    titles = rows.pop(0)[1] if rows and re.match("[^0-9.+-]", rows[0][1][0]) else []
    if titles and not {"delay", "rtt"} & {*map(find_meaning, titles)}:
        text = f"{quote(','.join(titles))}: expected a title line with a column delay or rtt"
        raise TopologyError(text)
    problems = Problems()
    delays: list[float] = []
    for number, cells in rows:
        with problems.noting(f"line {number}: "):
            delays.append(_read_row(titles, cells))
    problems.refuse()
    if len(delays) < LEAST_DELAYS:
        raise TopologyError(f"{len(delays)} delays: expected {LEAST_DELAYS} or more, one a line")
    mean, spread = statistics.fmean(delays), statistics.pstdev(delays)
    if not spread:
        raise TopologyError(f"all delays are {mean:g} ms: expected delays that differ")
    delays.sort()
    quantiles = (interpolate(delays, i / (QUANTILES - 1)) for i in range(QUANTILES))
    words = (f"{(value - mean) / spread:.4g}" for value in quantiles)
    return Measured(",".join(words), round(mean, 6), round(spread, 6))


def _read_row(titles: list[str], cells: list[str]) -> float:
    if not titles:
        if len([cell for cell in cells if cell]) != 1:
            raise TopologyError(f"{len(cells)} columns: expected one, or a title line with delay")
        return read_quantity(cells[0], TIME)
    found = read_link(dict(zip(titles, cells, strict=False))).delay_ms
    if found is None:
        raise TopologyError(f"{quote(','.join(cells))}: expected a delay")
    return found
