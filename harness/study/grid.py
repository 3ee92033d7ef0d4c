"""What `--vary` means: the cells of a comparison and their trials (pure).

`--vary scheme.plan=crew,ring --vary scheme.p=5,10` is four cells. Values are YAML and separated by
commas outside of brackets, braces and quotes. A mapping as a value sets just the keys that it
names, so that values that belong together vary together:

    --vary 'scheme={plan: crew, split: even},{plan: ring}'

Another scenario may stand beside the grid. It has a cell for every combination of what says where a
run happens (SHARED); what else is varied is none of its business.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from trunkline.harness.config import document

FORM = "allowed is KEY.PATH=VALUE,VALUE,..., such as scheme.plan=crew,ring"
SHARED = ("backend", "clock", "topology", "network", "limits")
"""Sections of a scenario that say where it happens, not what its sites do."""

SCENARIO = "scenario"
"""The column that tells scenarios apart if nothing else does."""

NONE = "-"
"""Stands where a scenario has no value of its own."""

BRACKETS = {"[": "]", "{": "}"}


class GridError(ValueError):
    """A `--vary` that varies nothing: its text, and what is allowed."""


@dataclass(frozen=True, slots=True)
class Axis:
    """A key path of the scenario and the values that it takes, as they were written."""

    key: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Cell:
    """One point of the grid: a value for every axis, in the order of the axes.

    `overrides` are `key.path=value` for each key that is set.
    """

    values: tuple[tuple[str, str], ...]
    overrides: tuple[str, ...]

    def __str__(self) -> str:
        return " ".join(f"{key}={text}" for key, text in self.values) or "as it is"


def read_axis(option: str) -> Axis:
    """Read one `--vary`. Raises GridError."""
    where = f"--vary {option}"
    key, equals, text = option.partition("=")
    key = key.strip()
    if not equals or document.parse_path(key) is None:
        raise GridError(f"{where}: {FORM}")
    if key == "seed":
        raise GridError(f"{where}: allowed is another key; --trials N varies the seed")
    values = tuple(_split(text, where))
    if "" in values:
        raise GridError(f"{where}: a value is missing: {FORM}")
    again = next((value for value in values if values.count(value) > 1), None)
    if again is not None:
        raise GridError(f"{where}: {again} is given twice: allowed is each value once")
    for value in values:
        problem = next(iter(document.read(value, where).problems), None)
        if problem:
            raise GridError(f"{where}: {value}: {problem.value}: {problem.allowed}")
    return Axis(key, values)


def read_axes(options: Sequence[str]) -> tuple[Axis, ...]:
    """Read every `--vary` of a command line. Raises GridError."""
    found = tuple(map(read_axis, options))
    keys = [each.key for each in found]
    for key in keys:
        if keys.count(key) > 1:
            raise GridError(f"--vary {key}: is given twice: allowed is one list of values per key")
    return found


def combine(axes: Sequence[Axis], name: str | None = None) -> tuple[Cell, ...]:
    """Every combination of the axes' values, the last axis changing fastest.

    `name` tells the scenario from others beside it, where no axis does.
    """
    named = () if name is None or any(not is_shared(each.key) for each in axes) else (name,)
    return tuple(
        Cell((*((SCENARIO, each) for each in named), *values), _list_overrides(values))
        for values in _combine_values(axes)
    )


def combine_beside(axes: Sequence[Axis], name: str) -> tuple[Cell, ...]:
    """The cells of a scenario of that name beside the grid.

    Its name stands for the value of the first axis that is not shared.
    """
    own = next((each.key for each in axes if not is_shared(each.key)), SCENARIO)
    keys = [each.key for each in axes] if own != SCENARIO else [SCENARIO, *(a.key for a in axes)]
    return tuple(
        Cell(
            tuple((key, ({own: name} | dict(values)).get(key, NONE)) for key in keys),
            _list_overrides(values),
        )
        for values in _combine_values([each for each in axes if is_shared(each.key)])
    )


def refuse_conflicts(found: Sequence[Cell], overrides: Iterable[str]) -> None:
    """Raise GridError where a cell sets a key twice, or one that is overridden for all cells."""
    everywhere = {each.partition("=")[0].strip() for each in overrides}
    for cell in found:
        keys = [each.partition("=")[0] for each in cell.overrides]
        for key in keys:
            if keys.count(key) > 1:
                raise GridError(f"--vary {key}: is varied twice: allowed is one place")
            if key in everywhere:
                raise GridError(f"--set {key}: is varied: allowed is --vary {key}=VALUE,... alone")


def is_shared(assignment: str) -> bool:
    """Whether a key path, or `key.path=value`, holds for scenarios beside the grid as well."""
    return re.split(r"[.=\[]", assignment.strip(), maxsplit=1)[0] in SHARED


def _combine_values(axes: Sequence[Axis]) -> Iterator[tuple[tuple[str, str], ...]]:
    keys = [each.key for each in axes]
    for values in itertools.product(*(each.values for each in axes)):
        yield tuple(zip(keys, values, strict=True))


def _list_overrides(values: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    return tuple(each for key, text in values for each in _list_assignments(key, text))


def _split(text: str, where: str) -> Iterator[str]:
    """The parts between top-level commas, stripped."""
    part, closing, quote = "", "", ""
    for letter in text:
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"" and (closing or not part.strip()):
            quote = letter
        elif letter in BRACKETS:
            closing += BRACKETS[letter]
        elif closing and letter == closing[-1]:
            closing = closing[:-1]
        elif letter == "," and not closing:
            yield part.strip()
            part = ""
            continue
        part += letter
    if quote or closing:
        raise GridError(f"{where}: {quote or closing[-1]} is missing: {FORM}")
    yield part.strip()


def _list_assignments(key: str, text: str) -> Iterator[str]:
    value = document.read(text, "").data
    if isinstance(value, dict) and value:
        yield from _list_leaves(key, value)
    else:
        yield f"{key}={text}"


def _list_leaves(key: str, value: Any) -> Iterator[str]:
    if isinstance(value, dict) and value:
        for inner, item in value.items():
            yield from _list_leaves(f"{key}.{inner}", item)
    else:
        yield f"{key}={json.dumps(value, ensure_ascii=False)}"
