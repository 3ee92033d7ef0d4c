"""The load of links during a run, and how a lower rate delayed it (pure).

Bytes count as sent when `spreading` says. So a link that nearly stops is busy all the time then,
and is not when it has its full rate again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from trunkline.agents.events.background_events import BackgroundReceived
from trunkline.agents.planning.plan import Directed
from trunkline.harness.background.flows import Flow
from trunkline.harness.network.interface import payload_share
from trunkline.harness.record.history import History
from trunkline.harness.record.link_history import Conditions, Spell
from trunkline.harness.record.lives import Interval
from trunkline.harness.record.transfers import Transfer
from trunkline.harness.report.overlay.spreading import find_pace_mbps

BUSY = 0.9
"""A link was busy all the time if it was for this share of it."""

Timed = tuple[float, float, Spell]
"""How many seconds of a spell are in a span of time, its rate in Mbit/s, and the spell."""

Wanted = Callable[[int | None], bool]
"""Chooses loads by their task; None is background traffic."""


@dataclass(frozen=True, slots=True)
class Load:
    """Payload that crossed a link between two times; `task` is None for background traffic.

    `is_result` tells whether it is on its way from an aggregator, and not to it.
    """

    task: int | None
    bytes: int
    start_ns: int
    end_ns: int
    is_result: bool = False


@dataclass(frozen=True, slots=True)
class Shared:
    """A link of a critical path that carried contributions and results of the task at once.

    Attributes:
        contributed, results: the bytes of both.
        seconds: what the smaller one needs at the link's rate.
    """

    where: str
    contributed: float
    results: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Slowdown:
    """How long a link's bytes took in addition because it was slower than in the scenario.

    Attributes:
        rate_mbps: the lowest rate that delayed them.
        since_ns: when the link got that rate.
    """

    seconds: float
    rate_mbps: float
    since_ns: int


@dataclass(frozen=True, slots=True)
class LinkLoads:
    """The loads of every link of the network, and the conditions under which it carried them."""

    conditions: Conditions
    mtu: int
    loads: Mapping[Directed, Sequence[Load]]

    @classmethod
    def of(
        cls,
        pieces: Iterable[Transfer],
        history: History,
        conditions: Conditions,
        mtu: int,
        flows: Sequence[Flow] = (),
    ) -> LinkLoads:
        """The pieces of a run's payloads, and what arrived of these flows of background traffic."""
        found: defaultdict[Directed, list[Load]] = defaultdict(list)
        for each in conditions.on_links(pieces):
            is_result = each.phase == "out"
            load = Load(each.task, each.bytes, each.start_ns, each.end_ns, is_result)
            found[each.src, each.dst].append(load)
        topology = conditions.topology
        paths = {flow.number: topology.path(flow.src, flow.dst) for flow in flows}
        for event in history.all(BackgroundReceived):
            for hop in pairwise(paths.get(event.flow, ())):
                found[hop].append(Load(None, event.bytes, event.since_ns, event.t_ns))
        return cls(conditions, mtu, found)

    def count_tasks(self, hop: Directed, span: Interval) -> dict[int, float]:
        """The bytes of each task on a link in a span of time."""
        found: defaultdict[int, float] = defaultdict(float)
        for load in self.loads.get(hop, ()):
            if load.task is not None and (share := self._share(hop, load, span)):
                found[load.task] += load.bytes * share
        return dict(sorted(found.items()))

    def find_shared(
        self, task: int, hops: Iterable[tuple[Directed, Interval]]
    ) -> tuple[Shared, ...]:
        """The links on which a task's contributions and results met, the longest first."""
        found = []
        for hop, span in hops:
            sizes = [0.0, 0.0]
            for load in self.loads.get(hop, ()):
                if load.task == task:
                    sizes[load.is_result] += load.bytes * self._share(hop, load, span)
            rate_mbps = self.conditions.topology.link(*hop).rate_mbps
            if min(sizes):
                seconds = self.carry_s(min(sizes), rate_mbps)
                found.append(Shared(" -> ".join(hop), sizes[0], sizes[1], seconds))
        return tuple(sorted(found, key=lambda each: (-each.seconds, each.where)))

    def count(self, hop: Directed, span: Interval, wanted: Wanted = lambda task: True) -> float:
        """The bytes on a link in a span of time, of the wanted loads."""
        loads = (load for load in self.loads.get(hop, ()) if wanted(load.task))
        return sum(load.bytes * self._share(hop, load, span) for load in loads)

    def use(self, hop: Directed, span: Interval) -> float:
        """The share of a span of time, cuts aside, in which a link was busy."""
        spells = list(self._list_spells(hop, span))
        pace = self._find_pace_mbps(spells, self.count(hop, span))
        busy_s = sum(seconds * min(1.0, pace / rate) for seconds, rate, _ in spells)
        return busy_s / sum(seconds for seconds, _, _ in spells) if spells else 0.0

    def carry_s(self, size: float, rate_mbps: float) -> float:
        """How long payload of so many bytes needs at a rate, in seconds."""
        return self._to_megabits(size) / rate_mbps

    def find_slowdown(self, hop: Directed, span: Interval, more: float = 0.0) -> Slowdown | None:
        """How rates below the scenario's delayed what a link carried in a span of time.

        It carried `more` bytes than the log has.
        """
        spells = list(self._list_spells(hop, span))
        pace = self._find_pace_mbps(spells, self.count(hop, span) + more)
        usual_mbps = self.conditions.topology.link(*hop).rate_mbps
        slow = [each for each in spells if each[1] < usual_mbps]
        if not slow:
            return None
        lost_s = sum(
            seconds * min(1.0, pace / rate) * (1 - rate / usual_mbps) for seconds, rate, _ in slow
        )
        _, lowest_mbps, spell = min(slow, key=lambda each: each[1])
        return Slowdown(lost_s, lowest_mbps, spell.start_ns)

    def _share(self, hop: Directed, load: Load, span: Interval) -> float:
        """The share of a load that was on the link in a span of time."""
        start_ns, end_ns = span
        if load.end_ns <= load.start_ns:
            return float(start_ns < load.end_ns <= end_ns)
        both = max(start_ns, load.start_ns), min(end_ns, load.end_ns)
        if both[0] >= both[1]:
            return 0.0
        whole = list(self._list_spells(hop, (load.start_ns, load.end_ns)))
        pace = self._find_pace_mbps(whole, load.bytes)
        carried, part = (
            sum(seconds * min(pace, rate) for seconds, rate, _ in spells)
            for spells in (whole, self._list_spells(hop, both))
        )
        if not carried:  # the link was cut, but the log has bytes: they count as spread evenly
            return (both[1] - both[0]) / (load.end_ns - load.start_ns)
        return part / carried

    def _find_pace_mbps(self, spells: Iterable[Timed], size: float) -> float:
        return find_pace_mbps(
            [(seconds, rate) for seconds, rate, _ in spells], self._to_megabits(size)
        )

    def _list_spells(self, hop: Directed, span: Interval) -> Iterator[Timed]:
        """The seconds and the rate of each spell in a span of time; those of cuts are left out."""
        for spell, start_ns, end_ns in self.conditions.within(hop, *span):
            if not spell.is_cut:
                yield (end_ns - start_ns) / 1e9, spell.link.rate_mbps, spell

    def _to_megabits(self, size: float) -> float:
        """Payload on the link, with headers."""
        return size * 8e-6 / payload_share(self.mtu)
