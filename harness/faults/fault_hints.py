"""What is probably meant by a word that a fault does not have (pure)."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence

from trunkline.harness.config import units
from trunkline.harness.config.units import QuantityError
from trunkline.harness.faults.fault_parts import Clause, Part, Setting
from trunkline.topologies.formats import attributes

_ARROW = re.compile(r"\s*(<?->)\s*")
_KEYS = {"share": "loss"}
"""The key of a fault for a meaning of a file's word, where it has another name."""


def split(text: str) -> list[str]:
    """The words of a text; an arrow or a bar between names is a word, with or without spaces."""
    return _ARROW.sub(r" \1 ", text.replace("|", " | ")).split()


def advise(word: str, parts: Sequence[Part]) -> str:
    """A hint such as `did you mean rate=5Mbit/s? `; empty if there is none."""
    key, equals, value = word.partition("=")
    if equals:
        meaning = attributes.find_meaning(key)
        meant = _KEYS.get(meaning, meaning)
        if meaning == "rtt":
            return "did you mean delay=, which is one-way, half of a round trip? "
        if any(isinstance(part, Setting) and part.key == meant for part in parts):
            return f"did you mean {meant}={value}? "
        return ""
    with contextlib.suppress(QuantityError):
        for part in parts:
            if isinstance(part, Clause):
                units.parse(word, part.dimension)
                return f"did you mean {part.word} {word}? "
    return ""
