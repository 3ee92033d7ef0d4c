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
    for name in _field_names(type(event)):
        value = getattr(event, name)
        if name == "cause":
            values["reason"] = "" if value is None else str(value)
        values[name] = value
    for key in event.omitted_keys():
        del values[key]
    return _ENCODER.encode(stamp | values).encode() + b"\n"


_ENCODER = json.JSONEncoder(default=dataclasses.asdict)


@functools.cache
def _field_names(kind: type[Event]) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(kind))


@functools.cache
def event_name(kind: type[Event]) -> str:
    """The class's name in snake case."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", kind.__name__).lower()
