"""The events of Chrome's trace-event format, and the tracks on which they lie (pure).

The format is the published "Trace Event Format", in its form of a JSON object. Perfetto and
chrome://tracing read it. Times are microseconds, with three digits after the point: nanoseconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

TraceEvent = dict[str, Any]
"""An event of a trace, ready for JSON."""


ROUNDING_NS = 1000
"""Tables have microseconds: slices that overlap by no more follow each other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """Something that lasts, on a track.

    Attributes:
        kind: what a viewer can filter by, such as `transfer`.
        values: what a viewer shows of a slice that is selected.
        task: the task of which it is a part; None if it is of none.
    """

    track: str
    name: str
    start_ns: int
    end_ns: int
    kind: str
    values: Mapping[str, Any] = field(default_factory=dict)
    task: int | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """Where and when a slice begins: there a flow passes through it."""

    t_ns: int
    pid: int
    tid: int


@dataclass(slots=True)
class Group:
    """Tracks that stand together, such as all links; the format calls it a process.

    Slices of one track may overlap, those of one thread of the format may not. What overlaps goes
    to further lanes of the track, with the track's name and a number: `n1 (2)`. All groups take the
    ids of their lanes from the same `numbers`, because Perfetto expects different ones.
    """

    pid: int
    name: str
    numbers: Iterator[int]
    events: list[TraceEvent] = field(default_factory=list)
    _lanes: dict[str, list[int]] = field(default_factory=dict)

    def add_track(self, name: str) -> int:
        """The number of the first lane of a track, which is made if there is none yet."""
        return self._lanes[name][0] if name in self._lanes else self._add_lane(name)

    def add_slices(self, slices: Iterable[Slice]) -> Iterator[tuple[int, Place]]:
        """Add slices, and give a task and a place for each that is a part of a task.

        New tracks stand in the order of the slices. A slice lasts at least a nanosecond, so that a
        flow can pass through it.
        """
        given = list(slices)
        last: dict[int, tuple[int, int, TraceEvent]] = {}  # the last slice of each lane
        for each in given:
            self.add_track(each.track)
        for each in sorted(given, key=lambda each: each.start_ns):
            start_ns, end_ns = each.start_ns, max(each.end_ns, each.start_ns + 1)
            lanes = self._lanes[each.track]
            tid = next((lane for lane in lanes if _is_free(last.get(lane), start_ns)), None)
            tid = tid or self._add_lane(each.track)
            if tid in last:
                begun_ns, ended_ns, before = last[tid]
                before["dur"] = to_us(min(ended_ns, start_ns) - begun_ns)
            event = self._make("X", tid, start_ns, each.name, each.values)
            event |= {"dur": to_us(end_ns - start_ns), "cat": each.kind}
            self.events.append(event)
            last[tid] = start_ns, end_ns, event
            if each.task is not None:
                yield each.task, Place(start_ns, self.pid, tid)

    def add_instant(self, track: str, name: str, t_ns: int, values: Mapping[str, Any]) -> None:
        """Add a moment that a viewer marks on all tracks."""
        made = self._make("i", self.add_track(track), t_ns, name, values)
        self.events.append({**made, "s": "g"})

    def add_count(self, name: str, t_ns: int, values: Mapping[str, float]) -> None:
        """Add values from this moment on; each name is a track with a curve per key."""
        self.events.append(self._make("C", 0, t_ns, name, values))

    def describe(self) -> Iterator[TraceEvent]:
        """The events that name the group and its lanes, and tell their order."""
        yield self._make("M", 0, 0, "process_name", {"name": self.name})
        yield self._make("M", 0, 0, "process_sort_index", {"sort_index": self.pid})
        named = (
            (tid, f"{track} ({number})" if number > 1 else track)
            for track, lanes in self._lanes.items()
            for number, tid in enumerate(lanes, 1)
        )
        for place, (tid, name) in enumerate(named):
            yield self._make("M", tid, 0, "thread_name", {"name": name})
            yield self._make("M", tid, 0, "thread_sort_index", {"sort_index": place})

    def _add_lane(self, track: str) -> int:
        tid = next(self.numbers)
        self._lanes.setdefault(track, []).append(tid)
        return tid

    def _make(
        self, phase: str, tid: int, t_ns: int, name: str, values: Mapping[str, Any]
    ) -> TraceEvent:
        event = {"ph": phase, "pid": self.pid, "tid": tid, "ts": to_us(t_ns), "name": name}
        return {**event, "args": dict(values)} if values else event


def _is_free(last: tuple[int, int, TraceEvent] | None, start_ns: int) -> bool:
    """Whether a lane with this last slice can take one that starts then."""
    if last is None:
        return True
    begun_ns, ended_ns, _ = last
    return ended_ns <= start_ns or (begun_ns < start_ns and ended_ns <= start_ns + ROUNDING_NS)


def make_flow(number: int, name: str, places: Iterable[Place]) -> Iterator[TraceEvent]:
    """Arrows through slices in order of time; none if there is only one slice."""
    ordered = sorted(places, key=lambda place: place.t_ns)
    last = len(ordered) - 1
    for index, place in enumerate(ordered if last else ()):
        where = {"pid": place.pid, "tid": place.tid, "ts": to_us(place.t_ns), "name": name}
        phase = (
            {"ph": "s"} if index == 0 else {"ph": "f", "bp": "e"} if index == last else {"ph": "t"}
        )
        yield {**phase, **where, "cat": "task", "id": number}


def to_us(t_ns: int) -> float:
    """Nanoseconds as microseconds."""
    return t_ns / 1e3
