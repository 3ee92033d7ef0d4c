"""Finds links that were slower than set (pure).

A first chunk that has its path to itself arrives after the path's delay and the chunk's time at the
path's rate, plus what TCP adds. On a virtual clock, the host's load adds nothing.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from trunkline.agents.events.connection_events import LinkFound
from trunkline.agents.events.fault_events import CommandTyped
from trunkline.agents.events.task_events import Received, Sent, TaskAbandoned, TaskCompleted
from trunkline.agents.planning.plan import Directed
from trunkline.harness.checks.losses import Losses
from trunkline.harness.checks.payload.byte_checks import find_disturbance
from trunkline.harness.checks.rules import Rules
from trunkline.harness.checks.verdict import Finding, doubt, note
from trunkline.harness.record.history import History, Task
from trunkline.harness.record.link_history import Conditions
from trunkline.harness.record.lives import Interval

CHUNKS = 4
"""A path is judged if it had so many first chunks to itself. The quickest one counts: the others
may have come on a new connection, which is slow, or a packet of theirs was lost."""

LONGER_SHARE, LONGER_S = 1.25, 0.01
"""A first chunk may take this many times as long as its path's delay and rate say, and this much
longer in seconds: headers, acknowledgements and TCP's window take time."""

BACK_SHARE = 0.5
"""A path is judged while the way back has this share of its rate at least."""

CONTROL_BYTES = 20_000
"""Messages of the controller may be on the same link: so many bytes when a task begins."""

WINDOW_BYTES = 14_480
"""TCP's first congestion window, of ten segments. After a loss, at random or in a queue that is
shorter than a chunk, the window of a connection that is mostly idle stays small: a chunk then takes
a round trip more for each window."""

GROWN_WINDOWS, WARM_PRODUCTS = 4, 64
"""A chunk that needs a window of more than `GROWN_WINDOWS` first ones is judged only if its
connection has carried `WARM_PRODUCTS` bandwidth-delay products before: TCP leaves slow start early,
and a window then grows slowly."""


def find_slow_links(
    history: History, rules: Rules, losses: Losses, conditions: Conditions
) -> Iterator[Finding]:
    """No path was slower than its links were set to be."""
    is_virtual = history.run is not None and history.run.clock == "virtual"
    if not is_virtual or not rules.keeps_windows or rules.flows or history.all(CommandTyped):
        return
    calm, disturbed = list[Task](), list[Task]()
    for task in history.tasks:
        (calm if find_disturbance(task, losses) is None else disturbed).append(task)
    busy, carried = _Busy.of(history, rules, disturbed), _Carried.of(history)
    used = set[Directed]()
    late: defaultdict[Directed, list[tuple[float, float]]] = defaultdict(list)
    for task in calm:
        size = min(task.started.bytes, task.started.chunk_bytes)
        for ends, window in _list_first_chunks(task):
            used.add(ends)
            hops = tuple(pairwise(rules.topology.path(*ends)))
            back = tuple(pairwise(rules.topology.path(*reversed(ends))))
            if busy.has_others(hops, window) or not _acknowledges(conditions, hops, back, window):
                continue
            if carried.before(ends, window[0]) < _count_warm(conditions, hops, back, window, size):
                continue
            if (wanted_s := _expect_s(conditions, hops, window, size)) is not None:
                late[ends].append(((window[1] - window[0]) / 1e9, wanted_s))
    judged = {ends: found for ends, found in late.items() if len(found) >= CHUNKS}
    for (src, dst), found in sorted(judged.items()):
        took_s, wanted_s = min(found, key=lambda pair: pair[0] / pair[1])
        if took_s > wanted_s * LONGER_SHARE + LONGER_S:
            what = f"{src} -> {dst}: each first chunk took at least {took_s * 1e3:.1f} ms"
            yield doubt(
                f"{what}; by the link's values it takes at most about {wanted_s * 1e3:.1f} ms"
            )
    if judged:
        yield note(f"{len(judged)} of {len(used)} links could be judged, none slower than set")
    elif used:
        yield note(f"whether one of {len(used)} links was slower than set could not be judged")


@dataclass(frozen=True, slots=True)
class _Carried:
    """What each link of the overlay carried: when sends began, and the bytes of all until then."""

    starts_ns: Mapping[Directed, Sequence[int]]
    bytes: Mapping[Directed, Sequence[int]]
    found_ns: Mapping[frozenset[str], Sequence[int]]

    @classmethod
    def of(cls, history: History) -> _Carried:
        sent: defaultdict[Directed, list[tuple[int, int]]] = defaultdict(list)
        for task in history.tasks:
            for out in task.all(Sent):
                sent[out.site, out.dst].append((out.start_ns, out.bytes))
        found: defaultdict[frozenset[str], list[int]] = defaultdict(list)
        for event in history.all(LinkFound):
            found[frozenset((event.site, event.peer))].append(event.t_ns)
        ordered = {ends: sorted(each) for ends, each in sent.items()}
        return cls(
            {ends: tuple(start_ns for start_ns, _ in each) for ends, each in ordered.items()},
            {ends: (0, *accumulate(size for _, size in each)) for ends, each in ordered.items()},
            found,
        )

    def before(self, ends: Directed, t_ns: int) -> int:
        """The bytes of earlier sends over the connection that a link had then."""
        found_ns = self.found_ns.get(frozenset(ends), ())
        since_ns = found_ns[bisect_left(found_ns, t_ns) - 1] if bisect_left(found_ns, t_ns) else 0
        starts_ns, total = self.starts_ns[ends], self.bytes[ends]
        return total[bisect_left(starts_ns, t_ns)] - total[bisect_left(starts_ns, since_ns)]


@dataclass(frozen=True, slots=True)
class _Busy:
    """When each link of the network carried payload, or may have: during a disturbed task."""

    spans: Mapping[Directed, Sequence[Interval]]
    until_ns: Mapping[Directed, Sequence[int]]
    disturbed: Sequence[Interval]

    @classmethod
    def of(cls, history: History, rules: Rules, disturbed: Sequence[Task]) -> _Busy:
        found: defaultdict[Directed, list[Interval]] = defaultdict(list)
        for task in history.tasks:
            for ends, span in _list_spans(task):
                for hop in pairwise(rules.topology.path(*ends)):
                    found[hop].append(span)
        spans = {hop: sorted(each) for hop, each in found.items()}
        until_ns = {
            hop: tuple(accumulate((end_ns for _, end_ns in each), max))
            for hop, each in spans.items()
        }
        return cls(spans, until_ns, [_life(task, history.end_ns) for task in disturbed])

    def has_others(self, hops: Sequence[Directed], window: Interval) -> bool:
        """Whether other payload than the one that begins with the window was on a link in it."""
        start_ns, end_ns = window
        if any(a_ns <= end_ns and start_ns <= b_ns for a_ns, b_ns in self.disturbed):
            return True
        for hop in hops:
            first = bisect_left(self.spans[hop], (start_ns, 0))
            if first and self.until_ns[hop][first - 1] >= start_ns:
                return True
            after = self.spans[hop][first + 1 : first + 2]
            if after and after[0][0] <= end_ns:
                return True
        return False


def _list_first_chunks(task: Task) -> Iterator[tuple[Directed, Interval]]:
    """From the start of each payload until its first chunk has arrived.

    Payload that set out before its task was known is left out: its chunks may have waited.
    """
    starts = {(out.site, out.dst, out.phase): out.start_ns for out in task.all(Sent)}
    for into in task.all(Received):
        start_ns = starts.get((into.src, into.site, into.phase))
        if start_ns is not None and into.phase != "early":
            yield (into.src, into.site), (start_ns, into.start_ns)


def _list_spans(task: Task) -> Iterator[tuple[Directed, Interval]]:
    """From the start of each payload until its end."""
    ends_ns = {(into.src, into.site, into.phase): into.end_ns for into in task.all(Received)}
    for out in task.all(Sent):
        end_ns = ends_ns.get((out.site, out.dst, out.phase), out.end_ns)
        yield (out.site, out.dst), (out.start_ns, end_ns)


def _life(task: Task, end_ns: int) -> Interval:
    ends_ns = [event.t_ns for event in task.all(TaskCompleted, TaskAbandoned)]
    arrived_ns = [event.end_ns for event in task.all(Received)]
    return task.started.t_ns, max((*ends_ns, *arrived_ns)) if ends_ns else end_ns


def _count_warm(
    conditions: Conditions,
    hops: Sequence[Directed],
    back: Sequence[Directed],
    window: Interval,
    size: int,
) -> float:
    """The bytes that a connection must have carried before a chunk of `size` bytes is judged."""
    links = [conditions.at(hop, window[0]) for hop in (*hops, *back)]
    rate_mbps = min(link.rate_mbps for link in links[: len(hops)])
    product = rate_mbps * sum(link.delay_ms for link in links) * 1e3 / 8
    return WARM_PRODUCTS * product if min(product, size) > GROWN_WINDOWS * WINDOW_BYTES else 0


def _acknowledges(
    conditions: Conditions, hops: Sequence[Directed], back: Sequence[Directed], window: Interval
) -> bool:
    """Whether the way back is fast enough for acknowledgements not to wait in long queues."""
    there, again = (
        min(conditions.at(hop, window[0]).rate_mbps for hop in way) for way in (hops, back)
    )
    return again >= BACK_SHARE * there


def _expect_s(
    conditions: Conditions, hops: Sequence[Directed], window: Interval, size: int
) -> float | None:
    """The seconds that a chunk takes over these links; None if one of them changed meanwhile."""
    links = []
    for hop in hops:
        start, end = (conditions.spell(hop, t_ns) for t_ns in window)
        if start is not end or start.is_cut:
            return None
        links.append(start.link)
    delay_s = sum(link.most_delay_ms for link in links) / 1e3
    queues = map(conditions.topology.queue_bytes, links)
    loses = any(link.slows_tcp for link in links) or min(queues) < size
    rounds = size // WINDOW_BYTES if loses else 0
    rate_mbps = min(link.rate_mbps for link in links)
    return delay_s * (1 + 2 * rounds) + (size + CONTROL_BYTES) * 8e-6 / rate_mbps
