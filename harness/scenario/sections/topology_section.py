"""The topology of a scenario: a builder with its options, overrides and access links (pure)."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable
from dataclasses import replace

from trunkline.harness.config import units
from trunkline.harness.config.document import MISSING, KeyPath
from trunkline.harness.config.options import (
    Option,
    check,
    make_model,
    make_type,
    read_options,
    read_values,
)
from trunkline.harness.scenario.sections.access_file import read_access
from trunkline.harness.scenario.sections.section_reading import (
    SectionReader,
    read_sound,
    takes_files,
)
from trunkline.harness.scenario.user_code import SUFFIX
from trunkline.topologies import explicit
from trunkline.topologies.link_defaults import impair, read_override, refuse_impossible
from trunkline.topologies.links import CHANGEABLE, LinkOverride, TopologyError
from trunkline.topologies.model import Topology
from trunkline.topologies.rates.access import add_access_links

_OF_LINKS = [option for option in read_options(LinkOverride) if option.name in CHANGEABLE]


def read(reader: SectionReader, seed: int) -> Topology | None:
    """Build the topology with its overrides, and give every queue an explicit size."""
    builders = reader.extensions.topologies
    module, options = reader.read_component("topology", "builder", builders, "build")
    if module is None or options is None:
        _refuse_impossible(reader)
        return None
    overrides, access = (options.pop(name) for name in ("overrides", "access"))
    every = {option.name: options.pop(option.name) for option in read_options(impair)}
    given = {"read": reader.read_file} if takes_files(module.build) else {}
    try:
        topology: Topology = module.build(random.Random(seed), **options, **given)
    except TopologyError as error:
        is_own = str(reader.source.get(("topology", "builder"))).endswith(SUFFIX)
        for key, text in error.parts:
            reader.refuse_option("topology", key, text, options, "builder" * is_own)
        _refuse_impossible(reader)
        return None
    topology, refused = impair(topology, reader.read_file, **every)
    for name, text in refused:
        reader.source.refuse(("topology", units.split_name(name)[0]), text)
    for index, override in enumerate(overrides):
        try:
            override = read_override(override, reader.read_file)
            topology = topology.with_overrides([override])
        except TopologyError as error:
            _refuse_override(reader, index, error)
    notes: tuple[str, ...] = ()
    try:
        if isinstance(access, str):
            links, notes = read_access(reader.read_file(access), access, topology.site_names)
        else:
            links = access
        topology = add_access_links(topology, links)
    except TopologyError as error:
        for text in error.problems:
            reader.source.refuse(("topology", "access"), _name_line(text, access))
    made = explicit.build(random.Random(seed), **explicit.options(topology))
    return replace(made, notes=topology.notes + notes, origins=topology.origins)


def _name_line(text: str, access: object) -> str:
    """The text of a problem, without the name of the option or of its file."""
    text = text.removeprefix("access: ")
    if not isinstance(access, str):
        return text
    return re.sub(r"^(\d+): ", r"line \1: ", text.removeprefix(f"{access}:").lstrip())


def find_sites(reader: SectionReader) -> tuple[str, ...]:
    """The sites of a topology with wrong rates or delays, so that other sections are checked.

    Values that have units do not determine the sites, so defaults may take their place. Without
    a topology, and after other problems of it, there are none. Notes further problems.
    """
    given = reader.source.data.get("topology")
    builder = given.get("builder") if isinstance(given, dict) else None
    module = reader.extensions.topologies.get(builder) if isinstance(builder, str) else None
    if module is None or not isinstance(given, dict):
        return ()
    options = read_options(module.build)
    asked = {option.key: given[option.key] for option in options if option.key in given}
    sound, values = read_sound(make_model("topology", options), asked)
    plain = {option.key for option in options if option.dimension is None}
    if values is None or plain & (asked.keys() - sound):
        return ()
    files = {"read": reader.read_file} if takes_files(module.build) else {}
    given_values = read_values(values, options)
    try:
        made = module.build(random.Random(0), **given_values, **files)
    except TopologyError as error:
        for key, text in error.parts:
            if (
                asked.keys() - sound and units.split_name(key)[0] in sound
            ):  # `read` has not built it
                reader.refuse_option("topology", key, text, given_values)
        return ()
    return made.site_names  # type: ignore[no-any-return]


def _refuse_impossible(reader: SectionReader) -> None:
    """Note the values of all links, and of overrides, that no link can have."""
    given = reader.source.data.get("topology")
    if not isinstance(given, dict):
        return
    overrides = given.get("overrides")
    _refuse_values(reader, ("topology",), given, read_options(impair))
    for index, override in enumerate(overrides if isinstance(overrides, list) else ()):
        _refuse_values(reader, ("topology", "overrides", index), override, _OF_LINKS)


def _refuse_values(
    reader: SectionReader, path: KeyPath, given: object, options: Iterable[Option]
) -> None:
    if not isinstance(given, dict):
        return
    found = {
        option.name: check(make_type(option.annotation, option.dimension), given[option.key])[0]
        for option in options
        if option.key in given
    }
    values = {name: value for name, value in found.items() if value is not None}
    for name, text in refuse_impossible(values, reader.read_file):
        reader.source.refuse((*path, units.split_name(name)[0]), text)


def _refuse_override(reader: SectionReader, index: int, error: TopologyError) -> None:
    path: KeyPath = ("topology", "overrides", index)
    for name, text in error.parts:
        key, _ = units.split_name(name)
        named = reader.source.get((*path, key)) is not MISSING
        reader.source.refuse((*path, key if named else "link"), text)
