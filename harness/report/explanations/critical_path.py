"""The critical path of a task: the chain of steps that decided when it ended (pure).

The log has the first and the last byte of each task, link and phase. The path is found backwards:
from the member that finished last to the transfer that ended last there, from it to the transfer
that its sender waited for, and so on to a contribution. A step begins when the one before it has
ended, so the steps fill the task's time without gaps.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

from trunkline.agents.events.task_events import Received, TaskRearranged, TaskReplanned
from trunkline.agents.planning.plan import Block, Directed, Plan
from trunkline.harness.record.history import Task

Kind = Literal["repair", "contribution", "transfer", "installation"]
Way = Literal["in", "out"]
"""Towards the aggregator, or away from it."""

WAYS: Mapping[str, tuple[Way, ...]] = {"in": ("in",), "early": ("in",), "out": ("out",)}
"""The ways of a phase; those of other phases, of forwarded chunks, are not known."""


@dataclass(frozen=True, slots=True)
class Step:
    """What a task waited for from `start_ns` to `end_ns`.

    A `repair` lasts until the task was planned for the last time, a `contribution` until `site`
    contributed, a `transfer` until the last byte from `src` was at `site`, and an `installation`
    until `site` had installed the result.
    """

    kind: Kind
    start_ns: int
    end_ns: int
    site: str
    src: str = ""
    bytes: int = 0

    @property
    def duration_s(self) -> float:
        """How long it decided about the task's time, in seconds."""
        return (self.end_ns - self.start_ns) / 1e9


def find_critical_path(task: Task, delays_ms: Mapping[Directed, float]) -> tuple[Step, ...]:
    """The steps of a completed task in order of time; none if it was not completed.

    `delays_ms` are the least delays of the overlay's links.
    """
    if task.outcome != "completed" or not task.finished:
        return ()
    last = max(task.finished, key=lambda event: event.t_ns)
    begin_ns = max((event.t_ns for event in task.replanned), default=task.started.t_ns)
    ends = [(last.t_ns, Step("installation", 0, last.t_ns, last.site))]
    arrivals, feeds = [r for r in task.received if r.end_ns > begin_ns], _find_feeds(task)
    arrival = _find_last([r for r in arrivals if r.site == last.site], last.t_ns)
    while arrival is not None:
        ends.append((arrival.end_ns, _make_transfer(arrival)))
        until_ns = arrival.end_ns - round(delays_ms.get((arrival.src, arrival.site), 0.0) * 1e6)
        arrival = _find_last(
            _list_feeding(arrivals, feeds, arrival), min(until_ns, ends[-1][0] - 1)
        )
    first = ends[-1][1]
    giver = first.src or first.site
    given_ns = [e.t_ns for e in (*task.contributed, *task.finished) if e.site == giver]
    given_ns = [t_ns for t_ns in given_ns if begin_ns <= t_ns <= first.end_ns]
    ends.append((min(given_ns, default=begin_ns), Step("contribution", 0, 0, giver)))
    if task.replanned:
        ends.append((begin_ns, Step("repair", 0, 0, task.replanned[-1].site)))
    return tuple(_fill(task.started.t_ns, ends))


def _fill(start_ns: int, ends: list[tuple[int, Step]]) -> Iterator[Step]:
    """Each step from the end of the one before it."""
    for end_ns, step in reversed(ends):
        yield replace(step, start_ns=start_ns, end_ns=end_ns)
        start_ns = end_ns


def _make_transfer(arrival: Received) -> Step:
    return Step("transfer", 0, 0, arrival.site, arrival.src, arrival.bytes)


def _find_last(arrivals: list[Received], until_ns: int) -> Received | None:
    """The arrival that ended last, at this time at the latest."""
    done = [each for each in arrivals if each.end_ns <= until_ns]
    return max(done, key=lambda each: (each.end_ns, each.src), default=None)


def _list_feeding(
    arrivals: list[Received],
    feeds: Mapping[tuple[Directed, Way], set[tuple[Directed, Way]]],
    arrival: Received,
) -> list[Received]:
    """The arrivals that a transfer's sender may have waited for."""
    link = (arrival.src, arrival.site)
    known = [feeds[link, way] for way in _list_ways(arrival) if (link, way) in feeds]
    fed = set[tuple[Directed, Way]]().union(*known)
    return [
        each
        for each in arrivals
        if each.site == arrival.src
        and (not known or any(((each.src, each.site), way) in fed for way in _list_ways(each)))
    ]


def _list_ways(arrival: Received) -> tuple[Way, ...]:
    return WAYS.get(arrival.phase, ("in", "out"))


def _find_feeds(task: Task) -> dict[tuple[Directed, Way], set[tuple[Directed, Way]]]:
    """What each link of the task's plans waits for: the links before it in a tree of a block."""
    repairs: tuple[TaskRearranged | TaskReplanned, ...] = (*task.rearranged, *task.replanned)
    forests = [task.started.forest, *(event.forest for event in repairs)]
    found: defaultdict[tuple[Directed, Way], set[tuple[Directed, Way]]] = defaultdict(set)
    for forest in forests:
        for block in Plan.from_json(forest).blocks:
            for link, before in _list_block_feeds(block):
                found[link] |= before
    return dict(found)


def _list_block_feeds(
    block: Block,
) -> Iterator[tuple[tuple[Directed, Way], set[tuple[Directed, Way]]]]:
    """Every link of a block's trees, with those before it."""
    ways: tuple[Way, Way] = ("in", "out")
    into: defaultdict[tuple[str, Way], set[tuple[Directed, Way]]] = defaultdict(set)
    for way, edges in zip(ways, (block.in_edges, block.out_edges), strict=True):
        for edge in edges:
            into[edge[-1], way].add(((edge[-2], edge[-1]), way))
    for way, edges in zip(ways, (block.in_edges, block.out_edges), strict=True):
        for edge in edges:
            before = set(into[edge[0], way])
            if way == "out" and edge[0] == block.aggregator:
                before |= into[edge[0], "in"]
            for link in pairwise(edge):
                yield (link, way), before
                before = {(link, way)}
