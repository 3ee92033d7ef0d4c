"""Parses and completes the text of faults (pure).

The text of a fault is one line, in a scenario's `timeline:` and in the shell. It has a verb, then
its required words in the order of its usage, then its optional words in any order.
`fault_writing.write` is the exact inverse of `parse`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import MISSING, dataclass, field, fields
from typing import Any

from trunkline.agents.events.event import CONTROLLER
from trunkline.harness.config import units
from trunkline.harness.config.document import list_choices
from trunkline.harness.config.units import QuantityError
from trunkline.harness.faults import link_values
from trunkline.harness.faults.fault_parts import (
    ALL,
    Choice,
    Clause,
    Delays,
    Ends,
    FaultError,
    Groups,
    Hint,
    Name,
    Setting,
    Sites,
    Track,
)
from trunkline.harness.faults.fault_problems import FaultProblems, advise, split
from trunkline.harness.faults.fault_types import MEANT, VERBS, Fault
from trunkline.harness.faults.fault_writing import describe_part, usage
from trunkline.harness.faults.recorded import availability, traces
from trunkline.harness.faults.recorded.recorded_faults import Trace
from trunkline.topologies import distributions
from trunkline.topologies.formats import delay_file
from trunkline.topologies.formats.network_file import NOTED
from trunkline.topologies.links import CHANGEABLE, TopologyError, find_problem
from trunkline.topologies.model import Topology
from trunkline.topologies.rates.access import GATEWAY, find_gateway

Read = Callable[[str], str]
"""The content of a file that a text names; raises FaultError."""

_ARROWS = {"->": "one-way", "<->": "both"}
_NUMBER = re.compile(r"[0-9][0-9.]*")

ACCESS = "access"
"""In place of a site's gateway: the other end of its access link."""


def parse(
    text: str,
    topology: Topology | None = None,
    read: Read | None = None,
    targets: Iterable[str] | None = None,
) -> Fault:
    """Parse a line as a fault.

    Args:
        text: the line.
        topology: if given, the sites and links of the fault must exist in it, and the links must
            allow the values that the fault gives them.
        read: reads the file of a trace; None if no files may be read.
        targets: what faults may stop: sites with programs, and programs such as `n1.trainer`; any
            name if it is empty. None: the agents, which are the sites and the controller.

    Raises:
        FaultError: the text is not a fault; the message says what is allowed, for several wrong
            words.
    """
    names = None if targets is None else tuple(targets)
    reader = _Reader(split(text), topology, read, names)
    reader.verb()
    fault: Fault = reader.fault()
    return fault


def complete(
    text: str, topology: Topology, targets: Iterable[str] | None = None
) -> tuple[str, ...]:
    """The words that may complete the last, unfinished word of a text, in the order of usage."""
    *words, unfinished = re.split(r"\s+", text.replace("|", " | ").lstrip())
    names = None if targets is None else tuple(targets)
    reader = _Reader(words, topology, lambda _: "", names)
    try:
        reader.verb()
        reader.fault()
        candidates = reader.unused()
    except FaultError as error:
        candidates = error.candidates
    prefix, comma, last = unfinished.rpartition(",")  # a list of sites
    return tuple(prefix + comma + word for word in candidates if word.startswith(last))


@dataclass(slots=True)
class _Reader:
    """Parses one word after the other; `values` are the fields of the fault so far.

    `problems` has all wrong names and optional words. `file` is the file of a trace, which is read
    as `hints` say; `measured` the delay and the jitter of a file of delays.
    """

    words: list[str]
    topology: Topology | None
    read: Read | None
    targets: tuple[str, ...] | None = None
    position: int = 0
    cls: Any = None
    values: dict[str, Any] = field(default_factory=dict)
    problems: FaultProblems = field(default_factory=FaultProblems)
    measured: dict[str, float] = field(default_factory=dict)
    file: str = ""
    hints: dict[str, str] = field(default_factory=dict)

    def verb(self) -> None:
        name = self._take("a verb", tuple(VERBS))
        if name not in VERBS:
            raise FaultError(f"{name}: {list_verbs(name)}")
        self.cls = VERBS[name]

    def fault(self) -> Any:
        try:
            for part in self.cls.PARTS:
                self._needed(part)
        except FaultError as error:
            self.problems.errors.append(error)
            self.position = len(self.words)
        while self.position < len(self.words):
            with self.problems.noting():
                self._optional(self._take("", ()))
        with self.problems.noting():
            self._read_track()
        if self.problems.errors:
            self.problems.note(self._list_impossible())
        self.problems.refuse()
        for each in fields(self.cls):
            if each.default is MISSING and each.name not in self.values:
                part = next(p for p in self.cls.PARTS if getattr(p, "field", "") == each.name)
                raise FaultError(f"{describe_part(part)} is missing: {self._form()}", self.unused())
        try:
            fault = self.cls(**{**self.measured, **self.values})
            if self.topology:
                link_values.check(fault, self.topology)
            return fault
        except FaultError as error:
            raise FaultError(str(error), self.unused()) from None

    def _list_impossible(self) -> Iterator[str]:
        """The values that no link can have, where other words are wrong."""
        for part in self.cls.PARTS:
            if not isinstance(part, Setting | Delays) or part.field not in CHANGEABLE:
                continue
            given = self.values.get(part.field, ())
            for value in dict.fromkeys(given if isinstance(given, tuple) else (given,)):
                if problem := find_problem(part.field, value):
                    yield f"{part.key}: {_show(value, part)}: {problem}"

    def unused(self) -> tuple[str, ...]:
        """The words that may follow here."""
        found: list[str] = []
        for part in self.cls.PARTS:
            used = self.hints if isinstance(part, Hint) else self.values
            name = part.key if isinstance(part, Hint) else getattr(part, "field", "")
            if name not in used:
                found += _list_starts(part)
        return tuple(found)

    def _needed(self, part: Any) -> None:
        match part:
            case Ends():
                self._ends(part)
            case Name():
                self.values[part.field] = self._name(self._list_targets(part))
            case Groups():
                self.values["groups"] = self._groups()
            case Track():
                self.file = self._take("the name of a file", ())

    def _read_track(self) -> None:
        """Read the steps of a trace, from their word or from a file, if the line has one."""
        if not self.file:
            return
        is_trace = self.cls is Trace
        parse_word = traces.parse_steps if is_trace else availability.parse_switches
        if steps := parse_word(self.file):
            if self.hints:
                raise FaultError(f"{next(iter(self.hints))}=: expected with a file only")
            self.values["steps"] = steps
            return
        fields_of = {"from": "start"}
        reading = traces.Reading(**{fields_of.get(k, k): word for k, word in self.hints.items()})
        text = self._file(self.file)
        if is_trace:
            self.values["steps"], self.values["notes"] = traces.read(text, self.file, reading)
        else:
            site = self.values["site"]
            self.values["steps"] = availability.read(text, self.file, site, reading)

    def _optional(self, word: str) -> None:
        for part in self.cls.PARTS:
            if isinstance(part, Choice) and word in part.words:
                self._set(part.field, word, word)
                return
            if isinstance(part, Clause) and word == part.word:
                self._set(part.field, self._quantity(self._take("a time", ()), part), word)
                return
            key, equals, rest = word.partition("=")
            if isinstance(part, Setting) and equals and key == part.key:
                self._set(part.field, self._quantity(rest, part), key)
                return
            if isinstance(part, Hint) and equals and key == part.key:
                if key in self.hints or not rest:
                    raise FaultError(f"{word}: expected {part.key}={part.word} once")
                self.hints[key] = self._join_unit(rest, rest)
                return
            if isinstance(part, Delays) and equals and key == part.key:
                self._set(part.field, self._distribution(rest), key)
                return
            if isinstance(part, Sites) and equals and key == part.key:
                self._set(part.field, self._several(rest), key)
                return
        allowed = list_choices(self.unused(), word) if self.unused() else "expected nothing more"
        hint = "" if allowed.startswith("did you") else advise(word, self.cls.PARTS)
        raise FaultError(f"{word}: {hint}{allowed}")

    def _set(self, name: str, value: Any, word: str) -> None:
        if name in self.values:
            raise FaultError(f"{word}: given twice: expected once")
        self.values[name] = value

    def _ends(self, part: Ends) -> None:
        if self.words[self.position : self.position + 1] == [ACCESS]:  # `access -> SITE`
            rest = (word for word in self.words[self.position + 1 :] if word not in _ARROWS)
            self._name_gateway(next(rest, ""))
        a = self._name(self.topology.node_names if self.topology else ())
        arrow = self.words[self.position] if self.position < len(self.words) else ""
        if arrow in _ARROWS:
            self.position += 1
            if any(each.name == "direction" for each in fields(self.cls)):
                self.values["direction"] = _ARROWS[arrow]
        others = self.topology.neighbours(a) if self.topology and not self.problems.errors else ()
        if self.words[self.position : self.position + 1] == [ACCESS] and others:
            self._name_gateway(a)
        if others and self.words[self.position : self.position + 1] == [a]:
            raise FaultError(f"{a} {a}: the same site twice: {list_choices(others, a)}")
        b = self.words[self.position] if self.position < len(self.words) else ""
        if self.topology and others and b in {*self.topology.node_names} - {*others}:
            raise FaultError(f"{a} {b}: no link joins these two: {list_choices(others, b)}")
        self.values |= {"a": a, "b": self._name((*others, *[ALL] * (part.all and bool(others))))}

    def _name_gateway(self, site: str) -> None:
        """Put the gateway of a site, if it has one, in the place of the next word."""
        if self.topology and self.topology.is_site(site):
            self.words[self.position] = find_gateway(self.topology, site) or ACCESS

    def _groups(self) -> tuple[tuple[str, ...], ...]:
        groups: list[tuple[str, ...]] = []
        while True:
            groups.append(self._several(self._take("sites, separated by commas", self._sites())))
            if self.words[self.position : self.position + 1] != ["|"]:
                return tuple(groups)
            self.position += 1

    def _distribution(self, word: str) -> str:
        """A name, or the delays of a file, which are the link's where no jitter is given."""
        if not delay_file.is_file(word):
            return word
        try:
            found = delay_file.read(self._file(word, "a name or quantiles"))
        except TopologyError as error:
            raise FaultError(f"{word}: {'; '.join(error.problems[:NOTED])}") from None
        self.measured = {"delay_ms": found.delay_ms, "jitter_ms": found.jitter_ms}
        return found.distribution

    def _several(self, names: str) -> tuple[str, ...]:
        return tuple(self._known(name, self._sites()) for name in names.split(","))

    def _list_targets(self, part: Name) -> tuple[str, ...]:
        sites = self._sites()
        if not part.agents or not sites:
            return sites
        return (*sites, CONTROLLER) if self.targets is None else self.targets

    def _sites(self) -> tuple[str, ...]:
        return self.topology.site_names if self.topology else ()

    def _name(self, names: tuple[str, ...]) -> str:
        return self._known(self._take("a site", names), names)

    def _known(self, name: str, names: tuple[str, ...]) -> str:
        if names and name not in names:
            router = f"{name}{GATEWAY}"  # that several sites of this place share
            allowed = list_choices(names, router if router in names else name)
            self.problems.errors.append(FaultError(f"{name}: {allowed}"))
        return name

    def _file(self, name: str, instead: str = "the steps of a trace") -> str:
        if self.read is None:
            raise FaultError(f"{name}: expected {instead}: no file can be read here")
        return self.read(name)

    def _quantity(self, text: str, part: Clause | Setting) -> Any:
        """Read a number, a quantity or a range."""
        if part.dimension:
            text = self._join_unit(text, text.rpartition("..")[2].removeprefix("-"))
        if isinstance(part, Setting) and part.is_range:
            return _parse_range(text, part)
        return _parse_one(text, part)

    def _join_unit(self, text: str, number: str) -> str:
        """The text with the next word if that is its unit: if it ends with a bare number."""
        following = self.words[self.position : self.position + 1]
        if _NUMBER.fullmatch(number) and following and "=" not in following[0]:
            text += following[0]
            self.position += 1
        return text

    def _take(self, what: str, candidates: tuple[str, ...]) -> str:
        if self.position == len(self.words):
            raise FaultError(f"{what} is missing: {self._form()}", candidates)
        self.position += 1
        return self.words[self.position - 1]

    def _form(self) -> str:
        return f"expected {usage(self.cls.VERB)}" if self.cls else list_choices(VERBS)


def list_verbs(word: str) -> str:
    """The phrase `expected one of outage, ...`, after a hint if the word resembles a verb."""
    if word in MEANT:
        return f"did you mean {MEANT[word]}? {list_choices(VERBS)}"
    return list_choices(VERBS, word)


def _list_starts(part: Any) -> tuple[str, ...]:
    match part:
        case Choice():
            return tuple(part.words)
        case Clause():
            return (part.word,)
        case Setting() | Sites() | Hint():
            return (f"{part.key}=",)
        case Delays():
            return tuple(f"{part.key}={name}" for name in distributions.NAMES)
    return ()


def _parse_one(text: str, part: Clause | Setting) -> float | int:
    name = part.word if isinstance(part, Clause) else part.key
    if part.dimension is None:
        if not re.fullmatch("[0-9]{1,18}", text):
            raise FaultError(f"{name}: {text}: expected a whole number of 0 or more")
        return int(text)
    try:
        return units.parse(text, part.dimension)
    except QuantityError as error:
        raise FaultError(f"{name}: {text}: {error}") from None


def _parse_range(text: str, part: Setting) -> tuple[float, float]:
    low, dots, high = text.partition("..")
    if not dots:
        value = _parse_one(text, part)
        return value, value
    if _NUMBER.fullmatch(low):  # `20..155Mbit/s`: both ends have the unit of the second one
        low += high.lstrip("0123456789.eE+-")
    values = _parse_one(low, part), _parse_one(high, part)
    if values[0] > values[1]:
        raise FaultError(f"{part.key}: {text}: expected the smaller value first")
    return values


def _show(value: Any, part: Setting | Delays) -> str:
    dimension = part.dimension if isinstance(part, Setting) else None
    return str(value) if dimension is None else units.render(value, dimension)
