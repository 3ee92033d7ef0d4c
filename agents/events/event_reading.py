"""Reads the event log (pure): one JSON object per line in, one frozen event out.

A run is judged by its events alone, so a line that is not an event is an error that names its
place. A key that is not a field of the event is ignored, so that programs may report more.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Annotated, Any, get_args, get_type_hints

from pydantic import GetCoreSchemaHandler, TypeAdapter, ValidationError
from pydantic_core import CoreSchema, ErrorDetails, core_schema

from trunkline.agents.events import (
    awareness_events,
    background_events,
    call_events,
    connection_events,
    evaluation_events,
    fault_events,
    policy_events,
    round_events,
    run_events,
    task_events,
)
from trunkline.agents.events.awareness_events import LinkRate
from trunkline.agents.events.event import MOST, Event
from trunkline.agents.events.event_writing import event_name
from trunkline.agents.events.run_events import LinkBytes, LinkCapture, LinkTotals, SiteDatagrams

_MODULES = (
    run_events,
    round_events,
    task_events,
    policy_events,
    connection_events,
    fault_events,
    awareness_events,
    background_events,
    call_events,
    evaluation_events,
)

_WORDS = {
    "int_type": "a whole number",
    "greater_than_equal": "a whole number of 0 or more",
    "less_than_equal": f"{MOST} or less",
    "float_type": "a number",
    "bool_type": "true or false",
    "string_type": "a string",
    "tuple_type": "a list",
    "dict_type": "an object",
    "dataclass_type": "an object",
    "union_tag_not_found": "a type in it",
}
"""What is allowed, by the type of pydantic's error."""

_RECORDS = {
    LinkTotals: "objects",
    LinkCapture: "objects",
    LinkBytes: "objects",
    LinkRate: "lists",
    SiteDatagrams: "objects",
}
"""The values that have parts of their own, and how JSON has them."""

_PARTS = {int: "a whole number", float: "a number", str: "a string"}


class EventError(ValueError):
    """A line that is not an event, as `name:line: key: value: what is allowed`."""


def read(lines: Iterable[str], name: str = "events.jsonl") -> tuple[Event, ...]:
    """All events of a log, in its order; `name` is what errors call it.

    Raises EventError at the first line that is cut off, not an event, or earlier than its
    predecessor.
    """
    return tuple(read_each(lines, name))


def read_each(
    lines: Iterable[str], name: str = "events.jsonl", *, ordered: bool = True
) -> Iterator[Event]:
    """The same, one by one, up to the line that is wrong; they need not be `ordered` by time."""
    now_ns = 0
    for number, line in enumerate(lines, start=1):
        try:
            event = parse(line)
        except ValueError as error:
            raise EventError(f"{name}:{number}: {error}") from None
        if ordered and event.t_ns < now_ns:
            allowed = f"{now_ns} (the line before) or later"
            raise EventError(f"{name}:{number}: t_ns: {event.t_ns}: expected {allowed}")
        now_ns = event.t_ns
        yield event


def parse(line: str | bytes) -> Event:
    """One line as its event. ValueError says which key, its value and what is allowed."""
    try:
        return _ADAPTER.validate_json(line, strict=True)
    except ValidationError as error:
        values, first = _load(line), error.errors(include_url=False)[0]
    if first["type"] != "json_invalid":
        raise ValueError(_problem(values, first))
    # A user has typed bytes that are not UTF-8: pydantic refuses them as halves of characters.
    text = json.dumps(values, ensure_ascii=False).encode("utf-16", "surrogatepass")
    return _ADAPTER.validate_json(text.decode("utf-16", "replace"), strict=True)


class _NamedEvent:
    """Has pydantic make the event that the key `event` of a JSON object names."""

    @classmethod
    def __get_pydantic_core_schema__(cls, _: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        choices = {name: handler.generate_schema(kind) for name, kind in KINDS.items()}
        return core_schema.tagged_union_schema(choices, discriminator="event")


def _find_kinds() -> Iterator[type[Event]]:
    for module in _MODULES:
        for value in vars(module).values():
            if isinstance(value, type) and issubclass(value, Event) and hasattr(value, "by"):
                yield value


KINDS: Mapping[str, type[Event]] = {event_name(kind): kind for kind in _find_kinds()}
"""The name of each type of event -> its class, in the order of the modules."""

_ADAPTER: TypeAdapter[Event] = TypeAdapter(Annotated[Event, _NamedEvent])


def _load(line: str | bytes) -> Any:
    text = line if isinstance(line, str) else line.decode(errors="replace")
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        text = text.rstrip()
        cut = "cut off" if error.pos >= len(text) or text[-1] != "}" else "not JSON"
        raise ValueError(f"{cut} at column {error.colno}: {_short(text)}") from None
    except RecursionError:
        raise ValueError(f"too deep: {_short(text)}") from None


def _problem(values: Any, error: ErrorDetails) -> str:
    if not isinstance(values, dict):
        return f"{_short(str(values))}: expected a JSON object"
    name = values.get("event")
    if not isinstance(name, str) or name not in KINDS:
        return f"event: {name!r}: expected one of {', '.join(KINDS)}"
    _, key, *place = error["loc"]
    if error["type"] == "missing" and not place:
        needed = ", ".join(field.name for field in fields(KINDS[name]))
        return f"{key}: missing: {name} needs {needed}"
    record, *_ = *get_args(get_type_hints(KINDS[name])[str(key)]), None
    allowed = _WORDS.get(error["type"], error["msg"])
    if error["type"] == "literal_error":
        allowed = error["ctx"]["expected"]
    if error["type"] == "union_tag_invalid":
        allowed = f"the type {error['ctx']['expected_tags']}"
    if error["type"] == "missing":
        allowed = f"{place[-1]} in it"
    if record in _RECORDS and place:
        allowed = _record_problem(record, place[1:])
    return f"{key}: {_short(values[key])}: expected {allowed}"


def _record_problem(record: type, place: Sequence[int | str]) -> str:
    parts = get_type_hints(record)
    allowed = f"{_RECORDS[record]} of {', '.join(parts)}"
    if not place:
        return allowed
    wanted = (dict(enumerate(parts.values())) | parts)[place[0]]
    return f"{allowed}; one value is not {_PARTS[wanted]}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
