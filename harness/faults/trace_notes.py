"""What users should know about traces and late faults of a scenario: figures, notes (pure)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from trunkline.harness.config.units import (
    RATE_MBPS,
    SHARE_PERCENT,
    TIME_MS,
    TIME_S,
    Dimension,
    count_of,
    short,
)
from trunkline.harness.faults.fault_types import Fault
from trunkline.harness.faults.recorded.recorded_faults import Availability, Trace
from trunkline.harness.faults.timeline import Entry

CELLS = 32
"""The width of a figure, in characters."""

_BARS = "▁▂▃▄▅▆▇█"
_DOWN = "x"
_ROWS: tuple[tuple[str, str, Dimension], ...] = (
    ("rate", "rate_mbps", RATE_MBPS),
    ("delay", "delay_ms", TIME_MS),
    ("jitter", "jitter_ms", TIME_MS),
    ("loss", "loss_percent", SHARE_PERCENT),
)

_Values = Sequence[tuple[float, float]]
"""(from when in s, value)."""


def list_notes(entries: Iterable[Entry], ends: Mapping[str, float | None]) -> Iterator[str]:
    """Notes on how traces were read, and on faults and steps after the end of the run.

    `ends` has the times in s after which a run is over, by their names.
    """
    for entry in entries:
        fault = entry.fault
        steps: Sequence[Any] = getattr(fault, "steps", ())
        if isinstance(fault, Trace):
            where = f"{fault.VERB} {fault.a} {fault.b}"
            yield from (f"{where}: {note}" for note in fault.notes)
        elif isinstance(fault, Availability):
            where = f"{fault.VERB} {fault.site}"
        else:
            where = f"{fault.VERB} at {short(entry.at_s, TIME_S)}"
        for_s = getattr(fault, "for_s", None)
        own = {"its end": None if for_s is None else entry.at_s + for_s}
        times = [(end, name) for name, end in {**ends, **own}.items() if end is not None]
        end_s, name = min(times, default=(math.inf, ""))
        if entry.at_s > end_s:
            yield f"{where}: would come after {name}, {short(end_s, TIME_S)}"
        elif late := [step for step in steps if entry.at_s + step.at_s > end_s]:
            share = f"{len(late)} of {count_of(len(steps), 'step')}"
            yield f"{where}: {share} would come after {name}, {short(end_s, TIME_S)}"


def draw(fault: Fault) -> Iterator[str]:
    """A figure of a trace, a line for each of its values; none for other faults."""
    if not isinstance(fault, Trace | Availability):
        return
    times = [0.0, 0.0, *(step.at_s for step in fault.steps)]
    end_s = fault.every_s or 2 * times[-1] - times[-2] or 1.0  # the last step is as long as before
    if isinstance(fault, Availability):
        known = [(0.0, 1.0), *((step.at_s, float(step.on)) for step in fault.steps)]
        shares = _average(known, end_s)[0]
        cells = "".join(_DOWN if share < 1 else _BARS[-1] for share in shares)
        yield f"{'on':<6} {cells}  {np.mean(shares):.0%} of {short(end_s, TIME_S)}"
        return
    for name, key, dimension in _ROWS:
        given = ((step.at_s, getattr(step, key)) for step in fault.steps)
        if values := [(at_s, value) for at_s, value in given if value is not None]:
            yield _draw_row(name, values, end_s, dimension)


def _draw_row(name: str, values: _Values, end_s: float, dimension: Dimension) -> str:
    means, downs_s = _average(values, end_s)
    is_rate = dimension is RATE_MBPS
    given = [value for _, value in values if value or not is_rate]
    low, high = min(given, default=0.0), max(given, default=0.0)
    cells = ""
    for mean, down_s in zip(means, downs_s, strict=True):
        share = min(1.0, max(0.0, (mean - low) / (high - low))) if high > low else 0.5
        bar = _BARS[round(share * (len(_BARS) - 1))] if not math.isnan(mean) else " "
        cells += _DOWN if is_rate and down_s else bar
    ends = dict.fromkeys((short(low, dimension), short(high, dimension)))
    down_s = float(sum(downs_s))
    down = f", down for {short(down_s, TIME_S)}" if is_rate and down_s else ""
    return f"{name:<6} {cells}  {' to '.join(ends)}{down} in {short(end_s, TIME_S)}"


def _average(values: _Values, end_s: float) -> tuple[list[float], list[float]]:
    """The mean in each cell's time, nan before the first value; and how long it is 0, in s."""
    times, levels = np.array(values).T
    edges, times = np.linspace(0.0, end_s, CELLS + 1), np.append(times, end_s)

    def integrate(heights: Any) -> Any:
        areas = np.cumsum(np.append(0.0, np.diff(times) * heights))
        return np.diff(np.interp(edges, times, areas)).round(9)

    with np.errstate(invalid="ignore", divide="ignore"):
        means = integrate(levels) / integrate(np.ones_like(levels))
    return means.tolist(), integrate(levels == 0).tolist()
