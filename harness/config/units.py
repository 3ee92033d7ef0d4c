"""Quantities with units (pure): `rate: 50 Mbit/s` in a file is `rate_mbps=50.0` in Python.

A Python name ends with its unit. In a file the value has the unit, not the key. The six dimensions
below convert between the two. Numbers go through `Decimal`, so that `parse` reads a value that
`render` wrote as exactly the same number.

A number without a unit is an error, except 0, which is the same in every unit.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from trunkline.topologies.formats.quantities import RATE

Number = int | float


class QuantityError(ValueError):
    """A value that is not an allowed quantity; the message says what is allowed."""


@dataclass(frozen=True, slots=True)
class Dimension:
    """A physical dimension and the units that a file may use for it.

    Attributes:
        name: its name in error messages, with an article.
        suffix: the end of Python names.
        units: the size of each unit, in the unit of the suffix.
        whole: whether values in the unit of the suffix are whole numbers.
    """

    name: str
    suffix: str
    example: str
    units: Mapping[str, Decimal]
    whole: bool = False

    @property
    def allowed(self) -> str:
        """What a file may say, for error messages."""
        return f"expected {self.name} such as {self.example} (units: {', '.join(self.units)})"

    @property
    def pattern(self) -> str:
        """A regular expression (ECMA 262) for the texts that `parse` reads."""
        units = "|".join(re.escape(unit) for unit in self.units)
        return rf"^({_NUMBER}) *({units})$"


_NUMBER = r"[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"
_QUANTITY = re.compile(rf"(-?)({_NUMBER})\s*((?:[^\s0-9.,]\S*)?)")
_BARE = re.compile(r"-?[0-9.]+([eE][+-]?[0-9]+)?")
_TOO_LARGE = Decimal("1e18")

_TIMES = {"us": "0.000001", "ms": "0.001", "s": "1", "min": "60", "h": "3600"}

RATE_MBPS = Dimension(
    "a rate",
    "mbps",
    "50 Mbit/s",
    {
        "bit/s": Decimal("0.000001"),
        "kbit/s": Decimal("0.001"),
        "Mbit/s": Decimal(1),
        "Gbit/s": Decimal(1000),
    },
)
TIME_MS = Dimension(
    "a time", "ms", "30 ms", {unit: Decimal(size) * 1000 for unit, size in _TIMES.items()}
)
TIME_S = Dimension("a time", "s", "50 s", {unit: Decimal(size) for unit, size in _TIMES.items()})
SIZE_BYTES = Dimension(
    "a size",
    "bytes",
    "256 KiB",
    {
        "B": Decimal(1),
        "kB": Decimal(10**3),
        "MB": Decimal(10**6),
        "GB": Decimal(10**9),
        "KiB": Decimal(2**10),
        "MiB": Decimal(2**20),
        "GiB": Decimal(2**30),
    },
    whole=True,
)
_DECIMAL_BYTES = replace(
    SIZE_BYTES, units={unit: SIZE_BYTES.units[unit] for unit in ("B", "kB", "MB", "GB")}
)
SHARE_PERCENT = Dimension("a share", "percent", "0.02 %", {"%": Decimal(1)})

DRIFT_PPM = Dimension("a drift", "ppm", "50 ppm", {"ppm": Decimal(1), "%": Decimal(10_000)})

DIMENSIONS = (RATE_MBPS, TIME_MS, TIME_S, SIZE_BYTES, SHARE_PERCENT, DRIFT_PPM)


def split_name(name: str) -> tuple[str, Dimension | None]:
    """Split a Python name into its key in a file and its dimension.

    `rate_mbps` gives (`rate`, RATE_MBPS). A name without a unit is its own key: (`p`, None).
    """
    for dimension in DIMENSIONS:
        key = name.removesuffix(f"_{dimension.suffix}")
        if key and key != name:
            return key, dimension
    return name, None


def parse_cell(text: str, dimension: Dimension, unit: str) -> Number:
    """Read a cell of a table, where a number may stand without its unit. Raises QuantityError."""
    return parse(f"{text} {unit}" if _BARE.fullmatch(text) else text, dimension)


def parse(value: object, dimension: Dimension) -> Number:
    """Read a quantity such as `50 Mbit/s` as a number in the unit of the dimension's suffix.

    The number is an int for bytes and a float for other dimensions.

    Raises:
        QuantityError: the value is not a quantity, is negative or too large, or has no unit.
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        if value == 0:
            return 0 if dimension.whole else 0.0
        raise QuantityError(f"a unit is missing: {dimension.allowed}")
    match = _QUANTITY.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        raise QuantityError(dimension.allowed)
    sign, digits, unit = match.groups()
    if unit not in dimension.units:
        raise QuantityError(_unknown_unit(digits, unit, dimension))
    amount = _scale(digits, dimension.units[unit])
    if sign and amount:
        raise QuantityError(f"expected {dimension.name} of 0 or more")
    if amount > _TOO_LARGE:
        raise QuantityError(f"expected {dimension.name} up to {render(_TOO_LARGE, dimension)}")
    if not dimension.whole:
        return float(amount)
    if amount != int(amount):
        raise QuantityError(f"this is {float(amount)} bytes: expected a whole number of bytes")
    return int(amount)


def render(value: Number | Decimal, dimension: Dimension) -> str:
    """Write a number as a text that `parse` reads as exactly this number.

    Of all such texts, a number from 1 to 999 is preferred, then the shortest text:
    render(1500.0, RATE_MBPS) is "1.5 Gbit/s".
    """
    exact = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    base = next(unit for unit, size in dimension.units.items() if size == 1)
    if not exact:
        return f"0 {base}"

    def awkwardness(text: str) -> tuple[bool, int, bool]:
        digits, unit = text.split(" ")
        return not 1 <= Decimal(digits) < 1000, len(text), unit != base

    texts = (f"{_write_plain(exact / size)} {unit}" for unit, size in dimension.units.items())
    return min((text for text in texts if _reads_as(text, dimension) == exact), key=awkwardness)


def short(value: float, dimension: Dimension) -> str:
    """Write a quantity with at most four digits, for people to read."""
    rounded = float(f"{value:.4g}")
    number, _, unit = render(int(rounded) if dimension.whole else rounded, dimension).partition(" ")
    return f"{float(number):.4g} {unit}" if "." in number else f"{number} {unit}"


def short_size(size: float) -> str:
    """Write a measured number of bytes with at most four digits, in decimal units."""
    return short(round(size), _DECIMAL_BYTES)


def render_roughly(time_s: float) -> str:
    """Write a remaining time, rounded to the accuracy of the forecast."""
    if time_s < 100:
        return f"{time_s:.0f} s"
    if time_s < 100 * 60:
        return f"{time_s / 60:.0f} min"
    return f"{time_s / 3600:.0f} h" if time_s < 72 * 3600 else f"{time_s / 86400:.0f} days"


def count_of(number: int, what: str) -> str:
    """Write how many there are of something, whose plural ends in s."""
    return f"{number} {what}{'s' * (number != 1)}"


def join_words(words: Sequence[str], last: str = "and") -> str:
    """Write words as a list: `a, b and c`."""
    return f" {last} ".join([*[", ".join(words[:-1])] * (len(words) > 1), *words[-1:]])


def _scale(digits: str, unit_size: Decimal) -> Decimal:
    try:
        return Decimal(digits) * unit_size
    except ArithmeticError:  # an exponent beyond what Decimal can hold
        return Decimal("inf")


def _reads_as(text: str, dimension: Dimension) -> Decimal:
    digits, unit = text.split(" ")
    return _scale(digits, dimension.units[unit])


def _write_plain(number: Decimal) -> str:
    """Write a number without exponent or trailing zeros: 1E+2 -> 100, 1.50 -> 1.5."""
    text = f"{number:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _unknown_unit(digits: str, unit: str, dimension: Dimension) -> str:
    if not unit:
        return f"a unit is missing: {dimension.allowed}"
    similar = [known for known in dimension.units if known.lower() == _normalize_unit(unit).lower()]
    hint = f"did you mean {similar[0]}? " if similar else ""
    size = RATE.find_size(unit) if dimension is RATE_MBPS else None
    if not similar and size and (amount := _scale(digits, size)) <= _TOO_LARGE:  # MB/s
        hint = f"did you mean {render(amount, dimension)}? "
    return f"unknown unit {unit}: {hint}{dimension.allowed}"


def _normalize_unit(unit: str) -> str:
    """Replace a usual other spelling of a unit: Mbps, Mb/s, sec, minutes, percent."""
    known = {"sec": "s", "secs": "s", "second": "s", "seconds": "s", "msec": "ms", "µs": "us"}
    known |= {"usec": "us", "mins": "min", "minute": "min", "minutes": "min", "hour": "h"}
    known |= {"hours": "h", "percent": "%", "pct": "%", "bytes": "B", "byte": "B"}
    if unit in known:
        return known[unit]
    return re.sub(r"(bps|bits?ps|b/s|bits/s)$", "bit/s", unit)
