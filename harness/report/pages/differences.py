"""In what runs differ besides their results: their scenarios, their code, their machines (pure)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from trunkline.harness.config import document
from trunkline.harness.report.pages import charts
from trunkline.harness.report.pages.markup import Child, make_table, tag
from trunkline.harness.report.pages.run_page import RunData, flatten

MAX_KEYS = 80
"""Keys in which scenarios differ that the page lists."""

SHOWN_CHARACTERS = 60
"""Lists within lists up to so long are shown as they are written."""

SAME_ANYWAY = ("name", "outputs", "description", "owner")
"""Keys that tell nothing about a difference between results."""

OWN_FILES = "code."
"""Before the names of the files whose text a resolved scenario has."""

IN_A_WORD = {
    "version": "code",
    "commit": "code",
    "kernel": "machine",
    "host": "machine",
    "python": "packages",
}
"""Keys of an environment that a reader would not know what to make of."""


@dataclass(frozen=True, slots=True)
class RunInputs:
    """What a run was given: every key path of its scenario and its environment with its value."""

    scenario: Mapping[str, str]
    environment: Mapping[str, str]

    @classmethod
    def of(cls, data: RunData) -> Self:
        """Those of a run; of a list of links, say, only how many there are."""
        resolved = document.read(data.resolved, "resolved.yaml").data
        scenario = (
            dict(flatten(_summarize_lists(resolved))) if isinstance(resolved, Mapping) else {}
        )
        return cls(scenario, dict(flatten(data.environment)))

    def list_differences(self, other: RunInputs) -> list[str]:
        """The parts of both that are not alike, each once: `clock`, `workload`, `code`, ..."""
        given = [
            "own files" if key.startswith(OWN_FILES) else key.partition(".")[0]
            for key, *values in _find_differences((self.scenario, other.scenario))
            if all(values) or not key.startswith(OWN_FILES)  # who names a file differs, too
        ]
        pair = self.environment, other.environment
        around = [key.partition(".")[0] for key, *_ in _find_differences(pair)]
        return list(dict.fromkeys([*given, *(IN_A_WORD.get(part, part) for part in around)]))


def is_relevant(key: str) -> bool:
    """Whether a key can be why results differ."""
    return key.partition(".")[0] not in SAME_ANYWAY


def write_section(each: Sequence[RunInputs]) -> list[Child]:
    """Keys of scenario and environment that not all runs have alike, with every run's value."""
    rows = [
        [key, *map(_shorten, values)]
        for parts in ([one.scenario for one in each], [one.environment for one in each])
        for key, *values in _find_differences(parts)
    ]
    if not rows:
        return [tag("p", "Nothing: the scenarios, the hosts and the versions are the same.")]
    heads = ["key", *(str(number) for number in range(1, len(each) + 1))]
    shown: list[Child] = [make_table(heads, rows[:MAX_KEYS], "what differs")]
    if len(rows) > MAX_KEYS:
        shown.append(tag("p", f"{len(rows) - MAX_KEYS} more keys differ."))
    return shown


def _find_differences(each: Sequence[Mapping[str, str]]) -> Iterator[list[str]]:
    """Every key whose values are not all alike, and the values."""
    for key in dict.fromkeys(key for values in each for key in values):
        values = [found.get(key, "") for found in each]
        if len(set(values)) > 1 and is_relevant(key):
            yield [key, *values]


def _shorten(value: str) -> str:
    """A value that fits, or its beginning and a word that only equal ones share."""
    fitted = charts.truncate(value, 200)
    return fitted if fitted == value else f"{fitted} #{_hash(value)}"


def _summarize_lists(value: Any) -> Any:
    """Long lists of lists or mappings as their length and a word that only equal ones share."""
    if isinstance(value, Mapping):
        return {str(key): _summarize_lists(inner) for key, inner in value.items()}
    nested = isinstance(value, list) and any(isinstance(each, Mapping | list) for each in value)
    if nested and len(document.show(value)) > SHOWN_CHARACTERS:
        return f"{len(value)} entries, #{_hash(repr(value))}"
    return value


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:6]
