"""The cells of a comparison: all combinations of the values of `--vary` (pure).

`--vary scheme.plan=crew,ring --vary scheme.p=5,10` is four cells. Values are YAML, separated by
commas outside of brackets, braces and quotes. A mapping as a value sets only the keys that it
names, so several keys can vary together:

    --vary 'scheme={plan: crew, split: even},{plan: ring}'

A comparison may include other scenarios (`--beside`). They vary only in the keys of the sections in
SHARED, and ignore the other axes.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from trunkline.harness.config import document
from trunkline.harness.config.document import Problem

FORM = "expected KEY.PATH=VALUE,VALUE,..., such as scheme.plan=crew,ring"

SHARED = ("backend", "clock", "topology", "network", "limits")
"""Sections of a scenario that describe the network and its limits, not what the sites do."""

SCENARIO = "scenario"
"""The column of scenarios' names, if no axis distinguishes them."""

NONE = "-"
"""The value of an axis that a scenario ignores."""

BRACKETS = {"[": "]", "{": "}"}


LONG = 40
"""Values with more letters are shortened to the part in which they differ."""

LONG_VALUE = 18
"""Of several keys, a value with more letters is cut in names."""


class GridError(ValueError):
    """An invalid `--vary` or `--set`; the text names it and says what is allowed."""


@dataclass(frozen=True, slots=True)
class Axis:
    """A key path of the scenario and its values, as the user wrote them."""

    key: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Cell:
    """One point of the grid: (key, value) of every axis, in the order of the axes.

    `overrides` are the `key.path=value` changes of the scenario.
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
        raise GridError(f"{where}: the seed is not allowed here: --trials N varies it")
    values = tuple(_split(text, where))
    if "" in values:
        raise GridError(f"{where}: a value is missing: {FORM}")
    again = next((value for value in values if values.count(value) > 1), None)
    if again is not None:
        raise GridError(f"{where}: {again} is given twice: expected each value once")
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
            raise GridError(f"--vary {key} is given twice: expected one list of values per key")
    return found


def combine(axes: Sequence[Axis], name: str | None = None) -> tuple[Cell, ...]:
    """Every combination of the axes' values; the last axis changes fastest.

    `name` is the scenario's name, which becomes a column if all axes are shared.
    """
    named = () if name is None or any(not is_shared(each.key) for each in axes) else (name,)
    return tuple(
        Cell((*((SCENARIO, each) for each in named), *values), _list_overrides(values))
        for values in _combine_values(axes)
    )


def combine_beside(axes: Sequence[Axis], name: str) -> tuple[Cell, ...]:
    """The cells of another scenario beside the grid.

    Its name stands in place of a value of the first axis that is not shared.
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
    """Raise GridError if a cell sets a key twice, or one that `overrides` set for all cells."""
    everywhere = {each.partition("=")[0].strip() for each in overrides}
    for cell in found:
        keys = [each.partition("=")[0] for each in cell.overrides]
        for key in keys:
            if keys.count(key) > 1:
                raise GridError(f"--vary {key} is varied twice: expected once")
            if key in everywhere:
                raise GridError(f"--set {key} is varied, too: expected --vary {key} alone")


def is_shared(assignment: str) -> bool:
    """Whether a key path, or `key.path=value`, applies to scenarios beside the grid too."""
    return re.split(r"[.=\[]", assignment.strip(), maxsplit=1)[0] in SHARED


def _combine_values(axes: Sequence[Axis]) -> Iterator[tuple[tuple[str, str], ...]]:
    keys = [each.key for each in axes]
    for values in itertools.product(*(each.values for each in axes)):
        yield tuple(zip(keys, values, strict=True))


def _list_overrides(values: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    return tuple(each for key, text in values for each in _list_assignments(key, text))


def _split(text: str, where: str) -> Iterator[str]:
    """The parts between commas outside of brackets, braces and quotes, stripped."""
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


def name_option(problem: Problem, cell: Cell) -> Problem:
    """Name `--vary` in a problem of a cell's override: the scenario only knows `--set`."""
    if problem.file.removeprefix("--set ") in cell.overrides:
        return replace(problem, file=problem.file.replace("--set", "--vary", 1))
    return problem


def add_cells(problems: Mapping[Problem, Sequence[Cell]], total: int) -> Iterator[Problem]:
    """List each problem once, with its cells unless all have it."""
    for problem, having in problems.items():
        more = f" and {len(having) - 1} more" if len(having) > 1 else ""
        is_said = [problem.file.removeprefix("--vary ")] == list(map(str, having))
        where = "" if is_said or len(having) == total else f" (with {having[0]}{more})"
        yield replace(problem, allowed=problem.allowed + where)


def shorten(texts: Sequence[str]) -> dict[str, str]:
    """Map long texts to themselves without the words that all begin and end with.

    Timelines are told in words. Other lists, and mappings, stay as they are.
    """
    timelines = list(map(_describe_timeline, texts))
    if all(timelines) and len({*timelines}) == len({*texts}) and {*texts} != {"[]"}:
        return dict(zip(texts, timelines, strict=True))
    words = [text.split() for text in texts]
    plain = not any(text.startswith(("{", "[")) for text in texts)
    if not plain or len(set(texts)) < 2 or max(map(len, texts)) <= LONG:
        return dict(zip(texts, texts, strict=True))
    rest = min(map(len, words)) - 1
    front = next((n for n in range(rest) if len({each[n] for each in words}) > 1), rest)
    rest -= front
    back = next((n for n in range(rest) if len({each[-1 - n] for each in words}) > 1), rest)
    return {
        text: " ".join(each[front : len(each) - back])
        for text, each in zip(texts, words, strict=True)
    }


def _describe_timeline(text: str) -> str:
    """What a timeline does; empty for another text."""
    entries = document.read(text, "").data if text.startswith("[") else None
    if not isinstance(entries, list) or not all(isinstance(e, dict) and "do" in e for e in entries):
        return ""
    return "; ".join(f"{each['do']} at {each.get('at')}" for each in entries) or "empty"


def cut_values(texts: Sequence[str]) -> Sequence[str]:
    """The values of one of several keys, the long ones cut, as long as that tells them apart."""
    shown = [text if len(text) <= LONG_VALUE else f"{text[: LONG_VALUE - 1]}…" for text in texts]
    return shown if len({*shown}) == len({*texts}) else texts
