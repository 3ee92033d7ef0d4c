"""Differences between runs: their inputs, and why they are not comparable (pure).

Inputs are scenarios, code and machines. Runs with actions by hand, failed checks or other inputs
are not comparable: a comparison says so above its pictures, in its table and in its legends.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from trunkline.harness.config import document
from trunkline.harness.config.units import SIZE_BYTES, count_of, parse
from trunkline.harness.report import manual_actions
from trunkline.harness.report.pages import charts
from trunkline.harness.report.pages.markup import Child, Html, make_table, tag
from trunkline.harness.report.run_data import RunData

MAX_LINES = 40
"""The most lines of the warning, the most important first; the rest are counted."""

SHOWN_WIDTH = 200
"""A wider value is cut, in units of a picture's view box."""

MAX_KEYS = 80
"""The most differing keys that the page lists."""

SAME_ANYWAY = ("name", "outputs", "description", "owner", "overrides")
"""Keys that cannot be why results differ; what `overrides` change differs by itself."""

FOLLOWS: Mapping[str, str] = {"topology": "failover"}
"""A section of the scenario -> the one whose defaults depend on it."""

OWN_FILES = "code."
"""The prefix of keys whose values are the texts of a user's own files."""

IN_A_WORD = {
    "version": "code",
    "commit": "code",
    "kernel": "machine",
    "host": "machine",
    "python": "packages",
}
"""What a difference in a key of the environment is called."""


QUEUE = "queue"
"""The attribute of links that has one row: queues follow from rates and delays."""

SITES = "topology.sites."
"""The beginning of the keys of a scenario's sites."""

LINKS = "topology.links"
"""The key of a scenario's links."""

Values = tuple[str | None, ...]
"""A value of each run."""

ABSENT, EMPTY = "-", "''"
"""What stands for the value of a key that a run does not have, and for an empty text."""


@dataclass(frozen=True, slots=True)
class RunInputs:
    """The inputs of a run: key path -> value of its scenario and its environment.

    `links` are the links of its network, `a -> b`, each with its attributes.
    """

    scenario: Mapping[str, str]
    environment: Mapping[str, str]
    links: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @classmethod
    def of(cls, data: RunData) -> Self:
        """Those of a run."""
        return cls.of_texts(data.resolved, data.environment)

    @classmethod
    def of_texts(cls, text: str, environment: Mapping[str, Any]) -> Self:
        """Those of a run with this resolved scenario."""
        resolved = document.read(text, "resolved.yaml").data
        scenario = dict(resolved) if isinstance(resolved, Mapping) else {}
        topology = scenario.get("topology")
        links: dict[str, Mapping[str, str]] = {}
        if isinstance(topology, Mapping) and isinstance(topology.get("links"), list):
            for link in topology["links"]:
                values = dict(document.flatten(link))
                links[f"{values.pop('src', '')} -> {values.pop('dst', '')}"] = values
            scenario["topology"] = {k: each for k, each in topology.items() if k != "links"}
        if isinstance(entries := scenario.get("timeline"), list):
            lines = Counter(f"{each.get('do')} at {each.get('at')}" for each in entries)
            del scenario["timeline"]
            scenario |= {f"timeline: {line}": _count_entries(n) for line, n in lines.items()}
        return cls(dict(document.flatten(scenario)), dict(document.flatten(environment)), links)

    def list_differences(self, other: RunInputs) -> list[str]:
        """The parts in which both differ, each once: `clock`, `workload`, `code`, ..."""
        given = [
            "own files" if key.startswith(OWN_FILES) else _find_section(key)
            for key, *values in _find_differences((self.scenario, other.scenario))
            # A file that only one run has is named by a key that differs as well.
            if None not in values or not key.startswith(OWN_FILES)
        ]
        given += ["topology"] * (self.links != other.links)
        pair = self.environment, other.environment
        around = [_find_section(key) for key, *_ in _find_differences(pair)]
        return list(dict.fromkeys([*given, *(IN_A_WORD.get(part, part) for part in around)]))


def _count_entries(number: int) -> str:
    return "there" if number == 1 else f"{number} times"


def is_relevant(key: str) -> bool:
    """Whether a difference in this key can be why results differ."""
    return _find_section(key) not in SAME_ANYWAY


def _find_section(key: str) -> str:
    """The section of the scenario, or of the environment, that a key belongs to."""
    return re.split(r"[.:]", key, maxsplit=1)[0]


def write_section(each: Sequence[RunInputs], labels: Sequence[str] = ()) -> list[Child]:
    """A table of the keys of scenario and environment that differ, with every run's value.

    Without `labels`, runs have their numbers.
    """
    scenarios, environments = [one.scenario for one in each], [one.environment for one in each]
    own = {key for scenario in scenarios for key in scenario}
    rows = [
        [key, *map(_shorten, values)]
        for key, *values in (
            *_join_sites(_find_differences(scenarios)),
            *_compare_links([one.links for one in each]),
            *(row for row in _find_differences(environments) if row[0] not in own),
        )
    ]
    if not rows:
        return [tag("p", "Nothing: the scenarios, the hosts and the versions are the same.")]
    heads = ["key", *(labels or map(str, range(1, len(each) + 1)))]
    shown: list[Child] = [make_table(heads, rows[:MAX_KEYS], "what differs")]
    if len(rows) > MAX_KEYS:
        shown.append(tag("p", f"{len(rows) - MAX_KEYS} more keys differ."))
    return shown


def _find_differences(each: Sequence[Mapping[str, str]]) -> Iterator[tuple[str, *Values]]:
    """Every key whose values differ, followed by the values, None where it is absent."""
    for key in dict.fromkeys(key for values in each for key in values):
        values = [found.get(key) for found in each]
        if len(set(values)) > 1 and is_relevant(key):
            yield key, *values


def _join_sites(rows: Iterable[tuple[str, *Values]]) -> Iterator[tuple[str, *Values]]:
    """The same rows; of sites that the same runs have, one."""
    alike: dict[Values, list[str]] = {}
    for key, *values in rows:
        if key.startswith(SITES) and "." not in key.removeprefix(SITES) and None in values:
            there = tuple(None if each is None else "there" for each in values)
            alike.setdefault(there, []).append(key.removeprefix(SITES))
        else:
            yield key, *values
    for there, sites in alike.items():
        yield f"topology.sites: {_name_links(sites)}", *there


def _compare_links(
    each: Sequence[Mapping[str, Mapping[str, str]]],
) -> Iterator[tuple[str, *Values]]:
    """Which links only some runs have, and which attributes of the others differ.

    Links of which the same differs are one row.
    """
    alike: dict[tuple[str, *Values], list[str]] = {}
    for link in dict.fromkeys(link for links in each for link in links):
        found = [links.get(link) for links in each]
        if None in found:
            there = (None if one is None else "there" for one in found)
            alike.setdefault(("", *there), []).append(link)
            continue
        for differing in _find_differences([one or {} for one in found]):
            alike.setdefault(differing, []).append(link)
    queues = {row: alike.pop(row) for row in [*alike] if row[0] == QUEUE}
    for (attribute, *values), links in alike.items():
        yield f"{LINKS}: {attribute and f'{attribute} of '}{_name_links(links)}", *values
    if queues:
        links = [link for each in queues.values() for link in each]
        _, *columns = zip(*queues, strict=True)
        yield f"{LINKS}: {QUEUE} of {_name_links(links)}", *map(_find_range, columns)


def _name_links(links: Sequence[str]) -> str:
    first, *others = links
    return f"{first} and {count_of(len(others), 'other')}" if others else first


def _find_range(values: Sequence[str | None]) -> str | None:
    """From the smallest to the largest of some sizes; None without any."""
    given = sorted({each for each in values if each}, key=lambda one: parse(one, SIZE_BYTES))
    return " to ".join([given[0], given[-1]] if len(given) > 1 else given) or None


def _shorten(value: str | None) -> str:
    """The value, or if it is too long its beginning and a hash."""
    if not value:
        return ABSENT if value is None else EMPTY
    fitted = charts.truncate(value, SHOWN_WIDTH)
    return fitted if fitted == value else f"{fitted} #{_hash(value)}"


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:6]


def write_warning(
    runs: Mapping[str, RunData], givens: Mapping[str, RunInputs], varied: Collection[str]
) -> Html | None:
    """A box that says why the runs are not comparable; None if they are.

    `varied` are the keys that are meant to differ.
    """
    sections = {key.partition(".")[0] for key in varied}
    sections |= {FOLLOWS[each] for each in sections & FOLLOWS.keys()}
    items = list(_list_lines(runs, givens, sections))
    if not items:
        return None
    if len(items) > MAX_LINES:
        items[MAX_LINES:] = [f"and {len(items) - MAX_LINES} more"]
    return tag(
        "div",
        tag("strong", "These runs are not directly comparable"),
        tag("ul", [tag("li", item) for item in items]),
        class_="verdict is-unknown",
    )


def write_marks(data: RunData, clocks: Collection[str]) -> str:
    """The remark behind a run's name, such as ` (fail)`; `clocks` are those of all runs."""
    found: list[str] = [data.verdict.outcome] * (data.verdict.outcome != "pass")
    found += ["by hand"] * bool(manual_actions.list_actions(data.history))
    found += ["real clock"] * (data.scenario.clock == "real" and len(clocks) > 1)
    return f" ({', '.join(found)})" if found else ""


def _list_lines(
    runs: Mapping[str, RunData], givens: Mapping[str, RunInputs], varied: Collection[str]
) -> Iterator[str]:
    first, *_ = givens.values()
    for number, data in enumerate(runs.values(), 1):
        if hand := manual_actions.describe_actions(data.history):
            yield f"Run {number}: by hand: {hand}"
        for check in data.verdict.bad:
            yield f"Run {number}: {check.outcome}: {check.problem}"
    for number, name in enumerate(runs, 1):
        if others := [part for part in givens[name].list_differences(first) if part not in varied]:
            yield f"Run {number}: differs from run 1 in: {', '.join(others)}"
