"""Writes the text of faults, and the usage of their verbs (pure)."""

from __future__ import annotations

from dataclasses import MISSING, fields
from decimal import Decimal
from typing import Any

from trunkline.agents.events.event import CONTROLLER
from trunkline.harness.config import units
from trunkline.harness.faults.fault_parts import (
    Choice,
    Clause,
    Delays,
    Ends,
    Groups,
    Hint,
    Name,
    Part,
    Setting,
    Sites,
    Track,
)
from trunkline.harness.faults.fault_types import VERBS, Fault
from trunkline.harness.faults.recorded import availability, traces
from trunkline.harness.faults.recorded.recorded_faults import Availability


def write(fault: Fault) -> str:
    """Write the text that `fault_syntax.parse` reads as this fault; it has default values, too."""
    words = [fault.VERB]
    for part in fault.PARTS:
        match part:
            case Ends():
                words += [fault.a, fault.b]  # type: ignore[union-attr]
            case Name() | Choice():
                words.append(getattr(fault, part.field))
            case Groups():
                words.append(" | ".join(map(",".join, fault.groups)))  # type: ignore[union-attr]
            case Track():
                module: Any = availability if isinstance(fault, Availability) else traces
                words.append(module.write(fault.steps))  # type: ignore[union-attr]
            case Clause() if (value := getattr(fault, part.field)) is not None:
                words.append(f"{part.word} {units.render(value, part.dimension)}")
            case Setting() if (value := getattr(fault, part.field)) is not None:
                words.append(f"{part.key}={_write_setting(value, part)}")
            case Delays() if (value := getattr(fault, part.field)) is not None:
                words.append(f"{part.key}={value}")
            case Sites() if names := getattr(fault, part.field):
                words.append(f"{part.key}={','.join(names)}")
    return " ".join(words)


def usage(verb: str) -> str:
    """The usage of a verb: `outage SITE SITE [both|one-way] [blackhole|carrier] [for TIME]`."""
    optional = {field.name for field in fields(VERBS[verb]) if field.default is not MISSING}
    words = [verb]
    for part in VERBS[verb].PARTS:
        may_miss = isinstance(part, Hint) or getattr(part, "field", None) in optional
        words.append(f"[{describe_part(part)}]" if may_miss else describe_part(part))
    return " ".join(words)


def describe_part(part: Part) -> str:
    """The form of a part in a usage: `SITE`, `both|one-way`, `for TIME`, `rate=RATE`."""
    match part:
        case Ends():
            return "SITE (SITE|all)" if part.all else "SITE SITE"
        case Name(agents=agents, programs=programs):
            words = ["SITE", *["SITE.ROLE"] * agents, *[CONTROLLER] * (agents and not programs)]
            return "|".join(words)
        case Groups():
            return "SITE,... [| SITE,...]..."
        case Track():
            return "FILE"
        case Hint(key=key, word=word):
            return f"{key}={word}"
        case Choice(words=words):
            return "|".join(words)
        case Clause(word=word):
            return f"{word} TIME"
        case Setting(key=key, dimension=dimension, is_range=is_range):
            noun = "NUMBER" if dimension is None else dimension.name.split()[-1].upper()
            return f"{key}={noun}..{noun}" if is_range else f"{key}={noun}"
        case Delays(key=key):
            return f"{key}=NAME|FILE"
        case Sites(key=key):
            return f"{key}=SITE,..."


def summary(verb: str) -> str:
    """The effect of a verb, in one line."""
    return str(VERBS[verb].__doc__).partition("\n")[0]


def _write_setting(value: Any, part: Setting) -> str:
    """Write a value without spaces: `20Mbit/s`, `20..155Mbit/s`."""
    if part.dimension is None:
        return str(value)
    if not part.is_range:
        return units.render(value, part.dimension).replace(" ", "")
    base = next(unit for unit, size in part.dimension.units.items() if size == 1)
    return f"{'..'.join(_write_plain(number) for number in value)}{base}"


def _write_plain(number: float) -> str:
    text = f"{Decimal(repr(number)):f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
