"""Times in files of traces: numbers, dates and Unix time, as seconds from a start (pure).

A number of 10**8 or more without a unit is Unix time in s, ms, us or ns, as its size tells. Dates
are in ISO 8601, or with dots and the day first; those without a time zone are in UTC.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from trunkline.harness.faults.fault_parts import FaultError
from trunkline.harness.faults.fault_problems import FaultProblems
from trunkline.topologies.formats.quantities import TIME, Unit, quote

FIRST = "first"
"""The word for the time of the first row."""

_LONGER = {
    word: Decimal(size)
    for size, words in ((60, "min mins minute minutes"), (3600, "h hr hour hours"))
    for word in words.split()
}


def _find_unit(unit: str) -> Decimal | None:
    size = TIME.find_size(unit.lower())
    return _LONGER.get(unit.lower()) if size is None else size / 1000


SECONDS = Unit("a time", "", {}, spelled=_find_unit)
"""Times in s; `plain` is empty if neither the column nor the user names a unit."""

ALLOWED = "expected a time in s, or with a unit, a date (2024-03-01T12:00:00Z) or Unix time"

UNIX_S = 10**8
"""Larger numbers of seconds are a date: no run lasts three years."""

_NUMBER = re.compile(r"((?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)\s*([a-zA-Zµ]*)")
_DATE = re.compile(
    r"([0-9]{4})[-./]?([0-9]{2})[-./]?([0-9]{2})"
    r"(?:[T _]([0-9]{1,2})[:.]?([0-9]{2})(?:[:.]?([0-9]{2})(?:[.,]([0-9]{1,9}))?)?)?"
    r"\s*(Z|UTC|GMT|[+-][0-9]{2}:?(?:[0-9]{2})?)?"
)
_DAY_FIRST = re.compile(r"([0-9]{2})\.([0-9]{2})\.([0-9]{4})(?![0-9])")
_CLOCK = re.compile(r"([0-9]{1,2}):([0-9]{2})(?::([0-9]{2})(\.[0-9]+)?)?")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def read_times(
    cells: Sequence[tuple[str, str]],
    unit: Unit = SECONDS,
    start: str = "",
    whole: Sequence[tuple[str, str]] = (),
) -> list[float]:
    """The times of a column in seconds from a start; they grow, and may be negative.

    Args:
        cells: the text of each row, with its place.
        unit: what a number without a unit is.
        start: what counts as 0: `first`, a time or a date; by default 0 of the file, or the first
            row if the file has dates or Unix time.
        whole: the cells of all rows, if these are some of them; the earliest is the first row.

    Raises:
        FaultError: a cell is no time, or earlier than the one before it.
    """
    times: list[Decimal] = []
    problems = FaultProblems()
    for where, text in cells:
        try:
            at_s = _read(text, where, unit)
        except FaultError as error:
            problems.errors.append(error)
            continue
        if times and at_s <= times[-1]:
            first = times[0] if times[0] >= UNIX_S else Decimal(0)
            shown = f"{at_s - first:g} s after {times[-1] - first:g} s"
            problems.note([f"{where}: {shown}: expected times that grow"])
        times.append(at_s)
    problems.refuse()
    first = min((_read(text, where, unit) for where, text in whole), default=times[0])
    zero = _find_zero(first, start, unit, clock=bool(_CLOCK.fullmatch(cells[0][1])))
    if times[-1] < zero:
        raise FaultError(f"from={start}: expected a time before the last row, {cells[-1][1]}")
    return [float(at_s - zero) for at_s in times]


def is_date(text: str) -> bool:
    """Whether a cell has a date or the time of a day, not a number."""
    return bool((_match_date(text) and not text.isdigit()) or _CLOCK.fullmatch(text))


def _find_zero(first: Decimal, start: str, unit: Unit, clock: bool) -> Decimal:
    is_absolute = clock or first >= UNIX_S
    if start == FIRST or (is_absolute and not start):
        return first
    if not start:
        return Decimal(0)
    at_s = _read(start, "from", unit)
    return first + at_s if is_absolute and not is_date(start) and at_s < UNIX_S else at_s


def _read(text: str, where: str, unit: Unit) -> Decimal:
    """Seconds since 0, since the epoch, or since midnight."""
    if match := _NUMBER.fullmatch(text):
        number, size = Decimal(match[1]), unit.find_size(match[2] or unit.plain or "s")
        if size is not None and number < Decimal("1e30"):
            return number * (size if match[2] or unit.plain else _find_size(number))
    elif match := _CLOCK.fullmatch(text):
        hours, minutes, seconds, rest = match.groups()
        return Decimal(int(hours) * 3600 + int(minutes) * 60 + int(seconds or 0)) + Decimal(
            f"0{rest or '.0'}"
        )
    elif match := _match_date(text):
        try:
            return _read_date(match)
        except (ValueError, OverflowError) as error:
            raise FaultError(f"{where}: {quote(text)}: {error}: {ALLOWED}") from None
    raise FaultError(f"{where}: {quote(text)}: {ALLOWED}")


def _match_date(text: str) -> re.Match[str] | None:
    return _DATE.fullmatch(_DAY_FIRST.sub(r"\3-\2-\1", text))


def _find_size(number: Decimal) -> Decimal:
    """The unit of a number without one: s, unless it is Unix time in a smaller unit."""
    for power in (0, 3, 6, 9):
        if number < Decimal(10) ** (power + 11):
            return Decimal(10) ** -power
    return Decimal(1)


def _read_date(match: re.Match[str]) -> Decimal:
    year, month, day, hours, minutes, seconds, rest, zone = match.groups()
    parts = (int(part or 0) for part in (year, month, day, hours, minutes, seconds))
    since = datetime(*parts, tzinfo=UTC) - _EPOCH  # type: ignore[misc, arg-type]
    if zone and zone[0] in "+-":
        digits = zone[1:].replace(":", "").ljust(4, "0")
        away = timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
        since += away if zone[0] == "-" else -away
    return Decimal(since.days * 86400 + since.seconds) + Decimal(f"0.{rest or 0}")
