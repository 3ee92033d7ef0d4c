"""Traces of a link's rate: CSV files, mahimahi files, and one word with all steps (pure).

CSV has one row per change: `time,rate`, `time,rate,delay` or `time,rate,delay,loss`. Values without
a unit are in seconds, Mbit/s, milliseconds and percent (`0.5 s,20 Mbit/s` has units). A first row
may name the columns, in any order. Lines that start with `#` are skipped.

A mahimahi file has one line per opportunity to deliver a packet of 1500 bytes: its time in
milliseconds. Opportunities are counted in windows of WINDOW_MS. The last window also has the rest
of the file. A window without an opportunity gets the rate of one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from trunkline.harness.config import units
from trunkline.harness.config.units import RATE_MBPS, SHARE_PERCENT, TIME_MS, TIME_S, QuantityError
from trunkline.harness.faults.fault_types import FaultError, Step
from trunkline.topologies.links import Link, TopologyError, check_values

WINDOW_MS = 100
OPPORTUNITY_BYTES = 1500
LONGEST_MS = 24 * 3600 * 1000

MAX_STEPS = 200_000
"""The most steps of all traces of a scenario: `resolved.yaml` has them, and its length is limited.

A line of a mahimahi file is not a step.
"""

_COLUMNS = {
    "time": (TIME_S, "s"),
    "rate": (RATE_MBPS, "Mbit/s"),
    "delay": (TIME_MS, "ms"),
    "loss": (SHARE_PERCENT, "%"),
}
_NEEDED = ("time", "rate")
_ALLOWED = "time,rate[,delay[,loss]]"

_Lines = Sequence[tuple[str, str]]
"""(file:line, text) of each line that is neither empty nor a comment."""


def read(text: str, name: str) -> tuple[Step, ...]:
    """Read the steps in a file's text; `name` is its name in errors.

    Raises:
        FaultError: the text is not a trace; the message names the line.
    """
    numbered = enumerate(map(str.strip, text.splitlines()), 1)
    lines = [(f"{name}:{number}", line) for number, line in numbered if line and line[0] != "#"]
    if not lines:
        raise FaultError(f"{name}: empty: expected CSV ({_ALLOWED}) or mahimahi")
    return _csv(lines) if "," in lines[0][1] else _mahimahi(lines)


def parse_steps(word: str) -> tuple[Step, ...] | None:
    """Read the steps in a word from `write`; None if the word is the name of a file."""
    if not re.match(r"[0-9.]+(us|ms|s|min|h):", word):
        return None
    _check_count("steps", word.count(",") + 1)
    rows = [("steps", row.split(":")) for row in word.split(",")]
    return _steps(rows, tuple(_COLUMNS))


def write(steps: tuple[Step, ...]) -> str:
    """Write steps as one word: `0s:20Mbit/s,1.5s:30Mbit/s:40ms:0.1%`."""
    rows = []
    for step in steps:
        values = (step.at_s, step.rate_mbps, step.delay_ms, step.loss_percent)
        cells = [
            "" if value is None else units.render(value, dimension).replace(" ", "")
            for value, (dimension, _) in zip(values, _COLUMNS.values(), strict=True)
        ]
        rows.append(":".join(cells).rstrip(":"))
    return ",".join(rows)


def _check_count(where: str, count: int) -> None:
    if count > MAX_STEPS:
        raise FaultError(f"{where}: {count} steps: expected {MAX_STEPS} or fewer")


def _csv(lines: _Lines) -> tuple[Step, ...]:
    _check_count(lines[-1][0], len(lines) - 1)  # the first one may have names
    rows = [(where, [cell.strip() for cell in line.split(",")]) for where, line in lines]
    where, first = rows[0]
    if not re.match(r"[A-Za-z]", first[0]):
        return _steps(rows, tuple(_COLUMNS))
    names = tuple(map(str.lower, first))
    if len({*names}) < len(names) or not {*_NEEDED} <= {*names} <= {*_COLUMNS}:
        allowed = "time and rate, and if wanted delay and loss, each once"
        raise FaultError(f"{where}: columns {','.join(first)}: expected {allowed}")
    if not rows[1:]:
        raise FaultError(f"{where}: no rows: expected one or more")
    return _steps(rows[1:], names)


def _steps(rows: Sequence[tuple[str, list[str]]], names: tuple[str, ...]) -> tuple[Step, ...]:
    steps: list[Step] = []
    for where, cells in rows:
        step = _step(cells, names, where)
        if steps and step.at_s <= steps[-1].at_s:
            times = f"{step.at_s:g} s after {steps[-1].at_s:g} s"
            raise FaultError(f"{where}: {times}: expected times that grow")
        steps.append(step)
    return tuple(steps)


def _step(cells: list[str], names: tuple[str, ...], where: str) -> Step:
    if len(cells) > len(names):
        raise FaultError(f"{where}: {len(cells)} columns: expected {','.join(names)}")
    values: dict[str, float] = {}
    for name, text in zip(names, cells, strict=False):
        dimension, unit = _COLUMNS[name]
        try:
            if text:
                values[name] = units.parse_cell(text, dimension, unit)
        except QuantityError as error:
            raise FaultError(f"{where}: {text}: {error}") from None
    for name in _NEEDED:
        if name not in values:
            raise FaultError(f"{where}: no {name}: expected {_ALLOWED}")
    step = Step(values["time"], values["rate"], values.get("delay"), values.get("loss"))
    try:
        possible = Link("", "", step.rate_mbps, step.delay_ms or 0.0, 0.0, step.loss_percent or 0.0)
        check_values(where, possible)
    except TopologyError as error:
        raise FaultError(str(error)) from None
    return step


def _mahimahi(lines: _Lines) -> tuple[Step, ...]:
    """The rates of the windows; equal rates of successive windows are one step."""
    times_ms = [_opportunity_ms(line, where) for where, line in lines]
    for (one_ms, next_ms), (where, _) in zip(pairwise(times_ms), lines[1:], strict=True):
        if next_ms < one_ms:
            raise FaultError(f"{where}: {next_ms} after {one_ms}: expected times that do not fall")
    end_ms = times_ms[-1]
    if not end_ms:
        raise FaultError(f"{lines[-1][0]}: 0: expected a last time of 1 ms or more")
    last = max(0, end_ms // WINDOW_MS - 1)
    counts = Counter(min(last, max(0, time_ms - 1) // WINDOW_MS) for time_ms in times_ms)
    steps: list[Step] = []
    for window in range(last + 1):
        width_ms = WINDOW_MS if window < last else end_ms - last * WINDOW_MS
        rate_mbps = max(1, counts[window]) * OPPORTUNITY_BYTES * 8 / width_ms / 1000
        if not steps or rate_mbps != steps[-1].rate_mbps:
            steps.append(Step(window * WINDOW_MS / 1000, rate_mbps))
    return tuple(steps)


def _opportunity_ms(line: str, where: str) -> int:
    if not re.fullmatch("[0-9]{1,12}", line):
        raise FaultError(
            f"{where}: {line[:40]}: expected {_ALLOWED}, or mahimahi's whole milliseconds"
        )
    if int(line) > LONGEST_MS:
        raise FaultError(f"{where}: {line}: expected up to {LONGEST_MS} ms, a day")
    return int(line)
