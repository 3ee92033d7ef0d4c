"""The critical path of a task: the chain of steps that decided when it ended (pure).

The log has the first and the last byte of each task, link and phase. The path is found backwards:
from the member that finished last to the transfer that ended last there, from it to the transfer
that its sender waited for, and so on to a contribution. A step begins when the one before it has
ended, so the steps fill the task's time without gaps. Blocks that took over from lost ones are not
sent before they are known: the way back from them ends when the controller planned them.

In a pipeline, a transfer begins before the one that feeds it has ended, and perhaps goes on after
the path has left it, with other blocks. If its link was busy since the task's first bytes on it, it
waited for no site since then. Otherwise it waited for the bytes that feed it as long as any came. A
link that loses packets counts as busy far below its rate; so it also waited if nothing was left to
send when the last of those bytes came.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

from trunkline.agents.events.event import Event
from trunkline.agents.events.task_events import (
    BlocksHeard,
    Contributed,
    Phase,
    Received,
    Sent,
    TaskFinished,
    TaskJoined,
    TaskRearranged,
    TaskReplanned,
)
from trunkline.agents.planning.plan import Block, Directed
from trunkline.harness.checks.payload.byte_checks import count_planned, count_sent
from trunkline.harness.record.history import Task
from trunkline.harness.record.lives import Interval

Kind = Literal["repair", "contribution", "transfer", "installation"]
Way = Literal["in", "out"]
"""Towards the aggregator, or away from it."""

WAYS: Mapping[str, tuple[Way, ...]] = {"in": ("in",), "early": ("in",), "out": ("out",)}
"""The ways of a phase; those of other phases, of forwarded chunks, are not known."""

Node = tuple[int, Way]
"""A block of the task's plans, by its place among them, and the way on which it is carried."""

Feeds = Mapping[Directed, Mapping[Node, set[tuple[Directed, Way]]]]
"""For each link and each block that it carries, the links before it, with the block's way there."""

LEFT = 0.25
"""A link that took less than this share of its time after its input had come waited for it."""

WasBusy = Callable[[Directed, int, int], bool]
"""Whether a link of the overlay carried what it could, from one time (ns) to another."""

FindGot = Callable[[str, int], int]
"""When a site could have read what it read at a time, if nothing had stopped it, both in ns."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A transfer on the path, and those of its blocks that the path behind it waited for.

    It has no nodes if the log does not tell which blocks the transfer carried.
    """

    arrival: Received
    nodes: frozenset[Node]


@dataclass(frozen=True, slots=True)
class PathStep:
    """What a task waited for from `start_ns` to `end_ns`.

    A `repair` lasts until the blocks on the path were planned, a `contribution` until `site`
    contributed, or heard of these blocks, a `transfer` until the last byte from `src` was at
    `site`, and an `installation` until `site` had installed the result. The last step may be a
    `transfer` that never ended: until `src` had no more to send to `site`, which was lost. No
    report has the `begun` bytes of a chunk that was under way at the end.
    """

    kind: Kind
    start_ns: int
    end_ns: int
    site: str
    src: str = ""
    bytes: int = 0
    begun: int = 0

    @property
    def duration_s(self) -> float:
        """How long it decided about the task's time, in seconds."""
        return (self.end_ns - self.start_ns) / 1e9


def find_critical_path(
    task: Task,
    delays_ms: Mapping[Directed, float],
    was_busy: WasBusy,
    until: Received | None = None,
    find_got: FindGot = lambda site, t_ns: t_ns,
) -> tuple[PathStep, ...]:
    """The steps of a completed task in order of time; none if it was not completed.

    `delays_ms` are the least delays of the overlay's links. With `until`, they are the steps after
    which this payload had arrived. `find_got` tells when something had come that a site read at a
    time: before it was stopped, if it had just been stopped.
    """
    if task.outcome != "completed" or not task.all(TaskFinished):
        return ()
    last = max(task.all(TaskFinished), key=lambda event: event.t_ns)
    repair: TaskRearranged | TaskReplanned | None
    repair = max(task.all(TaskReplanned), key=_get_time, default=None)
    begin_ns = repair.t_ns if repair else task.started.t_ns
    arrivals, feeds = [r for r in task.all(Received) if r.end_ns > begin_ns], _find_feeds(task)
    there = [Stage(r, _list_nodes(feeds, r)) for r in arrivals if r.site == last.site]
    ends: list[tuple[int, PathStep]] = []
    stage, until_ns = _find_last(there, begin_ns, last.t_ns), last.t_ns
    if until is None:
        ends.append((last.t_ns, _find_last_step(task, last.site)))
    else:
        stage, until_ns = Stage(until, _list_nodes(feeds, until)), until.end_ns
    while stage is not None:
        arrival, link = stage.arrival, (stage.arrival.src, stage.arrival.site)
        end_ns = min(arrival.end_ns, until_ns)
        got_ns = max(begin_ns + 1, find_got(arrival.site, end_ns))
        until_ns = min(got_ns - round(delays_ms.get(link, 0.0) * 1e6), end_ns - 1)
        size = arrival.bytes
        fed = _list_feeding(arrivals, feeds, stage)
        if found := _find_begin(task, stage, feeds, fed, (begin_ns, until_ns), was_busy):
            until_ns, size, stage = found
        else:
            repair = _find_rearrangement(task, stage.nodes, begin_ns, until_ns) or repair
            begin_ns = repair.t_ns if repair else begin_ns
        ends.append((end_ns, PathStep("transfer", 0, 0, arrival.site, arrival.src, size)))
        stage = _find_last(_list_feeding(arrivals, feeds, stage), begin_ns, until_ns)
        if stage is not None and _came_later(task, arrival, stage.arrival.end_ns):
            stage = None
    end_ns, first = ends[-1]
    giver = first.src or first.site
    moved = isinstance(repair, TaskRearranged)
    given = task.all(BlocksHeard) if moved else task.all(Contributed, TaskFinished)
    given_ns = [e.t_ns for e in given if e.site == giver and begin_ns <= e.t_ns <= end_ns]
    if not moved and not given_ns:
        given_ns = [t_ns for t_ns in _list_given(task, giver) if begin_ns <= t_ns <= end_ns]
    ends.append((min(given_ns, default=begin_ns), PathStep("contribution", 0, 0, giver)))
    if repair:
        ends.append((begin_ns, PathStep("repair", 0, 0, repair.site)))
    return tuple(_fill(task.started.t_ns, ends))


def find_path_to(
    task: Task,
    link: Directed,
    span: Interval,
    arrivals: Collection[Received],
    delays_ms: Mapping[Directed, float],
    was_busy: WasBusy,
) -> tuple[PathStep, ...]:
    """The steps after which a link of the overlay got bytes of a task, in order of time.

    They begin with the span, which begins with the task, and are over by its end. `arrivals` are
    those of the task until then.
    """
    feeds, (begin_ns, until_ns) = _find_feeds(task), span
    all_ways: Phase = "relay"
    first = Received(until_ns, link[1], task.number, link[0], all_ways, 0, 0, until_ns, until_ns)
    stage = Stage(first, frozenset(feeds.get(link, ())))
    ends: list[tuple[int, PathStep]] = []
    giver = link[0]
    while fed := _find_last(_list_feeding(arrivals, feeds, stage), begin_ns, until_ns):
        arrival = fed.arrival
        if _came_later(task, stage.arrival, arrival.end_ns):
            break
        end_ns, giver = min(arrival.end_ns, until_ns), arrival.src
        until_ns = min(end_ns - round(delays_ms.get((giver, arrival.site), 0.0) * 1e6), end_ns - 1)
        size, stage = arrival.bytes, fed
        feeding = _list_feeding(arrivals, feeds, fed)
        if found := _find_begin(task, fed, feeds, feeding, (begin_ns, until_ns), was_busy):
            until_ns, size, stage = found
        ends.append((end_ns, PathStep("transfer", 0, 0, arrival.site, giver, size)))
    given_ns = [e.t_ns for e in task.all(Contributed) if e.site == giver and e.t_ns >= begin_ns]
    first_ns = min([*given_ns, ends[-1][0] if ends else span[1]])
    return tuple(_fill(begin_ns, [*ends, (first_ns, PathStep("contribution", 0, 0, giver))]))


def _find_begin(
    task: Task,
    stage: Stage,
    feeds: Feeds,
    fed: Iterable[Stage],
    span: Interval,
    was_busy: WasBusy,
) -> tuple[int, int, Stage] | None:
    """Since when a transfer waited for no other one, and its bytes since then; None if it did.

    That is if its link was busy since then, in a span of time, and if it had not waited for those
    that `fed` it. The stage then has all its blocks.
    """
    if _has_waited(task, stage, fed, span[1]):
        return None
    link = stage.arrival.src, stage.arrival.site
    for since_ns, bytes_since in _list_begins(task, stage.arrival):
        if span[0] <= since_ns < span[1] and was_busy(link, since_ns, span[1]):
            return (
                since_ns,
                bytes_since,
                Stage(stage.arrival, stage.nodes and frozenset(feeds[link])),
            )
    return None


def _has_waited(task: Task, stage: Stage, fed: Iterable[Stage], until_ns: int) -> bool:
    """Whether a link waited for what its sender got, although it was busy until this time.

    That is if the sender handed the last bytes over in the moment in which the last ones of its
    input came, and the link took little of the time for what it had left then.
    """
    arrival = stage.arrival
    sent = [
        event
        for event in task.all(Sent)
        if (event.site, event.dst, event.phase) == (arrival.src, arrival.site, arrival.phase)
    ]
    got_ns = {each.arrival.end_ns for each in fed}
    if not sent or not got_ns:
        return False
    begun_ns, ended_ns = min(e.start_ns for e in sent), max(e.end_ns for e in sent)
    return ended_ns == max(got_ns) and until_ns - ended_ns < LEFT * (until_ns - begun_ns)


def _find_last_step(task: Task, site: str) -> PathStep:
    """What the member that finished last did with the whole result.

    It installs it, unless it could not send all of its contribution before: a member needs its own
    until then, or until those are lost that wait for it.
    """
    unsent = count_planned(task) - count_sent(task)
    waits = {ends: size for ends, size in unsent.items() if ends[0] == site}
    if not waits:
        return PathStep("installation", 0, 0, site)
    src, dst = max(waits, key=lambda ends: waits[ends])
    return PathStep("transfer", 0, 0, dst, src, waits[src, dst])


def _came_later(task: Task, arrival: Received, fed_ns: int) -> bool:
    """Whether the sender of a transfer contributed after all had come that it waited for.

    It then waited for itself. Its earlier transfers show that it had not. A site that only adds up
    what others send waited until it heard of the task.
    """
    given_ns = _list_given(task, arrival.src)
    sent_ns = [e.start_ns for e in task.all(Sent) if (e.site, e.dst) == (arrival.src, arrival.site)]
    return bool(given_ns) and fed_ns < min(given_ns) <= min(sent_ns, default=arrival.start_ns)


def _list_given(task: Task, site: str) -> list[int]:
    """When a site contributed, or heard of the task if it contributed nothing."""
    given_ns = [event.t_ns for event in task.all(Contributed) if event.site == site]
    return given_ns or [event.t_ns for event in task.all(TaskJoined) if event.site == site]


def _get_time(event: Event) -> int:
    return event.t_ns


def _find_rearrangement(
    task: Task, nodes: Collection[Node], begin_ns: int, until_ns: int
) -> TaskRearranged | None:
    """The last event between these times by which the controller planned such a block."""
    latest = max((number for number, _ in nodes), default=-1)
    found = [
        event
        for event in task.all(TaskRearranged)
        if begin_ns < event.t_ns <= until_ns and event.first <= latest
    ]
    return max(found, key=_get_time, default=None)


def _fill(start_ns: int, ends: list[tuple[int, PathStep]]) -> Iterator[PathStep]:
    """Each step from the end of the one before it."""
    for end_ns, step in reversed(ends):
        yield replace(step, start_ns=start_ns, end_ns=end_ns)
        start_ns = end_ns


def _list_begins(task: Task, arrival: Received) -> Iterator[tuple[int, int]]:
    """When the sender put the task's first bytes on the link, by phase, the earliest first.

    Each time with the task's bytes from then on. The bytes of earlier phases kept the link busy for
    the arrival's; later phases do not matter.
    """
    sent = [e for e in task.all(Sent) if (e.site, e.dst) == (arrival.src, arrival.site)]
    own_ns = [event.start_ns for event in sent if event.phase == arrival.phase]
    last_ns = min(own_ns or [arrival.start_ns])
    sent = [event for event in sent if event.start_ns <= last_ns]
    for begun_ns in sorted({event.start_ns for event in sent}):
        yield begun_ns, sum(event.bytes for event in sent if event.start_ns >= begun_ns)


def _find_last(stages: Iterable[Stage], begin_ns: int, until_ns: int) -> Stage | None:
    """The transfer that fed its receiver for longest, until this time at the latest.

    Of several that did so until then, it is the one that began last.
    """
    fed = [
        stage
        for stage in stages
        if begin_ns < min(stage.arrival.end_ns, until_ns)
        and (stage.arrival.start_ns if stage.nodes else stage.arrival.end_ns) <= until_ns
    ]

    def sort_key(stage: Stage) -> tuple[int, int, str]:
        arrival = stage.arrival
        return min(arrival.end_ns, until_ns), arrival.start_ns, arrival.src

    return max(fed, key=sort_key, default=None)


def _list_feeding(arrivals: Iterable[Received], feeds: Feeds, stage: Stage) -> Iterator[Stage]:
    """The arrivals that a transfer's sender may have waited for.

    Those are all that it got if the log does not tell which blocks the transfer carried.
    """
    src = stage.arrival.src
    before: defaultdict[Directed, set[Node]] = defaultdict(set)
    for node in stage.nodes:
        for link, way in feeds[src, stage.arrival.site][node]:
            before[link].add((node[0], way))
    for each in arrivals:
        if each.site != src:
            continue
        known = {node for node in before[each.src, src] if node[1] in _list_ways(each)}
        if known:
            yield Stage(each, frozenset(known))
        elif not stage.nodes:
            yield Stage(each, _list_nodes(feeds, each))


def _list_nodes(feeds: Feeds, arrival: Received) -> frozenset[Node]:
    """The blocks that a transfer carries, by the plans; none on an auxiliary path."""
    nodes = feeds.get((arrival.src, arrival.site), {})
    return frozenset(node for node in nodes if node[1] in _list_ways(arrival))


def _list_ways(arrival: Received) -> tuple[Way, ...]:
    return WAYS.get(arrival.phase, ("in", "out"))


def _find_feeds(task: Task) -> Feeds:
    """What each link of the task's plans waits for: the links before it in a tree of a block."""
    found: defaultdict[Directed, dict[Node, set[tuple[Directed, Way]]]] = defaultdict(dict)
    for number, block in enumerate(task.blocks):
        for (link, way), before in list_block_feeds(block):
            found[link].setdefault((number, way), set()).update(before)
    return dict(found)


def list_block_feeds(
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
