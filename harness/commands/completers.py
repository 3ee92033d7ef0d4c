"""What Tab completes beyond commands and options: scenarios, runs, and the keys of `--set`.

argcomplete calls a completer with the word's beginning and the arguments before it. Errors of a
completer would not be seen, so each offers what it can find.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from dataclasses import is_dataclass
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin

import argcomplete
from argcomplete.completers import FilesCompleter

if TYPE_CHECKING:
    from trunkline.harness.config.options import Option


def offer_scenarios(prefix: str, **_: Any) -> Iterator[str]:
    """The names of the scenarios in `scenarios/`, and files."""
    from trunkline.harness.config.paths import find_scenario_folder

    yield from (path.stem for path in find_scenario_folder().glob("*.yaml"))
    yield from FilesCompleter(("yaml",))(prefix)


def offer_runs(prefix: str, parsed_args: argparse.Namespace, **_: Any) -> Iterator[str]:
    """The scenarios that have runs, for their latest one, and the folders of runs."""
    folder = Path(getattr(parsed_args, "runs", "runs"))
    yield from (path.parent.name for path in folder.glob("*/latest"))
    if "/" in prefix:
        yield from (str(path) for path in folder.glob("*/*"))


def offer_settings(prefix: str, **_: Any) -> Iterator[str]:
    """`KEY.PATH=` for every key of a scenario; after it, the words that are its values."""
    key, equals, _value = prefix.partition("=")
    known = list_settings()
    if equals:
        yield from (f"{key}={word}" for word in known.get(key, ()))
    else:
        yield from (f"{name}=" for name in known)


COMPLETERS = {
    "file": offer_scenarios,
    "beside": offer_scenarios,
    "run": offer_runs,
    "set": offer_settings,
    "vary": offer_settings,
}
"""The name of an argument, in any command -> its completer."""


def answer(parser: argparse.ArgumentParser) -> None:
    """Answer a shell that asks how a command line continues, and exit; else do nothing."""
    for action in _list_actions(parser):
        if action.dest in COMPLETERS:
            action.completer = COMPLETERS[action.dest]  # type: ignore[attr-defined]
    argcomplete.autocomplete(parser)


def _list_actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                yield from _list_actions(below)


def list_settings() -> dict[str, tuple[str, ...]]:
    """The key path of every value of a scenario -> the words that it may be, if it may be one."""
    from trunkline.harness.config.options import read_options
    from trunkline.harness.scenario.extensions import discover
    from trunkline.harness.scenario.named_schemes import SCHEMES
    from trunkline.harness.scenario.sections.scheme_section import SCHEME
    from trunkline.harness.scenario.sections.section_reading import NETWORK
    from trunkline.harness.scenario.settings import Basics

    known = discover()
    sections = {
        "topology": [("builder", known.topologies, "build")],
        "workload": [("kind", known.workloads, "build")],
        "scheme": [("policy", known.policies, "create"), ("plan", known.plans, "build")],
    }
    shared = {"topology": NETWORK, "scheme": SCHEME}
    found: dict[str, tuple[str, ...]] = {"scheme": tuple(SCHEMES)}
    for section, choices in sections.items():
        options = [*shared.get(section, ())]
        for key, modules, entry in choices:
            found[f"{section}.{key}"] = tuple(modules)
            options += [o for m in modules.values() for o in read_options(getattr(m, entry))]
        for path, words in _list_keys(f"{section}.", options):
            found[path] = tuple(dict.fromkeys((*found.get(path, ()), *words)))
    return found | dict(_list_keys("", read_options(Basics)))


def _list_keys(prefix: str, options: Iterable[Option]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The key paths of options and their words; the keys of a nested mapping stand for it."""
    from trunkline.harness.config.options import read_options

    for option in options:
        path = f"{prefix}{option.key}"
        members = list(_list_members(option.annotation))
        parts = [each for each in members if isinstance(each, type) and is_dataclass(each)]
        for each in parts:
            yield from _list_keys(f"{path}.", read_options(each))
        if not parts:
            yield path, tuple(word for each in members for word in _list_words(each))


def _list_members(annotation: Any) -> Iterator[Any]:
    """The types of a union, or the type itself."""
    if get_origin(annotation) is Annotated:
        yield from _list_members(get_args(annotation)[0])
    elif get_origin(annotation) in (Union, UnionType):
        for each in get_args(annotation):
            yield from _list_members(each)
    else:
        yield annotation


def _list_words(member: Any) -> tuple[str, ...]:
    if member is bool:
        return "false", "true"
    return tuple(map(str, get_args(member))) if get_origin(member) is Literal else ()
