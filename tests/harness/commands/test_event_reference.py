"""The page on the lines of an event log."""

import json

import pytest

from trunkline.agents.events.event_reading import KINDS, parse
from trunkline.harness.commands import event_reference
from trunkline.harness.config.paths import SCENARIOS

PAGE = SCENARIOS.parent / "docs" / "reference" / "events.md"


def test_the_page_is_made_of_the_classes():
    assert PAGE.read_text() == event_reference.write_page()


def test_there_is_one_right_line_of_each_event():
    lines = list(event_reference.read_examples())
    assert [line["event"] for line in lines] == list(KINDS)
    for line in lines:
        assert isinstance(parse(json.dumps(line)), KINDS[line["event"]])


def test_every_meaning_is_of_a_key():
    kinds = {**KINDS, **event_reference.find_causes()}
    kinds |= {record.__name__: record for record in event_reference.find_records()}
    keys = {(name, key) for name, kind in kinds.items() for key in event_reference.list_keys(kind)}
    used = {key for _, key in keys} | {f"{name}.{key}" for name, key in keys}
    assert not event_reference.MEANINGS.keys() - used


@pytest.mark.parametrize(
    ("key", "hint", "words"),
    [
        ("delay_ms", float, "number, ms"),
        ("code", int | None, "whole number or null"),
        ("sites", tuple[str, ...], "list: text"),
        ("bytes", int, "whole number, bytes"),
        ("models", dict[str, float], "object: text -> number"),
        ("asked", bool, "true or false"),
    ],
)
def test_types_have_words_and_units(key, hint, words):
    assert event_reference.name_type(key, hint) == words


def test_long_lists_are_cut():
    value = {"a": [1, 2, 3, 4], "b": [{"c": "x"}]}
    assert event_reference.shorten(value) == '{"a": [1, 2, 3, ... 4 in all], "b": [{"c": "x"}]}'
