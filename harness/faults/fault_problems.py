"""What is wrong in a line or a file, collected so that all of it is refused at once (pure).

Also what was probably meant by a word that a fault does not have.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from trunkline.harness.config import units
from trunkline.harness.config.units import QuantityError
from trunkline.harness.faults.fault_parts import Clause, FaultError, Part, Setting
from trunkline.topologies.formats import attributes

MOST_ERRORS = 5
"""The most problems of one line or file that an error lists."""

_ARROW = re.compile(r"\s*(<?->)\s*")
_KEYS = {"share": "loss"}
"""The key of a fault for a meaning of a file's word, where it has another name."""


@dataclass(slots=True)
class FaultProblems:
    """Collects errors; `refuse` raises one error that lists them, each text once."""

    errors: list[FaultError] = field(default_factory=list)

    @contextlib.contextmanager
    def noting(self) -> Iterator[None]:
        """Collect the error of one part."""
        try:
            yield
        except FaultError as error:
            self.errors.append(error)

    def note(self, texts: Iterable[str]) -> None:
        """Collect these texts as errors."""
        self.errors += map(FaultError, texts)

    def refuse(self) -> None:
        """Raises FaultError if there are errors; it has the candidates of the first one."""
        if not self.errors:
            return
        texts = [*dict.fromkeys(map(str, self.errors))]
        more = f"; and {len(texts) - MOST_ERRORS} more" if len(texts) > MOST_ERRORS else ""
        raise FaultError("; ".join(texts[:MOST_ERRORS]) + more, self.errors[0].candidates)


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
