"""Generate the reference pages of the docs (pure).

`docs/reference/scenario.md` is generated from the schema of scenarios, `docs/reference/commands.md`
from the parser of command lines. `trunkline schema --keys` and `--commands` print them, and a test
compares the files with them.
"""

from __future__ import annotations

import argparse
import dataclasses
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import annotated_types
from pydantic.fields import FieldInfo

from trunkline.agents.timing.site_clock import SiteClock
from trunkline.harness.config import document
from trunkline.harness.config.options import REQUIRED, Option, read_options, render
from trunkline.harness.config.units import DIMENSIONS, Dimension
from trunkline.harness.scenario.extensions import Extensions, summarize
from trunkline.harness.scenario.named_schemes import DEFAULT_SCHEME, SCHEMES
from trunkline.harness.scenario.scheme_settings import Auxiliary, Awareness
from trunkline.harness.scenario.sections.scheme_section import SCHEME
from trunkline.harness.scenario.settings import Basics, TimelineEntry
from trunkline.topologies.links import Link, LinkOverride
from trunkline.topologies.rates.access import AccessLink

SECTIONS = {
    "topology": "required: the sites and links: a `builder`, its options and `overrides`.",
    "workload": "required: what sites compute and send: a `kind` and its options.",
    "scheme": "how sites synchronize: a `policy`, a `plan` and their options, or a scheme's name.",
    "timeline": "changes and faults during the run: entries in any order.",
}
"""The sections of a scenario that are not fields of `Basics`, and their meaning."""


def write_keys(known: Extensions) -> str:
    """The text of `docs/reference/scenario.md`."""
    parts = [_KEYS_HEAD, *_write_table(("kind", "units", "such as"), _list_units())]
    parts += ["## The file", "", *_write_top()]
    parts += ["## topology", "", _TOPOLOGY, ""]
    parts += _write_extensions(known.topologies, "build", "### Builder `{}`")
    parts += [
        "### Links",
        "",
        "Each of `links` of the builder `explicit`:",
        "",
        *_write_options(Link),
    ]
    parts += ["Each of `overrides`:", "", *_write_options(LinkOverride)]
    parts += ["Each of `access`:", "", *_write_options(AccessLink)]
    parts += ["## workload", "", _WORKLOAD, ""]
    for name, module in known.workloads.items():
        parts += _write_extensions({name: module}, "build", "### Kind `{}`")
        parts += _write_nested(module.build)
    parts += ["## scheme", "", _SCHEME, "", *_write_rows(SCHEME)]
    parts += ["Names of schemes, and what each stands for:", ""]
    said = (
        (_format_code(name), _format_code(_format_flat(values))) for name, values in SCHEMES.items()
    )
    parts += _write_table(("name", "stands for"), said)
    parts += ["### scheme.awareness", "", *_write_options(Awareness)]
    parts += ["### scheme.auxiliary", "", *_write_options(Auxiliary)]
    parts += _write_extensions(known.policies, "create", "### Policy `{}`")
    parts += _write_extensions(known.plans, "build", "### Plan `{}`")
    parts += ["## timeline", "", _TIMELINE, "", *_write_options(TimelineEntry)]
    parts += ["## clocks", "", "For each site:", "", *_write_options(SiteClock)]
    for option in read_options(Basics):
        if (parts_of := _find_parts(option.annotation)) is not None:
            each = [] if parts_of is option.annotation else ["Each entry:", ""]
            parts += [f"## {option.key}", "", *each, *_write_options(parts_of)]
    return "\n".join(parts).rstrip() + "\n"


def write_commands(parser: argparse.ArgumentParser) -> str:
    """The text of `docs/reference/commands.md`."""
    (verbs,) = (action for action in parser._actions if action.choices)
    parts = [_COMMANDS_HEAD]
    for name, command in dict(verbs.choices or {}).items():
        parts += [f"## trunkline {name}", "", str(command.description), ""]
        arguments = [each for each in command._actions if each.dest != "help"]
        rows = ((_format_argument(each), _format_cell(each.help or "")) for each in arguments)
        parts += _write_table(("argument", "meaning"), rows) if arguments else []
        parts += ["```text", str(command.epilog).rstrip(), "```", ""] if command.epilog else []
    return "\n".join(parts).rstrip() + "\n"


def _format_argument(action: argparse.Action) -> str:
    """The argument as one writes it, with its values."""
    choices = "|".join(map(str, action.choices or ()))
    takes = choices or str(action.metavar or action.dest.upper())
    if not action.option_strings:
        more = " ..." if action.nargs in ("+", "*") else ""
        return _format_code(f"[{takes}]{more}" if action.nargs in ("?", "*") else f"{takes}{more}")
    name = ", ".join(action.option_strings)
    return _format_code(name if action.nargs == 0 else f"{name} {takes}")


def _write_top() -> Iterator[str]:
    """A row for each key at the top of a file."""
    options = {option.key: option for option in read_options(Basics)}
    rows = [(_format_code(key), f"[see there](#{key})", text) for key, text in SECTIONS.items()]
    for option in options.values():
        nested = _find_parts(option.annotation) is not None
        what = describe_type(option.annotation, option.dimension)
        known = "; ".join(filter(None, (what, _describe_default(option))))
        value = f"[see there](#{option.key})" if nested else known
        rows.append((_format_code(option.key), value, option.meaning))
    yield from _write_table(("key", "value; default", "meaning"), rows)


def _find_parts(annotation: Any) -> Any:
    """The dataclass whose fields a key has, or each entry of its list; None if there is none."""
    inner = (annotation, *get_args(annotation))
    classes = (each for each in inner if isinstance(each, type))
    return next(filter(dataclasses.is_dataclass, classes), None)


def _write_extensions(modules: Mapping[str, Any], entry: str, heading: str) -> Iterator[str]:
    for name, module in modules.items():
        yield from (heading.format(name), "", f"{_format_cell(summarize(module))}.", "")
        yield from _write_options(getattr(module, entry))


def _write_nested(function: Any) -> Iterator[str]:
    """The keys of options that are mappings of other keys, on all levels, each kind once."""
    written = set()
    left = [function]
    while left:
        for option in read_options(left.pop()):
            for found in _list_classes(option.annotation):
                if found not in written:
                    head = "Each of" if isinstance(option.default, Mapping) else "Keys of"
                    yield from (f"{head} `{option.key}`:", "", *_write_options(found))
                    written.add(found)
                    left.append(found)


def _list_classes(annotation: Any) -> Iterator[Any]:
    """The dataclasses in a type, on all levels."""
    if dataclasses.is_dataclass(annotation):
        yield annotation
    for inner in get_args(annotation):
        yield from _list_classes(inner)


def _write_options(function: Any) -> Iterator[str]:
    options = read_options(function)
    yield from _write_rows(options) if options else ("No options.", "")


def _write_rows(options: Sequence[Option]) -> Iterator[str]:
    rows = (
        (
            _format_code(option.key),
            describe_type(option.annotation, option.dimension),
            _describe_default(option),
            _format_cell(option.meaning),
        )
        for option in options
    )
    yield from _write_table(("key", "value", "default", "meaning"), rows)


def describe_type(annotation: Any, dimension: Dimension | None) -> str:
    """Describe in words the values of a type in a scenario file."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated and isinstance(arguments[1], str):
        return _format_code(arguments[1])
    if origin is Annotated:
        return describe_type(arguments[0], dimension) + "".join(
            _describe_bounds(arguments[1:], dimension)
        )
    if origin is Literal:
        return ", ".join(map(_format_code, arguments))
    if origin in (Union, types.UnionType):
        members = (each for each in arguments if each is not types.NoneType)
        return ", or ".join(dict.fromkeys(describe_type(each, dimension) for each in members))
    if dataclasses.is_dataclass(annotation):
        return "a mapping"
    if annotation in (int, float) and dimension is not None:
        return dimension.name
    if not arguments:
        return {int: "a whole number", float: "a number", str: "text", bool: "`true`, `false`"}.get(
            annotation, "any"
        )
    if origin is tuple and ... not in arguments:
        return f"[{', '.join(describe_type(each, dimension) for each in arguments)}]"
    inner = describe_type(arguments[-1 if origin is not tuple else 0], dimension)
    if issubclass(origin, Mapping):
        return f"a mapping of names to {inner.removeprefix('a mapping of names to ')}"
    return f"a list of {_pluralize(inner)}"


def _pluralize(text: str) -> str:
    return {"a mapping": "mappings", "text": "texts"}.get(text, text)


def _describe_bounds(metadata: Iterable[Any], dimension: Dimension | None) -> Iterator[str]:
    """Describe the limits of a number."""

    def shown(limit: Any) -> str:
        return str(render(limit, dimension)) if limit else "0"

    for each in metadata:
        for bound in each.metadata if isinstance(each, FieldInfo) else (each,):
            match bound:
                case annotated_types.Ge(ge=low):
                    yield f", {shown(low)} or more"
                case annotated_types.Gt(gt=low):
                    yield f", above {shown(low)}"
                case annotated_types.Le(le=high):
                    yield f", up to {shown(high)}"
                case annotated_types.Lt(lt=high):
                    yield f", below {shown(high)}"


def _describe_default(option: Option) -> str:
    if option.default is REQUIRED:
        return "required"
    value = render(option.default, option.dimension)
    if value in (None, "", {}, [], ()) or dataclasses.is_dataclass(option.default):
        return "" if value is None or value in ("", [], ()) else "see there"
    return _format_code(document.show(value))


def _list_units() -> Iterator[tuple[str, ...]]:
    for dimension in {each.name: each for each in DIMENSIONS}.values():
        yield (
            dimension.name,
            ", ".join(map(_format_code, dimension.units)),
            _format_code(dimension.example),
        )


def _format_flat(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{key}: {document.show(value)}" for key, value in values.items())


def _write_table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(heads)} |"
    yield f"| {' | '.join('---' for _ in heads)} |"
    yield from (f"| {' | '.join(row)} |" for row in rows)
    yield ""


def _format_code(text: object) -> str:
    return "`" + str(text).replace("|", r"\|") + "`"


def _format_cell(text: str) -> str:
    """Text for a cell of a table; a bar would end the cell, so it is escaped."""
    return " ".join(text.split()).replace("|", r"\|").replace("%%", "%")


_KEYS_HEAD = """\
# Every key of a scenario

A scenario is one YAML file. It is read strictly: an unknown key, a missing unit or an impossible
value is an error with its line, and `trunkline validate FILE` reports all of them at once. Numbers
are written with their unit; only 0 needs none.

`--set scheme.p=4` sets one key for one command. `--set 'scheme={policy: mine.py, plan: crew}'`
replaces the whole section, also the keys that only the other policy has.

`trunkline schema --keys` writes this page. `trunkline schema` writes the same as a JSON Schema for
editors, `trunkline show FILE --format yaml` a scenario with every default filled in.
"""

_TOPOLOGY = """\
`topology: NAME` is `topology: {builder: NAME}`. A name that ends in `.py` is a file of your own
beside the scenario ([tutorial](../tutorial.md)). Every builder also takes `overrides`, `access`
(access links that all of a site's traffic shares; a list, or the name of [a
table](../bring_your_network.md#access-links)), and for all links `burst` (the mean number of
packets in a row that are lost; 1 by default), `reorder`, `duplicate`, `corrupt`, `correlation`
(shares of packets; 0 % by default) and `distribution` (of delays; `uniform` by default, or
`normal`, `pareto`, `paretonormal`, or a CSV file): see
[networks.md](../networks.md#packets-that-overtake-come-twice-or-are-wrong)."""

_WORKLOAD = """\
`workload: NAME` is `workload: {kind: NAME}`. A name that ends in `.py` is a file of your own beside
the scenario ([own.md](../own.md))."""

_SCHEME = f"""\
By default `{_format_flat(DEFAULT_SCHEME)}`. Policies ([own.md](../own.md)) and plans
([tutorial](../tutorial.md)) may be files of your own, as topologies may. Every scheme takes:"""

_TIMELINE = "Each entry has these keys; [timeline.md](../timeline.md) has the syntax of faults."

_COMMANDS_HEAD = """\
# Every command

`trunkline COMMAND --help` prints the same. Exit codes: 0 pass, 2 unknown, 1 fail, 64 bad usage or
an invalid scenario, 70 not carried out, 130 Ctrl-C, 143 SIGTERM.

`trunkline schema --commands` writes this page.
"""
