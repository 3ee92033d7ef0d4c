"""What users should know about the traces of a scenario: small figures, and notes (pure)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from trunkline.harness.config.units import (
    RATE_MBPS,
    SHARE_PERCENT,
    TIME_MS,
    TIME_S,
    Dimension,
    count_of,
    short,
)
from trunkline.harness.faults.fault_types import Availability, Fault, Step, Switch, Trace
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
    """Notes on how traces were read, and on steps after the end of the run.

    `ends` has the times in s after which a run is over, by their names.
    """
    for entry in entries:
        fault = entry.fault
        if isinstance(fault, Trace):
            where = f"{fault.VERB} {fault.a} {fault.b}"
            yield from (f"{where}: {note}" for note in fault.notes)
        elif isinstance(fault, Availability):
            where = f"{fault.VERB} {fault.site}"
        else:
            continue
        own = {"its end": None if fault.for_s is None else entry.at_s + fault.for_s}
        times = [(end, name) for name, end in {**ends, **own}.items() if end is not None]
        end_s, name = min(times, default=(math.inf, ""))
        late = [step for step in fault.steps if entry.at_s + step.at_s > end_s]
        if late:
            steps = f"{len(late)} of {count_of(len(fault.steps), 'step')}"
            yield f"{where}: {steps} would come after {name}, {short(end_s, TIME_S)}"


def draw(fault: Fault) -> Iterator[str]:
    """A figure of a trace, a line for each of its values; none for other faults."""
    if isinstance(fault, Availability):
        end_s = fault.every_s or _find_last_s(fault.steps)
        switches = [(step.at_s, float(step.on)) for step in fault.steps]
        on_s = sum(
            until_s - at_s
            for at_s, until_s, on in _list_spans([(0.0, 1.0), *switches], end_s)
            if on
        )
        cells = "".join("█" if on else _DOWN for on in _sample([(0.0, 1.0), *switches], end_s))
        yield f"{'on':<6} {cells}  {on_s / end_s:.0%} of {short(end_s, TIME_S)}"
    if not isinstance(fault, Trace):
        return
    end_s = fault.every_s or _find_last_s(fault.steps)
    for name, key, dimension in _ROWS:
        values = [(step.at_s, value) for step in fault.steps
                  if (value := getattr(step, key)) is not None]  # fmt: skip
        if values:
            yield _draw_row(name, values, end_s, dimension)


def _draw_row(name: str, values: _Values, end_s: float, dimension: Dimension) -> str:
    is_rate = dimension is RATE_MBPS
    known = [value for _, value in values if value or not is_rate]
    low, high = min(known, default=0.0), max(known, default=0.0)
    cells = ""
    for cell in _sample(values, end_s, lowest=is_rate):
        if math.isnan(cell):
            cells += " "
        elif is_rate and not cell:
            cells += _DOWN
        else:
            share = (cell - low) / (high - low) if high > low else 0.5
            cells += _BARS[min(len(_BARS) - 1, max(0, int(share * len(_BARS))))]
    ends = dict.fromkeys((short(low, dimension), short(high, dimension)))
    down_s = sum(until_s - at_s for at_s, until_s, value in _list_spans(values, end_s) if not value)
    down = f", down for {short(down_s, TIME_S)}" if is_rate and down_s else ""
    return f"{name:<6} {cells}  {' to '.join(ends)}{down} in {short(end_s, TIME_S)}"


def _sample(values: _Values, end_s: float, lowest: bool = False) -> Iterator[float]:
    """The mean of each cell's time, 0 if `lowest` and it is 0 at any time; nan before the first."""
    spans = _list_spans(values, end_s)
    place = 0
    for cell in range(CELLS):
        from_s, until_s = end_s * cell / CELLS, end_s * (cell + 1) / CELLS
        while place + 1 < len(spans) and spans[place][1] <= from_s:
            place += 1
        weight = total = 0.0
        is_down = False
        for at_s, end, value in spans[place:]:
            if at_s >= until_s:
                break
            lasts_s = min(end, until_s) - max(at_s, from_s)
            if lasts_s > 0:
                weight, total = weight + lasts_s, total + lasts_s * value
                is_down |= not value
        yield math.nan if not weight else 0.0 if is_down and lowest else total / weight


def _list_spans(values: _Values, end_s: float) -> list[tuple[float, float, float]]:
    """(from, until, value); the last one lasts until the end."""
    ends = [at_s for at_s, _ in values[1:]] + [end_s]
    return [(at_s, until_s, value) for (at_s, value), until_s in zip(values, ends, strict=True)]


def _find_last_s(steps: Sequence[Step | Switch]) -> float:
    """The end of a figure: the last step lasts as long as the one before."""
    times = [step.at_s for step in steps]
    before_s = times[-2] if len(times) > 1 else 0.0
    return (2 * times[-1] - before_s) or 1.0
