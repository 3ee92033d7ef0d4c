"""Reads the event log (pure): one JSON object per line in, one frozen event out.

What a run meant is judged from its events and nothing else, so a line that is not one of them is
an error with its place, never a gap. A key that no field of the event names is left alone, so a
writer may say more than the readers need.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, fields
from typing import Any, get_type_hints

from trunkline.harness.record import fault_events  # noqa: F401  so that its events are known
from trunkline.harness.record.awareness_events import LinkRate
from trunkline.harness.record.events import Event, LinkCounters


class EventError(ValueError):
    """A line that is no event, as `name:line: key: value: what is allowed`."""


def read(lines: Iterable[str], name: str = "events.jsonl") -> tuple[Event, ...]:
    """All events of a log, in its order; `name` is what errors call it.

    Raises EventError at the first line that is cut off, not an event, or earlier than its
    predecessor.
    """
    return tuple(events(lines, name))


def events(
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
            raise EventError(f"{name}:{number}: t_ns: {event.t_ns}: allowed is {allowed}")
        now_ns = event.t_ns
        yield event


def parse(line: str) -> Event:
    """One line as its event. ValueError says which key, its value and what is allowed."""
    try:
        values = json.loads(line)
    except json.JSONDecodeError as error:
        text = line.rstrip()
        cut = "cut off" if error.pos >= len(text) or text[-1] != "}" else "not JSON"
        raise ValueError(f"{cut} at column {error.colno}: {_short(line)}") from None
    if not isinstance(values, dict):
        raise ValueError(f"{_short(line)}: allowed is a JSON object")
    kind = values.get("event")
    if not isinstance(kind, str) or kind not in _READERS:
        raise ValueError(f"event: {kind!r}: allowed are {', '.join(_READERS)}")
    cls, readers = _READERS[kind]
    return cls(**dict(_fields(values, kind, readers)))


_Reader = Callable[[Any], Any]


def _fields(
    values: dict[str, Any], kind: str, readers: Mapping[str, tuple[_Reader, bool]]
) -> Iterator[tuple[str, Any]]:
    for key, (reader, required) in readers.items():
        if key not in values:
            if required:
                raise ValueError(f"{key}: missing: {kind} needs {', '.join(readers)}")
            continue
        try:
            yield key, reader(values[key])
        except _WrongError as wrong:
            raise ValueError(f"{key}: {_short(values[key])}: allowed is {wrong}") from None


class _WrongError(Exception):
    """What a value should have been, in words."""


def _whole(value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise _WrongError("a whole number")


def _count(value: Any) -> int:
    if _whole(value) < 0:
        raise _WrongError("a whole number of 0 or more")
    return int(value)


def _number(value: Any) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    raise _WrongError("a number")


def _yes_or_no(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    raise _WrongError("true or false")


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    raise _WrongError("a string")


def _many(reader: _Reader) -> _Reader:
    def read_many(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise _WrongError("a list")
        return tuple(map(reader, value))

    return read_many


def _maybe(reader: _Reader) -> _Reader:
    return lambda value: None if value is None else reader(value)


def _object(value: Any) -> Mapping[str, Any]:
    if isinstance(value, dict):
        return value
    raise _WrongError("an object")


def _weights(value: Any) -> Mapping[str, float]:
    return {site: _number(weight) for site, weight in _object(value).items()}


def _counters(value: Any) -> LinkCounters:
    row = _object(value)
    try:
        src, dst = (_text(row.get(key)) for key in ("src", "dst"))
        counts = (_count(row.get(key)) for key in ("bytes", "packets", "drops"))
        return LinkCounters(src, dst, *counts)
    except _WrongError as wrong:
        every = "objects of src, dst, bytes, packets, drops"
        raise _WrongError(f"{every}; one value is not {wrong}") from None


def _rate(value: Any) -> LinkRate:
    if isinstance(value, list) and len(value) == 3:
        return LinkRate(_text(value[0]), _text(value[1]), _number(value[2]))
    raise _WrongError("lists of src, dst, rate_mbps")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


_BY_NAME: dict[str, _Reader] = {
    "correction_ns": _whole,
    "before_ns": _maybe(_whole),
    "seed": _whole,
    "code": _maybe(_whole),
    "signal": _maybe(_whole),
}
_BY_TYPE: dict[Any, _Reader] = {
    int: _count,
    float: _number,
    bool: _yes_or_no,
    str: _text,
    int | None: _maybe(_count),
    str | None: _maybe(_text),
    tuple[str, ...]: _many(_text),
    tuple[float, ...]: _many(_number),
    tuple[int, ...]: _many(_count),
    tuple[LinkCounters, ...]: _many(_counters),
    tuple[LinkRate, ...]: _many(_rate),
    Mapping[str, float]: _weights,
    Mapping[str, Any]: _object,
}


def _reader_table() -> dict[str, tuple[type[Event], dict[str, tuple[_Reader, bool]]]]:
    table = {}
    for cls in Event.__subclasses__():
        types = get_type_hints(cls)
        readers = {
            field.name: (
                _BY_NAME.get(field.name) or _BY_TYPE[types[field.name]],
                field.default is MISSING,
            )
            for field in fields(cls)
        }
        table[re.sub(r"(?<=[a-z])(?=[A-Z])", "_", cls.__name__).lower()] = (cls, readers)
    return table


_READERS = _reader_table()
