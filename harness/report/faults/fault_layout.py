"""The layout of faults in a chart: which lane, which times, which text (pure)."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pandas as pd

from trunkline.harness.config.document import make_printable
from trunkline.harness.config.units import TIME_S, short
from trunkline.harness.record.history import Disturbance

CHARACTERS = 64
"""The longest text of a fault in a figure or on a page."""

LETTERS = 200
"""The longest text of a fault in words."""

LONG_NUMBER = re.compile(r"(?<![\d.])\d+\.\d{4,}(?![\d.])")
"""A time drawn at random has up to 17 digits; figures show four."""

ARROW = 2
"""The letters of an arrow from a text to its bar, with the space between them."""

WIDTH_IN = 7.16
"""The default width of figures in inches: both columns of a paper's page."""

CHARACTERS_PER_IN = 22.5
"""The number of characters of the strip's font in an inch."""


@dataclass(frozen=True, slots=True)
class Lane:
    """A fault's place in the strip: its bar, and its text in the bar or beside it.

    Attributes:
        number: the lane of the bar.
        text: the text.
        start_s, end_s: those of the bar. A fault that nothing ended has the window's end.
        text_s: where the text begins: at `start_s` in the bar, at `end_s` after it.
        text_ends: whether the text ends at `text_s` instead: it stands before the bar.
        text_lane: the lane of the text: that below the bar, if it has no room beside it.
    """

    number: int
    text: str
    start_s: float
    end_s: float
    text_s: float
    text_ends: bool
    text_lane: int

    @property
    def label(self) -> str:
        """The text; outside its bar, with an arrow towards it."""
        if self.text_lane != self.number:
            return f"↑ {self.text}"
        if self.text_ends:
            return f"{self.text} →"
        return f"← {self.text}" if self.start_s < self.text_s else self.text


def lay_out(
    faults: Sequence[Disturbance],
    window_s: tuple[float, float],
    room: float,
    longest: int = CHARACTERS,
) -> tuple[Lane, ...]:
    """Place the faults of a window in lanes, each with its number and its text.

    A text of more than `longest` characters is cut; see `place_in_lanes`.
    """
    found = []
    for fault in faults:
        start_s, end_s = (
            min(max(time_s, window_s[0]), window_s[1]) for time_s in clip_s(fault, window_s)
        )
        if start_s < end_s or start_s not in window_s:
            text = f"{fault.started.fault}: {shorten(fault.started.text, longest)}"
            found.append((text, start_s, end_s))
    return place_in_lanes(found, window_s, room)


def place_in_lanes(
    bars: Iterable[tuple[str, float, float]], window: tuple[float, float], room: float
) -> tuple[Lane, ...]:
    """Place bars (text, start, end) in lanes, so that neither bars nor texts cross each other.

    The strip has `room` for this many characters; a longer text is cut.
    """
    character = (window[1] - window[0]) / room
    taken: list[float] = []
    found = []
    for text, start, end in bars:
        text = _cut(text, max(2, int(room) - 2 - ARROW))
        wide = (len(text) + 2) * character
        at, ends, spans = _place_text((start, end), wide, ARROW * character, window)
        number = next(
            n
            for n in range(len(taken) + 1)
            if all(_is_free(taken, n + below, span[0]) for below, span in enumerate(spans))
        )
        for lane, (_, until) in enumerate(spans, number):
            taken += [window[0]] * (lane + 1 - len(taken))
            taken[lane] = until
        found.append(Lane(number, text, start, end, at, ends, number + len(spans) - 1))
    return tuple(found)


def _place_text(
    bar: tuple[float, float], wide: float, arrow: float, window: tuple[float, float]
) -> tuple[float, bool, Sequence[tuple[float, float]]]:
    """Where a text that is so wide begins, or ends; and what is taken, in one lane or two.

    It stands in its bar or, with an arrow, after it, before it, or in the lane below.
    """
    start, end = bar
    if start + wide <= end:
        return start, False, [bar]
    wide += arrow
    if end + wide <= window[1]:
        return end, False, [(start, end + wide)]
    if start - wide >= window[0]:
        return start, True, [(start - wide, end)]
    at = min(start, window[1] - wide)
    return at, False, [bar, (at, at + wide)]


def _is_free(taken: Sequence[float], lane: int, start: float) -> bool:
    """Whether the lanes are free from this place on; a lane that is not there is free."""
    return lane >= len(taken) or taken[lane] <= start


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def lay_out_numbers(
    faults: Sequence[Disturbance], tasks: pd.DataFrame, room: float
) -> tuple[Lane, ...]:
    """Place the numbers of faults above the tasks that ran during them; places are rows."""
    found = ((str(fault.started.fault), find_rows_during(fault, tasks)) for fault in faults)
    bars = [(text, min(rows) - 0.5, max(rows) + 0.5) for text, rows in found if rows]
    return place_in_lanes(sorted(bars, key=lambda bar: bar[1]), (-0.5, len(tasks) - 0.5), room)


def clip_s(fault: Disturbance, window_s: tuple[float, float]) -> tuple[float, float]:
    """The start and end of a fault in seconds; one that nothing ended lasts to the window's end."""
    start_s = fault.started.t_ns / 1e9
    return start_s, max(start_s, window_s[1] if fault.end_ns is None else fault.end_ns / 1e9)


def describe_span(fault: Disturbance, begin_ns: int | None = None) -> str:
    """When a fault acted, in words: `from 3.360 s to 8.360 s`, or `from 3.360 s on`.

    If the timeline's clock began at `begin_ns`, after the run's, both clocks are told:
    `at 3 s (3.360 s to 8.360 s of the run)`. If that is not known, the times are `of the run`.
    """
    since_ns, until_ns = fault.started.t_ns, fault.end_ns
    since, until = f"{since_ns / 1e9:.3f} s", "" if until_ns is None else f"{until_ns / 1e9:.3f} s"
    if begin_ns is None or since_ns < begin_ns:
        return f"from {since} to {until} of the run" if until else f"from {since} of the run on"
    if not begin_ns:  # both clocks are the same
        return f"from {since} to {until}" if until else f"from {since} on"
    span = f"{since} to {until} of the run" if until else f"from {since} of the run on"
    return f"at {short((since_ns - begin_ns) / 1e9, TIME_S)} ({span})"


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
    return _cut(text, most)


def _round(value: float) -> str:
    return f"{value:.4g}" if value < 1000 else f"{value:.0f}"
