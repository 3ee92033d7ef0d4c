"""The reference pages say what the program goes by, all of it."""

import importlib
import inspect
from pathlib import Path
from typing import Annotated, Literal

import pytest
from pydantic import Field

from trunkline.agents.timing.site_clock import SiteClock
from trunkline.harness.commands import main, reference
from trunkline.harness.config.options import read_options
from trunkline.harness.config.units import SIZE_BYTES, TIME_S
from trunkline.harness.network.interface import NetworkOptions
from trunkline.harness.scenario.extensions import discover
from trunkline.harness.scenario.json_schema import json_schema
from trunkline.harness.scenario.scheme_settings import Auxiliary, Awareness, Scheme
from trunkline.harness.scenario.settings import (
    Basics,
    Controller,
    Failover,
    Limits,
    Outputs,
    Stop,
    TimelineEntry,
)
from trunkline.topologies.links import Link, LinkOverride

PAGES = Path(__file__).parents[3] / "docs" / "reference"
ENTRIES = {"topologies": "build", "workloads": "build", "policies": "create", "plans": "build"}
SETTINGS = (Auxiliary, Awareness, Basics, Controller, Failover, Limits, NetworkOptions, Outputs,
            Scheme, Stop, TimelineEntry, SiteClock, Link, LinkOverride)  # fmt: skip


def functions():
    yield from SETTINGS
    for kind, entry in ENTRIES.items():
        for module in getattr(discover(), kind).values():
            yield getattr(module, entry)


def test_every_key_has_a_meaning_in_the_docstring_that_declares_it():
    for function in functions():
        for option in read_options(function):
            assert option.meaning.endswith((".", ",", "}.")), (function, option.name)


def test_nothing_is_explained_that_is_no_option():
    for function in functions():
        _, _, section = (inspect.getdoc(function) or "").partition("Options:\n")
        names = {option.name for option in read_options(function)}
        for line in section.splitlines():
            if line.startswith(" " * 4) and line[4] != " ":
                assert set(line[4:].partition(":")[0].split(", ")) <= names, (function, line)


def test_editors_show_meanings():
    failover = json_schema()["$defs"]["Failover"]["properties"]
    assert failover["replans"]["description"] == "how many times a task may be planned anew."


@pytest.mark.parametrize(
    ("annotation", "dimension", "said"),
    [
        (Literal["a", "b"], None, "`a`, `b`"),
        (float | tuple[float, float] | None, TIME_S, "a time, or [a time, a time]"),
        (Annotated[int, Field(ge=1)] | Literal["off"], None, "a whole number, 1 or more, or `off`"),
        (Annotated[int, Field(ge=0, lt=2048)], SIZE_BYTES, "a size, 0 or more, below 2 KiB"),
        (dict[str, dict[str, float]], None, "a mapping of names to a number"),
        (tuple[str, ...], None, "a list of texts"),
        (Failover, None, "a mapping"),
    ],
)
def test_types_are_said_in_words(annotation, dimension, said):
    assert reference.describe_type(annotation, dimension) == said


def test_the_pages_are_made_of_it():
    assert (PAGES / "scenario.md").read_text() == reference.write_keys(discover())
    assert (PAGES / "commands.md").read_text() == reference.write_commands(main.make_parser())


@pytest.mark.parametrize("name", ["topology", "plan", "policy", "workload", "program"])
def test_the_page_of_public_modules_names_what_sphinx_leaves_out(name):
    page, module = (PAGES / "api.md").read_text(), importlib.import_module(f"trunkline.{name}")
    assert f"automodule:: trunkline.{name}\n" in page
    for each in module.__all__:
        found = getattr(module, each)
        assert inspect.isclass(found) or inspect.isfunction(found) or each in page
