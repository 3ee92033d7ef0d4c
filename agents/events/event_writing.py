"""Writes an event as one line of the log (pure)."""

from __future__ import annotations

import dataclasses
import functools
import json
import re
from dataclasses import dataclass
from typing import Any

from trunkline.agents.events.event import Event


@dataclass(frozen=True, slots=True)
class LoggedEvent:
    """An event with its line of the log, which may say more than the event."""

    event: Event
    line: bytes

    @classmethod
    def of(cls, event: Event) -> LoggedEvent:
        """An event whose line is still to be written."""
        return cls(event, to_line(event))


def to_line(event: Event) -> bytes:
    """The event as a JSON object, with the newline that ends it.

    The words of a `cause` precede it, as `reason`, for people; they are not read back.
    """
    stamp = {"t_ns": event.t_ns, "site": event.site, "event": event_name(type(event))}
    values: dict[str, Any] = {}
    for field in dataclasses.fields(event):
        value = getattr(event, field.name)
        if field.name == "cause":
            values["reason"] = "" if value is None else str(value)
        values[field.name] = value
    for key in event.omitted_keys():
        del values[key]
    return _ENCODER.encode(stamp | values).encode() + b"\n"


_ENCODER = json.JSONEncoder(default=dataclasses.asdict)


def event_name(kind: type[Event]) -> str:
    """The class's name in snake case."""
    return _to_snake_case(kind.__name__)


@functools.cache
def _to_snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
