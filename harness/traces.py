"""Traces of a link's rate: CSV and mahimahi files, and one word that holds all steps (pure).

CSV has a row `time,rate` or `time,rate,delay` or `time,rate,delay,loss` per change: in seconds,
Mbit/s, milliseconds and percent where there is no unit (`0.5 s,20 Mbit/s` has them). A first row of
names and lines starting with `#` are skipped.

mahimahi's format has one line per opportunity to deliver a packet of 1500 bytes: the millisecond
at which it comes. Opportunities are counted over windows of `WINDOW_MS`; a window with none gets
the smallest rate that can be set, one packet per window.
"""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise

from harness import units
from harness.faults import FaultError, Step
from harness.units import RATE_MBPS, SHARE_PERCENT, TIME_MS, TIME_S, QuantityError

WINDOW_MS = 100
OPPORTUNITY_BYTES = 1500

_COLUMNS = ((TIME_S, "s"), (RATE_MBPS, "Mbit/s"), (TIME_MS, "ms"), (SHARE_PERCENT, "%"))


def read(text: str, name: str) -> tuple[Step, ...]:
    """The steps in a file's text; `name` is what errors call it.

    Raises FaultError with the line at fault.
    """
    lines = [(number, line.strip()) for number, line in enumerate(text.splitlines(), 1)]
    lines = [(number, line) for number, line in lines if line and not line.startswith("#")]
    if lines and re.match(r"[A-Za-z]", lines[0][1]):
        lines = lines[1:]
    if not lines:
        raise FaultError(f"{name}: empty: allowed is CSV (time,rate) or mahimahi")
    if all(re.fullmatch(r"[0-9]{1,12}", line) for _, line in lines):
        return _mahimahi([int(line) for _, line in lines], name)
    return _checked([_row(line.split(","), f"{name}:{number}") for number, line in lines], name)


def inline(word: str) -> tuple[Step, ...] | None:
    """The steps in a word as `write` gives it; None if it is none, but the name of a file."""
    if not re.match(r"[0-9.]+(us|ms|s|min|h):", word):
        return None
    rows = [row.split(":") for row in word.split(",")]
    return _checked([_row(row, "steps") for row in rows], "steps")


def write(steps: tuple[Step, ...]) -> str:
    """One word: `0s:20Mbit/s,1.5s:30Mbit/s:40ms:0.1%`."""
    rows = []
    for step in steps:
        values = (step.at_s, step.rate_mbps, step.delay_ms, step.loss_percent)
        cells = [
            "" if value is None else units.render(value, dimension).replace(" ", "")
            for value, (dimension, _) in zip(values, _COLUMNS, strict=True)
        ]
        rows.append(":".join(cells).rstrip(":"))
    return ",".join(rows)


def _row(cells: list[str], where: str) -> Step:
    if not 2 <= len(cells) <= len(_COLUMNS):
        raise FaultError(f"{where}: {len(cells)} columns: allowed are time,rate[,delay[,loss]]")
    values: list[float | None] = []
    for cell, (dimension, unit) in zip(cells, _COLUMNS, strict=False):
        text = cell.strip()
        if not text and len(values) >= 2:
            values.append(None)
            continue
        try:
            bare = re.fullmatch(r"[0-9.]+([eE][+-]?[0-9]+)?", text)
            values.append(units.parse(f"{text} {unit}" if bare else text, dimension))
        except QuantityError as error:
            raise FaultError(f"{where}: {text}: {error}") from None
    at_s, rate_mbps, delay_ms, loss_percent = (*values, None, None)[:4]
    assert at_s is not None
    if not rate_mbps:
        raise FaultError(f"{where}: rate 0: allowed is more than 0; an outage stops a link")
    if loss_percent is not None and loss_percent > 100:
        raise FaultError(f"{where}: loss {loss_percent:g} %: allowed is up to 100 %")
    return Step(at_s, rate_mbps, delay_ms, loss_percent)


def _checked(steps: list[Step], name: str) -> tuple[Step, ...]:
    for one, next_one in pairwise(steps):
        if next_one.at_s <= one.at_s:
            times = f"{next_one.at_s:g} s after {one.at_s:g} s"
            raise FaultError(f"{name}: {times}: allowed are times that grow")
    return tuple(steps)


def _mahimahi(times_ms: list[int], name: str) -> tuple[Step, ...]:
    """The rate of every window, where it changes; the last window may be a short one."""
    if any(b < a for a, b in pairwise(times_ms)):
        raise FaultError(f"{name}: allowed are times that do not fall")
    end_ms = times_ms[-1]
    counts = Counter(max(0, time_ms - 1) // WINDOW_MS for time_ms in times_ms)
    steps: list[Step] = []
    for window in range(max(counts) + 1):
        width_ms = min(WINDOW_MS, max(1, end_ms - window * WINDOW_MS))
        packets = max(1, counts[window])
        rate_mbps = packets * OPPORTUNITY_BYTES * 8 / width_ms / 1000
        if not steps or rate_mbps != steps[-1].rate_mbps:
            steps.append(Step(window * WINDOW_MS / 1000, rate_mbps))
    return tuple(steps)
