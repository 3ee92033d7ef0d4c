"""The event log as typed values (pure): one JSON object per line in, one frozen event out.

Every process of a run writes events with the run's one clock; the runner merges them by time
into `events.jsonl`. What the run meant is judged from these events and nothing else, so a line
that is not one of them is an error with its place, never a gap. A class here is one event type:
its name in snake case is the line's `"event"`, its fields are the line's keys. A key that no
field names is left alone, so a writer may say more than the readers need.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any, get_type_hints

CONTROLLER = "controller"
RUNNER = "runner"


class EventError(ValueError):
    """A line that is no event, as `name:line: key: value: what is allowed`."""


@dataclass(frozen=True, slots=True)
class LinkCounters:
    """What the interface of one directed link counted during the run, headers included."""

    src: str
    dst: str
    bytes: int
    packets: int
    drops: int


@dataclass(frozen=True, slots=True)
class LinkRate:
    """The rate of one directed link, as an estimate has it."""

    src: str
    dst: str
    rate_mbps: float


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened at `site` (a site, "controller" or "runner"), `t_ns` into the run."""

    t_ns: int
    site: str


@dataclass(frozen=True, slots=True)
class RunStarted(Event):
    """Runner: the agents are about to start."""

    scenario: str
    seed: int
    backend: str
    clock: str
    sites: tuple[str, ...]
    model_bytes: int
    chunk_bytes: int
    policy: str
    plan: str


@dataclass(frozen=True, slots=True)
class NetworkReady(Event):
    """Runner: every link is up and shaped."""


@dataclass(frozen=True, slots=True)
class AgentExited(Event):
    """Runner: the process of `who` ended with this exit code, or by this signal.

    `fault` is the number of the fault that killed it.
    """

    who: str
    code: int | None = None
    signal: int | None = None
    fault: int | None = None


@dataclass(frozen=True, slots=True)
class FaultStarted(Event):
    """Runner: a fault of the timeline starts, in the words that ask for it.

    `targets` are the directed links (`a -> b`) or the agent it is aimed at; none are all links.
    """

    fault: int
    verb: str
    text: str
    targets: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FaultEnded(Event):
    """Runner: that fault is undone."""

    fault: int


@dataclass(frozen=True, slots=True)
class LinkChanged(Event):
    """Runner: from now on the link src -> dst has these values; `cuts` say how it is cut."""

    src: str
    dst: str
    rate_mbps: float
    delay_ms: float
    jitter_ms: float
    loss_percent: float
    cuts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AgentChanged(Event):
    """Runner: a fault killed, restarted, paused or resumed an agent."""

    who: str
    do: str
    fault: int


@dataclass(frozen=True, slots=True)
class RunFinished(Event):
    """Runner: every process is reaped; `links` are the interface counters at that moment."""

    reason: str
    links: tuple[LinkCounters, ...]


@dataclass(frozen=True, slots=True)
class AgentFailed(Event):
    """Controller or worker: gives up, for this reason."""

    reason: str


@dataclass(frozen=True, slots=True)
class Late(Event):
    """Worker on a real clock: its work took so much longer than it is modelled to take."""

    seconds: float


@dataclass(frozen=True, slots=True)
class TimersLate(Event):
    """Agent on a real clock, at its end: how late its timers were in all, of the time watched."""

    seconds: float
    of_s: float


@dataclass(frozen=True, slots=True)
class ComputeStarted(Event):
    """Worker: an iteration's own work begins."""

    iteration: int


@dataclass(frozen=True, slots=True)
class ComputeFinished(Event):
    """Worker: an iteration's own work is done."""

    iteration: int


@dataclass(frozen=True, slots=True)
class Ready(Event):
    """Worker: waits for a group to synchronize this iteration with."""

    iteration: int


@dataclass(frozen=True, slots=True)
class Contributed(Event):
    """Worker: what this site put into the task; digest and fingerprint are of its float32s."""

    task: int
    iteration: int
    digest: str
    fingerprint: tuple[float, ...]
    weight: float


@dataclass(frozen=True, slots=True)
class TaskJoined(Event):
    """Worker: this site knows the task, as a member, an aggregator or both."""

    task: int


@dataclass(frozen=True, slots=True)
class Sent(Event):
    """Worker: the payload of one task and phase that this site put on its link to `dst`."""

    task: int
    dst: str
    phase: str
    bytes: int
    chunks: int
    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class Received(Event):
    """Worker: the payload of one task and phase that arrived over the link from `src`."""

    task: int
    src: str
    phase: str
    bytes: int
    chunks: int
    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class TaskFinished(Event):
    """Worker: a member installed the result."""

    task: int
    digest: str
    fingerprint: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class TaskDropped(Event):
    """Worker: a member gave the task up; `digest` is of the model that it keeps."""

    task: int
    reason: str
    digest: str | None = None


@dataclass(frozen=True, slots=True)
class RoundFinished(Event):
    """Worker: one more iteration computed and synchronized."""

    rounds: int


@dataclass(frozen=True, slots=True)
class WorkerFinished(Event):
    """Worker: told to stop, done."""

    rounds: int


@dataclass(frozen=True, slots=True)
class Evaluated(Event):
    """Worker: the result of the task, measured on test samples."""

    task: int
    accuracy_percent: float
    loss: float
    samples: int


@dataclass(frozen=True, slots=True)
class RatesEstimated(Event):
    """Controller: the rates that plans go by from now on, which are not the true ones."""

    links: tuple[LinkRate, ...]


@dataclass(frozen=True, slots=True)
class TaskStarted(Event):
    """Controller: `group` is to hold `scale` times the weighted sum of the contributions.

    `bytes` is the model's size; `forest` is the plan as `agents.plan.Plan.to_json` gives it.
    """

    task: int
    policy: str
    plan: str
    group: tuple[str, ...]
    weights: Mapping[str, float]
    scale: float
    bytes: int
    chunk_bytes: int
    forest: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class TaskRearranged(Event):
    """Controller: the blocks of `forest`, numbered from `first`, take over from the `withdrawn`."""

    task: int
    withdrawn: tuple[int, ...]
    first: int
    forest: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class TaskCompleted(Event):
    """Controller: every member reported the result installed."""

    task: int


@dataclass(frozen=True, slots=True)
class TaskAbandoned(Event):
    """Controller: the task is given up, everybody keeps their own model."""

    task: int
    reason: str


@dataclass(frozen=True, slots=True)
class Stopping(Event):
    """Controller: the stop condition is met, no more tasks."""

    reason: str


def read(lines: Iterable[str], name: str = "events.jsonl") -> tuple[Event, ...]:
    """All events of a log, in its order; `name` is what errors call it.

    Raises EventError at the first line that is cut off, not an event, or earlier than its
    predecessor.
    """
    return tuple(_events(lines, name))


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


def _events(lines: Iterable[str], name: str) -> Iterator[Event]:
    now_ns = 0
    for number, line in enumerate(lines, start=1):
        try:
            event = parse(line)
        except ValueError as error:
            raise EventError(f"{name}:{number}: {error}") from None
        if event.t_ns < now_ns:
            allowed = f"{now_ns} (the line before) or later"
            raise EventError(f"{name}:{number}: t_ns: {event.t_ns}: allowed is {allowed}")
        now_ns = event.t_ns
        yield event


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
    "seed": _whole,
    "code": _maybe(_whole),
    "signal": _maybe(_whole),
}
_BY_TYPE: dict[Any, _Reader] = {
    int: _count,
    float: _number,
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
