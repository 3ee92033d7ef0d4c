"""When the bytes of transfers were on their links, as far as a log tells (pure).

The log has the times of a payload's first and last byte on a link, by task and phase. In between,
its bytes are spread over pieces:

- What a repaired task sends anew is known from the new plan. It comes after the sender has heard of
  that plan. The rest came before the sender heard that the task was halted, and if the sender had
  finished already, until then, or as long as the link needed for it.
- Nothing is sent while a link of the way is cut or the sender is paused or dead.
- Otherwise bytes move at one pace, or at the lowest rate of the way where that is lower.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise

from trunkline.agents.events.task_events import (
    BlocksHeard,
    HaltHeard,
    Routed,
    TaskFinished,
    TaskReplanned,
)
from trunkline.agents.planning.plan import Block, Directed
from trunkline.harness.record.history import History, Task
from trunkline.harness.record.link_history import Conditions
from trunkline.harness.record.lives import Interval
from trunkline.harness.record.stops import Standstill, list_stops
from trunkline.harness.record.transfers import Transfer, transfers

Flow = tuple[str, str, str]
"""The ends of a link of the overlay and a phase."""

Planned = Mapping[int, Mapping[Flow, int]]
"""The bytes of each flow that a repair planned, by the time of the repair in ns."""


def spread(history: History, conditions: Conditions, share: float = 1.0) -> list[Transfer]:
    """The payload of all tasks on the overlay's links, in pieces that move at one pace each.

    Payload gets `share` of a link's rate; headers need the rest.
    """
    stops: defaultdict[str, list[Standstill]] = defaultdict(list)
    for stop in list_stops(history):
        stops[stop.who].append(stop)
    least_ms = conditions.least_delays_ms
    ways: dict[Directed, Way] = {}
    found: list[Transfer] = []
    for task in history.tasks:
        planned = _list_planned(task)
        for each in transfers([task], least_ms):
            if (way := ways.get(ends := (each.src, each.dst))) is None:
                way = ways[ends] = Way.of(conditions, least_ms, ends, share)
            for part in _split_at_repairs(task, each, planned, way):
                found += _spread_evenly(part, way, stops.get(each.src, ()))
    return found


def find_pace_mbps(spells: Sequence[tuple[float, float]], megabits: float) -> float:
    """The pace at which so much is carried in spells of (seconds, rate), or slower by their rate.

    Infinite if the rates do not allow more than that.
    """
    left_s, left = sum(seconds for seconds, _ in spells), megabits
    for seconds, rate in sorted(spells, key=lambda spell: spell[1]):
        if left < rate * left_s:
            return left / left_s
        left, left_s = left - seconds * rate, left_s - seconds
    return math.inf


@dataclass(frozen=True, slots=True)
class Way:
    """The links below a link of the overlay, each with the least delay before it in ns."""

    conditions: Conditions
    hops: tuple[tuple[Directed, int], ...]
    share: float

    @classmethod
    def of(
        cls,
        conditions: Conditions,
        least_ms: Mapping[Directed, float],
        ends: Directed,
        share: float,
    ) -> Way:
        """The way between two sites."""
        hops = list(pairwise(conditions.topology.path(*ends)))
        delays = accumulate((round(least_ms[hop] * 1e6) for hop in hops), initial=0)
        return cls(conditions, tuple(zip(hops, delays, strict=False)), share)

    def rate_mbps(self, t_ns: int) -> float:
        """The rate of payload that the way allows to bytes that are sent then; 0 if it is cut."""
        spells = [self.conditions.spell(hop, t_ns + after_ns) for hop, after_ns in self.hops]
        return min(0.0 if each.is_cut else each.link.rate_mbps * self.share for each in spells)

    def list_changes(self, start_ns: int, end_ns: int) -> Iterator[int]:
        """The times between these two at which a link of the way changes for what is sent then."""
        for hop, after_ns in self.hops:
            if len(self.conditions.spells[hop]) > 1:
                span = start_ns + after_ns, end_ns + after_ns
                for _, from_ns, _ in self.conditions.within(hop, *span):
                    yield from_ns - after_ns

    def find_end_ns(self, size: int, start_ns: int, end_ns: int) -> int:
        """When the way had carried so many bytes of payload, by its rates; at most the end."""
        left, times = float(size), {start_ns, end_ns, *self.list_changes(start_ns, end_ns)}
        for since_ns, until_ns in pairwise(sorted(times)):
            rate = self.rate_mbps(since_ns)
            carried = rate * (until_ns - since_ns) / 8e3
            if carried >= left:
                return since_ns + round(left * 8e3 / rate) if rate else since_ns
            left -= carried
        return end_ns


def _spread_evenly(sent: Transfer, way: Way, stops: Iterable[Standstill]) -> list[Transfer]:
    """A transfer in pieces, without the times of cuts and stops; whole if nothing else is left."""
    span = sent.start_ns, sent.end_ns
    stops = [stop for stop in stops if stop.overlap_s(span)]
    times = {*span, *way.list_changes(*span)}
    times.update(t for stop in stops for t in (stop.start_ns, stop.end_ns) if span[0] < t < span[1])
    if len(times) <= 2:
        return [sent]
    slots: list[tuple[Interval, float]] = []
    for slot in pairwise(sorted(times)):
        rate = way.rate_mbps(slot[0])
        if rate > 0 and not any(stop.start_ns <= slot[0] < stop.end_ns for stop in stops):
            slots.append((slot, rate))
    if not slots:
        return [sent]
    timed = [((end - start) / 1e9, rate) for (start, end), rate in slots]
    pace = find_pace_mbps(timed, sent.bytes * 8e-6)
    carried = list(accumulate(seconds * min(pace, rate) for seconds, rate in timed))
    marks = [0, *(round(sent.bytes * upto / carried[-1]) for upto in carried)]
    return [
        replace(sent, bytes=after - before, start_ns=start, end_ns=end)
        for ((start, end), _), (before, after) in zip(slots, pairwise(marks), strict=True)
    ]


def _split_at_repairs(task: Task, sent: Transfer, planned: Planned, way: Way) -> Iterator[Transfer]:
    """The bytes of a transfer by the task's first plan, and those by the plans of repairs."""
    left, flow = sent.bytes, (sent.src, sent.dst, sent.phase)
    for planned_ns, sizes in sorted(planned.items(), reverse=True):
        size = min(left, sizes.get(flow, 0))
        heard_ns = [
            e.t_ns for e in task.all(BlocksHeard) if e.site == sent.src and e.t_ns > planned_ns
        ]
        begin_ns = min(heard_ns, default=planned_ns)
        if size and sent.start_ns < begin_ns < sent.end_ns:
            yield replace(sent, bytes=size, start_ns=begin_ns)
            left -= size
    if left:
        yield replace(sent, bytes=left, end_ns=_find_end(task, replace(sent, bytes=left), way))


def _find_end(task: Task, sent: Transfer, way: Way) -> int:
    """When the bytes of a transfer that no repair planned had been sent at the latest."""
    heard_ns = [
        event.t_ns
        for event in task.all(HaltHeard)
        if event.site == sent.src and sent.start_ns < event.t_ns < sent.end_ns
    ]
    if not heard_ns:
        return sent.end_ns
    finished_ns = [e.t_ns for e in task.all(TaskFinished) if e.site == sent.src]
    if not finished_ns:
        return max(heard_ns)
    carried_ns = way.find_end_ns(sent.bytes, sent.start_ns, max(heard_ns))
    return min(max(heard_ns), max(*finished_ns, carried_ns))


def _list_planned(task: Task) -> Planned:
    """The plans of repairs of a completed task that no later one withdrew.

    All of it was sent. If a task was not completed, or if its sites chose the ways, none is known.
    """
    if task.outcome != "completed" or task.all(Routed):
        return {}
    live: dict[int, tuple[int, Block]] = {}
    for event in task.changes:
        if isinstance(event, TaskReplanned):
            live.clear()
        else:
            for number in event.withdrawn:
                live.pop(number, None)
        blocks = task.plan_of(event).blocks
        live.update(
            (number, (event.t_ns, block)) for number, block in enumerate(blocks, event.first)
        )
    found: defaultdict[int, Counter[Flow]] = defaultdict(Counter)
    for t_ns, block in live.values():
        size = task.cut.size_of(block.chunks)
        for flow in _list_flows(block):
            found[t_ns][flow] += size
    return found


def _list_flows(block: Block) -> Iterator[Flow]:
    """Every link that a block's trees use, with the phase; sites on the way only relay it."""
    for way, edges in (("in", block.in_edges), ("out", block.out_edges)):
        for edge in edges:
            for number, (src, dst) in enumerate(pairwise(edge)):
                yield src, dst, "relay" if number else way
