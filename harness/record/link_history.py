"""The values of every link over time: the scenario's and every change in the log (pure).

Rates, delays and cuts may change during a run. Checks and figures look up here what a link could
carry at the time of a transfer.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

from trunkline.agents.events.fault_events import LinkAltered, LinkChanged, WaysAltered
from trunkline.agents.planning.plan import Directed
from trunkline.harness.record.history import History
from trunkline.harness.record.lives import Interval
from trunkline.harness.record.transfers import Transfer
from trunkline.topologies.links import CHANGEABLE, RATES_MBPS, UNIFORM, Link
from trunkline.topologies.model import Topology

COPIES_SIGMAS = 6.0
"""Random duplicates may be so many standard deviations more than expected."""


_ANYTHING: Mapping[str, Any] = {
    "rate_mbps": RATES_MBPS[1],
    "delay_ms": 0.0,
    "jitter_ms": 0.0,
    "loss_percent": 100.0,
    "reorder_percent": 0.0,
    "distribution": UNIFORM,
}
"""Values that excuse all that a link may do: nothing is too fast, and all may be lost."""


@dataclass(frozen=True, slots=True)
class Spell:
    """The values of a link from `start_ns` on; a cut link carries nothing."""

    start_ns: int
    link: Link
    is_cut: bool = False


@dataclass(frozen=True)
class Conditions:
    """The spells of every directed link, in order of time; the first one starts at 0.

    `altered` are the links that something else than the run has changed.
    """

    spells: Mapping[Directed, tuple[Spell, ...]]
    topology: Topology
    altered: frozenset[Directed] = frozenset()

    @classmethod
    def of(cls, history: History, topology: Topology) -> Conditions:
        """Begin with the topology's values and apply every change in the log."""
        found: defaultdict[Directed, list[Spell]] = defaultdict(list)
        for link in topology.links:
            found[link.src, link.dst].append(Spell(0, link))
        for event in history.all(LinkChanged):
            ends = (event.src, event.dst)
            values = {name: getattr(event, name) for name in CHANGEABLE}
            new = replace(topology.link(*ends), **values)
            found[ends].append(Spell(event.t_ns, new, bool(event.cuts)))
        return cls({ends: tuple(spells) for ends, spells in found.items()}, topology)

    @classmethod
    def to_judge(cls, history: History, topology: Topology) -> Conditions:
        """As `of`, but what the run did not change itself may have any values from then on.

        A changed link may be so in both directions; if ways of a node changed, every link may be.
        """
        since_ns: dict[Directed, int] = {}
        for event in history.all(LinkAltered, WaysAltered):
            if isinstance(event, LinkAltered):
                pairs = [(event.src, event.dst), (event.dst, event.src)]
            else:
                pairs = [(link.src, link.dst) for link in topology.links]
            for ends in pairs:
                since_ns[ends] = min(event.t_ns, since_ns.get(ends, event.t_ns))
        made = cls.of(history, topology)
        spells = dict(made.spells)
        for ends, t_ns in since_ns.items():
            if ends in spells:
                kept = [spell for spell in spells[ends] if spell.start_ns < t_ns]
                free = replace(topology.link(*ends), **_ANYTHING)
                spells[ends] = (*kept, Spell(t_ns, free, is_cut=True))
        return cls(spells, topology, frozenset(since_ns))

    def spell(self, ends: Directed, t_ns: int) -> Spell:
        """The link's spell at a time."""
        spells = self.spells[ends]
        return spells[max(0, bisect_right(spells, t_ns, key=lambda s: s.start_ns) - 1)]

    def at(self, ends: Directed, t_ns: int) -> Link:
        """The link's values at a time."""
        return self.spell(ends, t_ns).link

    def rates_mbps(self, t_ns: int = 0) -> dict[Directed, float]:
        """Every link's rate at a time."""
        return {ends: self.at(ends, t_ns).rate_mbps for ends in self.spells}

    def delays_ms(self, t_ns: int = 0) -> dict[Directed, float]:
        """Every link's delay at a time."""
        return {ends: self.at(ends, t_ns).delay_ms for ends in self.spells}

    @cached_property
    def least_delays_ms(self) -> Mapping[Directed, float]:
        """The smallest delay that every link ever had; of an overlay link, that of its path."""
        found = {
            ends: min(spell.link.delay_ms for spell in spells)
            for ends, spells in self.spells.items()
        }
        if self.topology.is_underlay:
            for link in self.topology.overlay.links:
                hops = pairwise(self.topology.path(link.src, link.dst))
                found[link.src, link.dst] = sum(found[hop] for hop in hops)
        return found

    def on_links(self, transfers: Iterable[Transfer]) -> Iterator[Transfer]:
        """Each transfer on every link of its path, when its bytes are there if no queue holds them.

        Without routers, the overlay's links are the network's.
        """
        if not self.topology.is_underlay:
            yield from transfers
            return
        least_ms = self.least_delays_ms
        for transfer in transfers:
            shift_ns = 0
            for src, dst in pairwise(self.topology.path(transfer.src, transfer.dst)):
                start_ns, end_ns = transfer.start_ns + shift_ns, transfer.end_ns + shift_ns
                yield replace(transfer, src=src, dst=dst, start_ns=start_ns, end_ns=end_ns)
                shift_ns += round(least_ms[src, dst] * 1e6)

    def capacity_bytes(self, ends: Directed, spans: Iterable[Interval]) -> float:
        """The bytes that the link's rate allows in these spans of time; cuts are ignored."""
        return sum(
            spell.link.rate_mbps * 1e6 / 8 * (end_ns - start_ns) / 1e9
            for span in spans
            for spell, start_ns, end_ns in self.within(ends, *span)
        )

    def shaped_span(self, ends: Directed, start_ns: int, end_ns: int) -> Interval:
        """When the shaper may have let pass what left the link from `start_ns` to `end_ns`.

        The kernel delays packets after it has shaped them. So what is on the wire when a rate falls
        leaves at the old rate; if the delay changes, early and late packets leave at once.
        """
        longest_ms = max(each.link.most_delay_ms for each in self.spells[ends])
        before_ns = start_ns - round(longest_ms * 1e6)
        links = [spell.link for spell, _, _ in self.within(ends, max(0, before_ns), end_ns)]
        latest_ms = max((link.most_delay_ms for link in links), default=0.0)
        earliest_ms = min((link.least_delay_ms for link in links), default=0.0)
        return start_ns - round(latest_ms * 1e6), end_ns - round(earliest_ms * 1e6)

    def most_copies(self, ends: Directed, packets: int) -> int:
        """How many more than so many packets may arrive because the link duplicates some."""
        links = [spell.link for spell in self.spells[ends]]
        share = max(link.duplicate_percent for link in links) / 100
        rho = max(link.correlation_percent for link in links) / 100
        spread = math.sqrt(packets * share * (1 + rho) / (1 - rho))
        return min(packets, math.ceil(packets * share + COPIES_SIGMAS * spread))

    def mean_rate_mbps(self, ends: Directed, end_ns: int) -> float:
        """The link's rate, averaged from the start to that time."""
        if len(self.spells[ends]) == 1 or not end_ns:
            return self.spells[ends][0].link.rate_mbps
        return self.capacity_bytes(ends, [(0, end_ns)]) * 8e3 / end_ns

    def slowdowns(self, ends: Directed, start_ns: int, end_ns: int) -> int:
        """How often the link's rate decreased in that time."""
        rates = [spell.link.rate_mbps for spell, _, _ in self.within(ends, start_ns, end_ns)]
        return sum(after < before for before, after in pairwise(rates))

    def within(
        self, ends: Directed, start_ns: int, end_ns: int
    ) -> Iterable[tuple[Spell, int, int]]:
        """The spells that overlap a span of time, each with its start and end in that span."""
        spells = self.spells[ends]
        first = max(0, bisect_right(spells, start_ns, key=lambda s: s.start_ns) - 1)
        for index in range(first, len(spells)):
            last = index + 1 == len(spells)
            until_ns = end_ns if last else min(end_ns, spells[index + 1].start_ns)
            from_ns = max(start_ns, spells[index].start_ns)
            if from_ns < until_ns:
                yield spells[index], from_ns, until_ns
            if until_ns == end_ns:
                return
