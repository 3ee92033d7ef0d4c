"""Quantities in files of networks, which other programs have written (pure).

A number without a unit is in the unit that its attribute has by default. The units of scenarios are
read, and the usual other spellings: `10 Gbps`, `100 Mbit`, `5 usec`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal

from trunkline.topologies.links import PACKET_BYTES, TopologyError

LABEL_CHARACTERS = 40
"""The most characters of a value that notes and errors quote."""


MOST = 1e18
"""No file means more than this, in any unit."""


@dataclass(frozen=True, slots=True)
class Unit:
    """What a number measures, its unit if it has none, and the sizes of the units it may have.

    `spelled` finds the size of a unit in another spelling. A value may have limits.
    """

    name: str
    plain: str
    sizes: Mapping[str, Decimal]
    above_0: bool = False
    most: float = MOST
    spelled: Callable[[str], Decimal | None] = lambda unit: None

    def find_size(self, unit: str) -> Decimal | None:
        """The size of a unit; None if this quantity has no such unit."""
        found = self.sizes.get(unit)
        return self.spelled(unit) if found is None else found


_PREFIXES = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
_RATE_UNIT = re.compile(
    r"([kmgt]|kilo|mega|giga|tera|)(i?)"
    r"(?:(b(?:/s|/sec|ps|psec|)|(?i:bits?(?:/s|/sec|ps|psec|)))|B(?:/s|/sec|ps)|(?i:bytes?(?:/s|/sec|ps)))"
)
_BARE_PREFIX = re.compile(r"[KMGT]")


def _spell_rate(unit: str) -> Decimal | None:
    """The size of a unit of rates in Mbit/s: `Gbps`, `Mb/s`, `kilobit`, `MB/s`, `10G`.

    `b` is a bit and `B` a byte, so `Mbps` are megabits; for `tc` alone they are megabytes.
    """
    if _BARE_PREFIX.fullmatch(unit):
        unit += "b"
    match = _RATE_UNIT.fullmatch(unit[:1].lower() + unit[1:] if unit[:1] in "KMGT" else unit)
    if match is None:
        return None
    base = Decimal(1024 if match[2] else 1000)
    return base ** _PREFIXES[match[1][:1]] * (1 if match[3] else 8) / 1_000_000


def _spell(names: Mapping[str, str]) -> Callable[[str], Decimal | None]:
    """Sizes by words in any case, each word with its size as a text."""
    sizes = {word: Decimal(size) for words, size in names.items() for word in words.split()}
    return lambda unit: sizes.get(unit.lower())


RATE = Unit(
    "a rate above 0",
    "Mbit/s",
    {
        "bit/s": Decimal("0.000001"),
        "kbit/s": Decimal("0.001"),
        "Mbit/s": Decimal(1),
        "Gbit/s": Decimal(1000),
    },
    above_0=True,
    spelled=_spell_rate,
)
TIME = Unit(
    "a time of 0 or more",
    "ms",
    {"us": Decimal("0.001"), "ms": Decimal(1), "s": Decimal(1000)},
    spelled=_spell(
        {
            "ns nsec nanosecond nanoseconds": "1e-6",
            "us µs μs usec usecs microsecond microseconds": "0.001",
            "ms msec msecs millisecond milliseconds": "1",
            "s sec secs second seconds": "1000",
        }
    ),
)
LENGTH = Unit(
    "a length of 0 or more",
    "km",
    {"m": Decimal("0.001"), "km": Decimal(1)},
    spelled=_spell(
        {
            "m meter meters metre metres": "0.001",
            "km kms kilometer kilometers kilometre kilometres": "1",
            "mi mile miles": "1.609344",
        }
    ),
)
PERCENT = Unit(
    "a share of 0 to 100",
    "%",
    {"%": Decimal(1)},
    most=100.0,
    spelled=_spell({"percent percentage pct": "1", "fraction share ratio": "100"}),
)
SHARE = Unit(
    "a share of 0 to 1, or of 0 to 100 with %",
    "",
    {"": Decimal(100), "%": Decimal(1)},
    most=100.0,
    spelled=_spell({"percent percentage pct": "1"}),
)
_PACKETS = {"packets packet pkts pkt p frames": str(PACKET_BYTES)}
QUEUE = Unit(
    "a queue above 0",
    "B",
    {
        "B": Decimal(1),
        "kB": Decimal(10**3),
        "MB": Decimal(10**6),
        "KiB": Decimal(2**10),
        "MiB": Decimal(2**20),
        "packets": Decimal(PACKET_BYTES),
    },
    above_0=True,
    spelled=_spell({"b byte bytes": "1", "kb": "1000", "mb": "1e6", "gb": "1e9"} | _PACKETS),
)
PACKETS = replace(QUEUE, plain="packets")

_QUANTITY = re.compile(r"\s*((?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)\s*(.*?)\s*")


def read_quantity(value: object, unit: Unit) -> float:
    """Read `2.5 Gbit/s`, or a number without a unit in the plain unit, as a number of that unit.

    A share has its number in percent, a queue in bytes.

    Raises:
        TopologyError: the value is not a quantity of this unit.
    """
    match = _QUANTITY.fullmatch(str(value))
    size = unit.find_size(match[2] or unit.plain) if match else None
    most = ""
    if match is not None and size is not None:
        number = _scale(match[1], size)
        if (number or not unit.above_0) and number <= unit.most:
            return float(number)
        most = f" up to {MOST:g}" * (number > unit.most == MOST)
    units = ", ".join(filter(None, unit.sizes))
    plain = f" in {unit.plain}, or with a unit ({units})" if unit.plain else ""
    raise TopologyError(f"{quote(str(value))}: expected {unit.name}{most}{plain}")


def _scale(digits: str, size: Decimal) -> Decimal:
    try:
        return Decimal(digits) * size
    except ArithmeticError:  # an exponent beyond what Decimal can hold
        return Decimal("inf")


def has_unit(value: object) -> bool:
    """Whether a value is a number with a unit of rates, times, lengths or shares."""
    match = _QUANTITY.fullmatch(str(value))
    kinds = (RATE, TIME, LENGTH, PERCENT)
    return bool(match and match[2] and any(kind.find_size(match[2]) for kind in kinds))


def quote(text: str) -> str:
    """A user's text in quotation marks, without its end if it is long."""
    cut = text if len(text) <= LABEL_CHARACTERS else f"{text[: LABEL_CHARACTERS - 1]}…"
    return repr(cut)
