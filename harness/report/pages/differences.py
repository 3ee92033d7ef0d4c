"""In what runs differ besides their results: their scenarios, their code, their machines (pure)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from trunkline.harness.config import document
from trunkline.harness.report.pages import charts
from trunkline.harness.report.pages.markup import Child, table, tag
from trunkline.harness.report.pages.run_page import Story, flat

MOST_KEYS = 80
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
class Givens:
    """What a run was given: every key path of its scenario and its environment with its value."""

    scenario: Mapping[str, str]
    environment: Mapping[str, str]

    @classmethod
    def of(cls, story: Story) -> Self:
        """Those of a run; of a list of links, say, only how many there are."""
        data = document.read(story.resolved, "resolved.yaml").data
        scenario = dict(flat(_counted(data))) if isinstance(data, Mapping) else {}
        return cls(scenario, dict(flat(story.environment)))

    def unlike(self, other: Givens) -> list[str]:
        """The parts of both that are not alike, each once: `clock`, `workload`, `code`, ..."""
        given = [
            "own files" if key.startswith(OWN_FILES) else key.partition(".")[0]
            for key, *values in _unlike((self.scenario, other.scenario))
            if all(values) or not key.startswith(OWN_FILES)  # who names a file differs, too
        ]
        pair = self.environment, other.environment
        around = [key.partition(".")[0] for key, *_ in _unlike(pair)]
        return list(dict.fromkeys([*given, *(IN_A_WORD.get(part, part) for part in around)]))


def tells(key: str) -> bool:
    """Whether a key can be why results differ."""
    return key.partition(".")[0] not in SAME_ANYWAY


def section(each: Sequence[Givens]) -> list[Child]:
    """Keys of scenario and environment that not all runs have alike, with every run's value."""
    rows = [
        [key, *map(_shortened, values)]
        for parts in ([one.scenario for one in each], [one.environment for one in each])
        for key, *values in _unlike(parts)
    ]
    if not rows:
        return [tag("p", "Nothing: the scenarios, the hosts and the versions are the same.")]
    heads = ["key", *(str(number) for number in range(1, len(each) + 1))]
    shown: list[Child] = [table(heads, rows[:MOST_KEYS], "what differs")]
    if len(rows) > MOST_KEYS:
        shown.append(tag("p", f"{len(rows) - MOST_KEYS} more keys differ."))
    return shown


def _unlike(each: Sequence[Mapping[str, str]]) -> Iterator[list[str]]:
    """Every key whose values are not all alike, and the values."""
    for key in dict.fromkeys(key for values in each for key in values):
        values = [found.get(key, "") for found in each]
        if len(set(values)) > 1 and tells(key):
            yield [key, *values]


def _shortened(value: str) -> str:
    """A value that fits, or its beginning and a word that only equal ones share."""
    fitted = charts.fit(value, 200)
    return fitted if fitted == value else f"{fitted} #{_word(value)}"


def _counted(value: Any) -> Any:
    """Long lists of lists or mappings as their length and a word that only equal ones share."""
    if isinstance(value, Mapping):
        return {str(key): _counted(inner) for key, inner in value.items()}
    nested = isinstance(value, list) and any(isinstance(each, Mapping | list) for each in value)
    if nested and len(document.show(value)) > SHOWN_CHARACTERS:
        return f"{len(value)} entries, #{_word(repr(value))}"
    return value


def _word(text: str) -> str:
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:6]
