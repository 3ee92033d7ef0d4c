"""How the sections of a scenario are read: values, and extensions with their options (pure)."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel

from trunkline.harness.config import units
from trunkline.harness.config.document import Document, KeyPath, list_choices, list_keys
from trunkline.harness.config.options import (
    REQUIRED,
    UNKNOWN_KEY,
    Option,
    check,
    make_model,
    make_type,
    read_options,
    read_values,
)
from trunkline.harness.faults.fault_parts import FaultError
from trunkline.harness.faults.fault_syntax import Read
from trunkline.harness.scenario.extensions import Extensions
from trunkline.topologies.link_defaults import impair
from trunkline.topologies.links import LinkOverride, TopologyError
from trunkline.topologies.rates.access import AccessLink

NETWORK = (
    Option("overrides", "overrides", None, list[LinkOverride], ()),
    Option("access", "access", None, list[AccessLink] | str, ()),
    *read_options(impair),
)
"""The options of every topology, beside those of its builder."""


def choose(key: str, name: str, default: Any = REQUIRED) -> Option:
    """The option with which a section names its extension; `name` is the one it has named."""
    return Option(key, key, None, Literal[name], default)


def merge(*options: Option) -> tuple[Option, ...]:
    """Remove options whose name occurs before: a policy and a plan may share a key."""
    return tuple({option.name: option for option in reversed(options)}.values())[::-1]


def pick(values: Mapping[str, Any], options: Sequence[Option]) -> dict[str, Any]:
    """The values of these options only, by their Python names."""
    return {option.name: values[option.name] for option in options}


def takes_files(build: Callable[..., Any]) -> bool:
    """Whether a builder has the parameter `read`, a function that reads a text file by its name."""
    return "read" in inspect.signature(build).parameters


def read_sound(model: Any, given: Mapping[str, Any]) -> tuple[set[str], Any]:
    """The keys of a mapping that a model accepts, and the values that it reads.

    That is None if it needs one of the others.
    """
    refused = {refusal.path[0] for refusal in check(model, given)[1] if refusal.path}
    sound = {key: value for key, value in given.items() if key not in refused}
    return set(sound), check(model, sound)[0]


ELSEWHERE: Mapping[KeyPath, str] = {
    ("stop", "for"): "stop: in_a_row",
    ("stop", "of"): "evaluation: of",
    ("stop", "every"): "evaluation: every",
    ("workload", "evaluate_every"): "evaluation: every, a time",
}
"""Keys that one may look for in the wrong place, and where they are."""


@dataclass(frozen=True, slots=True)
class SectionReader:
    """Reads parts of a document, and notes in it what is wrong.

    Attributes:
        files: reads a file that the document names.
    """

    source: Document
    extensions: Extensions
    files: Read

    def read(
        self,
        path: KeyPath,
        annotation: Any,
        value: Any,
        find_owners: Callable[[str], str] = lambda key: "",
    ) -> Any:
        """Read a value as a type; None if it is refused, and then note each refusal.

        `find_owners` says of a key that is unknown here which components have it.
        """
        result, refusals = check(annotation, value)
        for refusal in refusals:
            text, whole = refusal.text, (*path, *refusal.path)
            if text.startswith(UNKNOWN_KEY) and whole in ELSEWHERE:
                text = f"{UNKNOWN_KEY}: expected it as {ELSEWHERE[whole]}"
            elif text.startswith(UNKNOWN_KEY) and (owners := find_owners(str(refusal.path[0]))):
                text = text.replace(UNKNOWN_KEY, f"{UNKNOWN_KEY} (an option of {owners})", 1)
            self.source.refuse(whole, text)
        return result

    def read_component(
        self, section: str, key: str, modules: Mapping[str, Any], entry: str
    ) -> tuple[Any, dict[str, Any] | None]:
        """The module that a section names, and its options; None for those that are wrong."""
        given = self.source.data.get(section)
        name = given.get(key) if isinstance(given, dict) else None
        if not isinstance(given, dict):
            allowed = f"{list_choices(modules, given)}, or a mapping with {key}: and its options"
            self.source.refuse((section,), allowed)
            return None, None
        if not isinstance(name, str) or name not in modules:
            self.source.refuse((section, key), list_choices(modules, name))
            extra = NETWORK if section == "topology" else ()
            self.check_apart(section, (key,), [getattr(m, entry) for m in modules.values()], extra)
            return None, None
        model_type, options = _prepare(getattr(modules[name], entry), section, key, name)

        def has_owner(option: str) -> bool:
            return any(has_option(getattr(module, entry), option) for module in modules.values())

        self.leave_out_replaced(section, (key,), options, has_owner)
        model = self.read((section,), model_type, given)
        return modules[name], None if model is None else read_values(model, options)

    def leave_out_replaced(
        self,
        section: str,
        selectors: Sequence[str],
        options: Sequence[Option],
        has_owner: Callable[[str], object],
    ) -> None:
        """Leave out the file's options of the component that `--set` replaces by another one.

        Args:
            section: the section's name.
            selectors: the keys that name its components.
            options: those of the components that it names now.
            has_owner: tells whether a component that it may name has an option of this name. It is
                asked of unknown keys only, as all components are loaded for its answer.
        """
        if not any(self.source.is_set((section, key)) for key in selectors):
            return
        known = {*selectors, *(option.key for option in options)}
        given = self.source.data[section]
        for key in given.keys() - known:
            if not self.source.is_set((section, key)) and has_owner(key):
                del given[key]

    def check_apart(
        self,
        section: str,
        selectors: Sequence[str],
        functions: Sequence[Callable[..., Any]],
        extra: Sequence[Option],
    ) -> None:
        """Note the other problems of a section that names no known component.

        A key must be an option of some component, and its value valid for one of them.
        """
        known: dict[str, list[Option]] = {}
        for option in (
            *extra,
            *(each for function in functions for each in read_options(function)),
        ):
            known.setdefault(option.key, []).append(option)
        for key, value in self.source.data[section].items():
            if key in selectors:
                continue
            if key not in known:
                self.source.refuse(
                    (section, key), f"{UNKNOWN_KEY}: {list_keys([*selectors, *known], key)}"
                )
            elif all(
                check(make_type(option.annotation, option.dimension), value)[1]
                for option in known[key]
            ):
                first = known[key][0]
                self.read((section, key), make_type(first.annotation, first.dimension), value)

    def refuse_option(
        self, section: str, name: str, text: str, options: Mapping[str, Any], selector: str = ""
    ) -> None:
        """Note an extension's error: at the option that it names, or else at its selector."""
        key, _ = units.split_name(name)
        if name in options:
            text = text.removeprefix(f"{name}: ").removeprefix(f"{options[name]!r}: ")
            self.source.refuse((section, key), text)
        elif selector:
            named = self.source.get((section, selector))
            self.source.refuse((section, selector), text.removeprefix(f"{named}: "))
        else:
            self.source.refuse((section,), text, value="")

    def read_file(self, name: str) -> str:
        """Read a file that is named in the topology, relative to the scenario."""
        try:
            return self.files(name)
        except FaultError as error:
            raise TopologyError(str(error).removeprefix(f"{name}: ")) from None

    @property
    def runs_programs(self) -> bool:
        """Whether sites run programs instead of agents."""
        given = self.source.data.get("workload")
        kind = given.get("kind") if isinstance(given, dict) else None
        module = self.extensions.workloads.get(kind) if isinstance(kind, str) else None
        return getattr(module, "PROGRAMS", False)


@functools.cache
def _prepare(
    build: Callable[..., Any], section: str, key: str, name: str
) -> tuple[type[BaseModel], tuple[Option, ...]]:
    """The model and the options of a component that is built by this function."""
    options = read_options(build)
    options += NETWORK if section == "topology" else ()
    return make_model(name, (choose(key, name), *options)), options


def has_option(build: Callable[..., Any], key: str) -> bool:
    """Whether the component that is built by this function has an option of this name."""
    return any(option.key == key for option in read_options(build))
