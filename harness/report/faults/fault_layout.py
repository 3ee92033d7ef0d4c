"""The layout of faults in a chart: which lane, which times, which text (pure)."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from trunkline.harness.config.document import make_printable
from trunkline.harness.record.history import Disturbance

CHARACTERS = 64
"""The longest text of a fault in a figure or on a page."""

LETTERS = 200
"""The longest text of a fault in words."""

LONG_NUMBER = re.compile(r"(?<![\d.])\d+\.\d{4,}(?![\d.])")
"""A time drawn at random has up to 17 digits; figures show four."""

WIDTH_IN = 7.16
"""The default width of figures in inches: both columns of a paper's page."""

CHARACTERS_PER_IN = 22.5
"""The number of characters of the strip's font in an inch."""


@dataclass(frozen=True, slots=True)
class Lane:
    """A fault's place in the strip. A fault that nothing ended has the window's end as `end_s`.

    The text begins at `start_s`. Where it would not fit, it ends at `text_end_s` instead: the
    fault's end, or the window's.
    """

    number: int
    text: str
    start_s: float
    end_s: float
    text_end_s: float | None


def lay_out(
    faults: Sequence[Disturbance],
    window_s: tuple[float, float],
    room: float,
    longest: int = CHARACTERS,
) -> tuple[Lane, ...]:
    """Place the faults of a window in lanes, so that neither bars nor texts overlap.

    The strip has `room` for this many characters. A longer text is cut, or one of more than
    `longest`.
    """
    taken_s: list[float] = []
    found = []
    character_s = (window_s[1] - window_s[0]) / room
    for fault in faults:
        start_s, end_s = (
            min(max(time_s, window_s[0]), window_s[1]) for time_s in clip_s(fault, window_s)
        )
        if start_s == end_s and start_s in window_s:
            continue
        text = shorten(fault.started.text, max(2, min(longest, int(room) - 2)))
        text_s = (len(text) + 2) * character_s
        from_s, to_s, text_end_s = start_s, max(end_s, start_s + text_s), None
        if to_s > window_s[1]:
            to_s = window_s[1]
            text_end_s = end_s if end_s - text_s >= window_s[0] else to_s
            from_s = min(start_s, text_end_s - text_s)
        free = (n for n, until_s in enumerate(taken_s) if until_s <= from_s)
        number = next(free, len(taken_s))
        taken_s[number : number + 1] = [to_s]
        found.append(Lane(number, text, start_s, end_s, text_end_s))
    return tuple(found)


def clip_s(fault: Disturbance, window_s: tuple[float, float]) -> tuple[float, float]:
    """The start and end of a fault in seconds; one that nothing ended lasts to the window's end."""
    start_s = fault.started.t_ns / 1e9
    return start_s, max(start_s, window_s[1] if fault.end_ns is None else fault.end_ns / 1e9)


def describe_span(fault: Disturbance) -> str:
    """When a fault acted, in words: `from 3.360 s to 8.360 s`, or `from 3.360 s on`."""
    until = "on" if fault.end_ns is None else f"to {fault.end_ns / 1e9:.3f} s"
    return f"from {fault.started.t_ns / 1e9:.3f} s {until}"


def find_rows_during(fault: Disturbance, tasks: pd.DataFrame) -> list[int]:
    """The rows of the tasks that ran during a fault; none if it has no target."""
    if not fault.started.targets:
        return []
    from_s, until_s = clip_s(fault, (0.0, math.inf))
    end_s = tasks["end_s"].fillna(math.inf)
    during = (tasks["start_s"] < until_s) & (end_s > from_s)
    return [row for row, is_during in enumerate(during) if is_during]


def shorten(text: str, most: int = CHARACTERS) -> str:
    """A fault's text, cut to fit into a figure, or to `most` characters; all can be printed."""
    text = make_printable(" ".join(text.split()))
    text = LONG_NUMBER.sub(lambda number: _round(float(number[0])), text)
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _round(value: float) -> str:
    return f"{value:.4g}" if value < 1000 else f"{value:.0f}"
