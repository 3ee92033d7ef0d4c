"""Traces: a link's rate, delay, jitter and loss over time, in files and in one word (pure).

A table (`trace_tables`) has a row per change. Its header row says what its columns are
(`trace_columns`); without one they are time, rate, delay, loss and jitter. Numbers without a unit
are in seconds, Mbit/s, milliseconds and percent. A rate of 0 stops the link. Rows without a time
are `step` apart. A file with one number per line is of mahimahi, or needs a unit.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from trunkline.harness.config import units
from trunkline.harness.config.units import RATE_MBPS, SHARE_PERCENT, TIME_MS, TIME_S, QuantityError
from trunkline.harness.faults.fault_parts import FaultError
from trunkline.harness.faults.fault_problems import FaultProblems
from trunkline.harness.faults.recorded import mahimahi
from trunkline.harness.faults.recorded.recorded_faults import Step
from trunkline.harness.faults.recorded.trace_columns import (
    ALLOWED,
    POSITIONS,
    VALUES,
    Columns,
    find_columns,
    name_unit,
)
from trunkline.harness.faults.recorded.trace_tables import Row, Table, list_cells, read_table
from trunkline.harness.faults.recorded.trace_times import is_date, read_times
from trunkline.topologies.formats.quantities import read_quantity
from trunkline.topologies.links import RATES_MBPS, Link, TopologyError, check_values

MAX_STEPS = 200_000
"""The most steps of all traces of a scenario: `resolved.yaml` has them, and its length is limited.

A line of a mahimahi file is not a step.
"""

MAHIMAHI = "mahimahi"
"""The unit of files whose lines are times of packets."""

_TIME = (TIME_S, "s")
_WORD = {
    "rate": (RATE_MBPS, "Mbit/s"),
    "delay": (TIME_MS, "ms"),
    "loss": (SHARE_PERCENT, "%"),
    "jitter": (TIME_MS, "ms"),
}
"""What a step has in a word after its time, with dimensions and plain units."""

_FIELDS = {
    "rate": "rate_mbps",
    "delay": "delay_ms",
    "jitter": "jitter_ms",
    "loss": "loss_percent",
}


@dataclass(frozen=True, slots=True)
class Reading:
    """How a file is to be read; empty for what the file says itself.

    Attributes:
        unit: the unit of numbers, or `mahimahi`.
        step: the time between rows, which then need none.
        start: what counts as 0: `first` for the first row, a time, or a date.
        rate: the column of the rate.
        columns: names of the columns instead of those in the file, separated by commas.
    """

    unit: str = ""
    step: str = ""
    start: str = ""
    rate: str = ""
    columns: str = ""


def read(
    text: str, name: str, reading: Reading = Reading()
) -> tuple[tuple[Step, ...], tuple[str, ...]]:
    """Read the steps in a file's text, and notes on what was not read; `name` is its name.

    Raises:
        FaultError: the text is not a trace; the message names the line.
    """
    table = read_table(text, name)
    is_plain = not table.names and max(len(cells) for _, cells in table.rows) == 1
    if is_plain and reading.unit in ("", MAHIMAHI) and not (reading.step or reading.columns):
        return _read_opportunities(table, name, reading.unit)
    if reading.unit == MAHIMAHI:
        raise FaultError(f"{name}: unit={MAHIMAHI}: expected a time in ms per line and no step=")
    check_count(name, len(table.rows))
    columns = _find_columns(table, reading)
    problems, times_s, steps = FaultProblems(), list[float](), list[Step]()
    for row in table.rows:
        try:
            steps.append(_read_step(row, columns))
        except FaultError as error:
            problems.errors.append(error)
    with problems.noting():
        times_s = find_times(table.rows, columns, reading, table.where)
    problems.refuse()
    unread = ", ".join(columns.unread)
    notes = (f"{name}: columns that are not read: {unread}",) if unread else ()
    return _start(times_s, steps, name), notes


def parse_steps(word: str) -> tuple[Step, ...] | None:
    """Read the steps in a word from `write`; None if the word is the name of a file."""
    if (rows := split_steps(word)) is None:
        return None
    problems, steps = FaultProblems(), list[Step]()
    for at_s, cells in rows:
        with problems.noting():
            steps.append(_parse_step(at_s, cells))
    problems.refuse()
    return tuple(steps)


def split_steps(word: str) -> tuple[tuple[float, list[str]], ...] | None:
    """The time in s and the other cells of each step in a word; None if it is a file's name."""
    if not re.match(r"[0-9.]+(us|ms|s|min|h):", word):
        return None
    check_count("steps", word.count(",") + 1)
    rows = [(_parse_cell(row.partition(":")[0], *_TIME), row.split(":")[1:])
            for row in word.split(",")]  # fmt: skip
    for (before_s, _), (at_s, _) in itertools.pairwise(rows):
        if at_s <= before_s:
            raise FaultError(f"steps: {at_s:g} s after {before_s:g} s: expected times that grow")
    return tuple(rows)


def write(steps: tuple[Step, ...]) -> str:
    """Write steps as one word: `0s:20Mbit/s,1.5s:30Mbit/s:40ms:0.1%`."""
    rows = []
    for step in steps:
        cells = [units.render(step.at_s, TIME_S).replace(" ", "")]
        cells += [
            "" if (value := getattr(step, _FIELDS[name])) is None
            else units.render(value, dimension).replace(" ", "")
            for name, (dimension, _) in _WORD.items()
        ]  # fmt: skip
        rows.append(":".join(cells).rstrip(":"))
    return ",".join(rows)


def check_count(where: str, count: int) -> None:
    """Check that a trace does not have too many steps."""
    if count > MAX_STEPS:
        raise FaultError(f"{where}: {count} steps: expected {MAX_STEPS} or fewer")


def find_times(
    rows: Sequence[Row], columns: Columns, reading: Reading, where: str, whole: Sequence[Row] = ()
) -> list[float]:
    """The times of the rows in seconds; they grow, and those before the start are below 0.

    `whole` has all rows of the file, of which the first one in time is the start.
    """
    time = columns.found.get("time")
    if reading.step:
        if time is not None:
            raise FaultError(f"step={reading.step}: expected rows without times")
        try:
            step_s = units.parse(reading.step, TIME_S)
        except QuantityError as error:
            raise FaultError(f"step={reading.step}: {error}") from None
        if not step_s:
            raise FaultError(f"step={reading.step}: expected a time above 0")
        if reading.start:
            raise FaultError(f"from={reading.start}: expected rows with times")
        return [round(index * step_s, 9) for index in range(len(rows))]
    if time is None:
        allowed = "expected a column time (columns=NAME,... names columns), or step=TIME per row"
        raise FaultError(f"{where}: no time: {allowed}")
    cells = list_cells(rows, time.place)
    if columns.date is not None:
        dates = list_cells(rows, columns.date)
        cells = [(place, f"{date} {text}") for (place, date), (_, text) in
                 zip(dates, cells, strict=True)]  # fmt: skip
    problems = FaultProblems()
    problems.note(f"{place}: no time: {ALLOWED}" for place, text in cells if not text)
    problems.refuse()
    return read_times(cells, time.unit, reading.start, list_cells(whole, time.place))


def find_dates(table: Table) -> int | None:
    """The first column if it has no name and dates; None otherwise."""
    return 0 if not table.names[0] and is_date("".join(table.rows[0][1][:1])) else None


def _find_columns(table: Table, reading: Reading) -> Columns:
    where = table.where
    if reading.columns:
        return find_columns(reading.columns.split(","), where, reading.rate, reading.unit)
    if table.names:
        return find_columns(table.names, where, reading.rate, reading.unit, find_dates(table))
    width = max(len(cells) for _, cells in table.rows)
    positions = POSITIONS[1:] if reading.step else POSITIONS
    if width > len(positions):
        allowed = f"expected {','.join(positions)}, a header row, or columns=NAME,..."
        raise FaultError(f"{where}: {width} columns: {allowed}")
    if width == 1 and reading.unit:
        return find_columns((name_unit(reading.unit)[0],), where, unit=reading.unit)
    if width == 1 and not reading.step:
        raise FaultError(f"{where}: no rate: {ALLOWED}")
    return find_columns(positions[:width], where, reading.rate, reading.unit)


def _read_step(row: Row, columns: Columns) -> Step:
    where, cells = row
    values: dict[str, Any] = {}
    problems: list[str] = []
    for kind in VALUES:
        column = columns.found.get(kind)
        text = cells[column.place] if column and column.place < len(cells) else ""
        if column and text:
            try:
                values[_FIELDS[kind]] = read_quantity(text, column.unit) * column.factor
            except TopologyError as error:
                problems.append(f"{where}: {kind} {error}")
    if problems:
        raise FaultError("; ".join(problems))
    if not values and len(cells) < 2 <= len(columns.found):
        raise FaultError(f"{where}: no value: {ALLOWED}")
    return _check(Step(0.0, **values), where)


def _parse_step(at_s: float, cells: list[str]) -> Step:
    if len(cells) > len(_WORD):
        raise FaultError(f"steps: {len(cells)} values: expected up to {', '.join(_WORD)}")
    given = {_FIELDS[name]: _parse_cell(text, *_WORD[name])
             for name, text in zip(_WORD, cells, strict=False) if text}  # fmt: skip
    if not given:
        raise FaultError(f"steps: no value: {ALLOWED}")
    return _check(Step(at_s, **given), "steps")


def _parse_cell(text: str, dimension: units.Dimension, unit: str) -> float:
    try:
        return units.parse_cell(text, dimension, unit)
    except QuantityError as error:
        raise FaultError(f"steps: {text}: {error}") from None


def _check(step: Step, where: str) -> Step:
    delay_ms = step.jitter_ms or 0.0 if step.delay_ms is None else step.delay_ms
    link = Link("", "", step.rate_mbps or 1.0, delay_ms, step.jitter_ms or 0.0,
                step.loss_percent or 0.0)  # fmt: skip
    try:
        check_values(where, link)
    except TopologyError as error:
        too_fast = (step.rate_mbps or 0) > RATES_MBPS[1]
        hint = "; unit=bit/s says that it is in bit/s" if too_fast else ", or 0 for an outage"
        texts = [f"{text}{hint if key == 'rate_mbps' else ''}" for key, text in error.parts]
        raise FaultError("; ".join(texts)) from None
    return step


def _start(times_s: Sequence[float], steps: Sequence[Step], name: str) -> tuple[Step, ...]:
    """The steps at their times, without empty ones; those before the start are one at the start."""
    found: list[Step] = []
    for at_s, step in zip(times_s, steps, strict=True):
        values = {key: value for key in _FIELDS.values()
                  if (value := getattr(step, key)) is not None}  # fmt: skip
        if found and (at_s <= 0 or at_s <= found[-1].at_s):
            found[-1] = replace(found[-1], **values)
        elif values:
            found.append(replace(step, at_s=max(0.0, at_s)))
    if not found:
        raise FaultError(f"{name}: no value: {ALLOWED}")
    return tuple(found)


def _read_opportunities(
    table: Table, name: str, unit: str
) -> tuple[tuple[Step, ...], tuple[str, ...]]:
    lines = [(where, cells[0]) for where, cells in table.rows]
    if not unit and not mahimahi.looks_alike(lines, name):
        allowed = (
            f"expected unit={MAHIMAHI} if these are times of packets in ms, or the unit and the "
            "distance of the values, such as unit=Mbit/s step=1s"
        )
        raise FaultError(f"{name}: one number per line: {allowed}")
    steps = mahimahi.read_opportunities(lines)
    return steps, (f"{name}: read as the packets of mahimahi",)
