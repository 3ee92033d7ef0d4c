"""What TCP could carry while a link lost packets or its delay was raised, and afterwards (pure).

The log does not say what TCP did. This is CUBIC's rule for a connection that sends all the time:

- A link that loses packets leaves a window which depends on the share that is lost.
- A raised delay makes a window last for a longer round trip. If round trips grow by more than TCP's
  shortest timer, TCP takes packets for lost that are only late, and begins with a window of one.
- Afterwards the window grows from what was left, while the connection is in use. So a link is slow
  for seconds after it has its own values again.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from trunkline.agents.planning.plan import Directed
from trunkline.harness.network.interface import TCP_IP_HEADER_BYTES
from trunkline.harness.record.link_history import Conditions, Spell
from trunkline.harness.record.lives import Interval
from trunkline.harness.record.transfers import Transfer, union
from trunkline.harness.report.explanations.link_loads import BUSY

LIKELY_LOSSES = 0.5
"""Losses explain a delay if at least this many packets are lost on average meanwhile."""

SHORTEST_TIMER_S = 0.2
"""TCP sends a packet again after the usual round trip and this time, in Linux."""

KEPT = 0.7
"""What a lost packet leaves of CUBIC's window."""

CUBIC = 0.4
"""A window grows by this many packets times the cube of the seconds."""

RENO_GAIN = 3 * (1 - KEPT) / (1 + KEPT)
"""A window grows by at least so many packets in a round trip."""

REMEMBERED_S = 30.0
"""A trouble that ended so long before matters no more."""

SLICES = 32
"""A span of time is looked at in so many equal parts."""

BUSY_AT_LIMIT = 0.5
"""A link was busy with this share of what TCP could carry, which is an estimate."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """A spell in which a link lost packets, or had a longer delay than in the scenario.

    Attributes:
        amount: the share that was lost in %, or the delay in ms.
    """

    cause: Literal["loss", "delay"]
    hop: Directed
    start_ns: int
    end_ns: float
    amount: float


@dataclass(frozen=True, slots=True)
class Slice:
    """A short time on a connection.

    Attributes:
        mbps: the rate of the path, 0 while it is cut.
        tcp_mbps: what TCP could carry at most because of the trouble.
        trouble: None if TCP had no limit.
    """

    seconds: float
    mbps: float
    tcp_mbps: float
    trouble: Trouble | None


@dataclass(frozen=True, slots=True)
class TcpLimits:
    """The transfers of each connection between sites, and the conditions of the links below."""

    conditions: Conditions
    mtu: int
    transfers: Mapping[Directed, Sequence[Transfer]]

    @classmethod
    def of(cls, transfers: Sequence[Transfer], conditions: Conditions, mtu: int) -> TcpLimits:
        """The limits of all connections that made these transfers."""
        found: defaultdict[Directed, list[Transfer]] = defaultdict(list)
        for each in transfers:
            found[each.src, each.dst].append(each)
        return cls(conditions, mtu, dict(found))

    def was_full(self, ends: Directed, span: Interval) -> bool:
        """Whether a connection with a limit carried about what TCP could, and so never waited."""
        slices = list(self._cut(ends, span))
        if all(each.trouble is None for each in slices):
            return False
        needed = sum(
            each.seconds * each.mbps * BUSY
            if each.trouble is None
            else each.seconds * min(each.mbps * BUSY, each.tcp_mbps * BUSY_AT_LIMIT)
            for each in slices
        )
        return self._carry(ends, *span) * 8e-6 >= needed

    def find_troubles(self, ends: Directed, span: Interval) -> list[tuple[Trouble, float]]:
        """What limited TCP in a span of time, each with the seconds, the longest first."""
        found: defaultdict[Trouble, float] = defaultdict(float)
        for each in self._cut(ends, span):
            if each.trouble is not None:
                found[each.trouble] += each.seconds
        return sorted(found.items(), key=lambda item: -item[1])

    def _cut(self, ends: Directed, span: Interval) -> Iterator[Slice]:
        since_ns = span[0] - REMEMBERED_S * 1e9
        troubles = [
            each
            for each in self._list_troubles(ends)
            if each.start_ns < span[1] and since_ns < each.end_ns
        ]
        length = max(1, span[1] - span[0]) / SLICES
        for number in range(SLICES):
            t_ns = round(span[0] + (number + 0.5) * length)
            spells = [self.conditions.spell(hop, t_ns) for hop in self._list_hops(ends)]
            mbps = min(0.0 if spell.is_cut else spell.link.rate_mbps for spell in spells)
            limits = [(self._limit_mbps(ends, each, t_ns), each) for each in troubles]
            least = min(limits, key=lambda limit: limit[0], default=(math.inf, None))
            trouble = least[1] if least[0] < mbps else None
            yield Slice(length / 1e9, mbps, least[0], trouble)

    def _list_troubles(self, ends: Directed) -> Iterator[Trouble]:
        for hop in self._list_hops(ends):
            usual_ms = self.conditions.topology.link(*hop).delay_ms
            for spell, end_ns in _list_spells(self.conditions.spells[hop]):
                if spell.link.loss_percent:
                    lost = spell.link.loss_percent
                    yield Trouble("loss", hop, spell.start_ns, end_ns, lost)
                if spell.link.delay_ms > usual_ms:
                    yield Trouble("delay", hop, spell.start_ns, end_ns, spell.link.delay_ms)

    def _limit_mbps(self, ends: Directed, trouble: Trouble, t_ns: int) -> float:
        """The most that TCP could carry at a time because of a trouble; infinite without limit."""
        if t_ns < trouble.start_ns:
            return math.inf
        trip_s = self._find_trip_s(ends, t_ns)
        if trouble.cause == "loss":
            window = self._find_lossy_window(ends, trouble, t_ns)
        else:
            window = self._find_late_window(ends, trouble, t_ns)
        return window * self._packet_bytes * 8e-6 / trip_s if trip_s else math.inf

    def _find_lossy_window(self, ends: Directed, trouble: Trouble, t_ns: int) -> float:
        """The window in packets during and after a time in which packets were lost.

        Meanwhile it is the larger one of Reno's and CUBIC's responses to that share of losses.
        """
        share = trouble.amount / 100
        trip_s = self._find_trip_s(ends, trouble.start_ns)
        lossy = max(math.sqrt(1.5 / share), 1.054 * math.pow(trip_s / share, 0.75))
        if t_ns < trouble.end_ns:
            return lossy
        losses = self._carry(ends, trouble.start_ns, trouble.end_ns) / self._packet_bytes * share
        if losses < LIKELY_LOSSES:
            return math.inf
        left = max(lossy, self._find_product(ends) * math.pow(KEPT, losses))
        return left + self._grow(ends, trouble.end_ns, t_ns)

    def _find_late_window(self, ends: Directed, trouble: Trouble, t_ns: int) -> float:
        """The window in packets during and after a time in which the delay was raised.

        Before it, the window filled the link and its queue.
        """
        usual_ms = self.conditions.topology.link(*trouble.hop).delay_ms
        timed_out = (trouble.amount - usual_ms) / 1e3 > SHORTEST_TIMER_S
        if t_ns < trouble.end_ns:
            before = 1.0 if timed_out else 2 * self._find_product(ends)
            return before + self._grow(ends, trouble.start_ns, t_ns)
        if not timed_out or not self._carry(ends, trouble.start_ns, trouble.end_ns):
            return math.inf
        return 1.0 + self._grow(ends, trouble.end_ns, t_ns)

    def _grow(self, ends: Directed, start_ns: float, end_ns: float) -> float:
        """By how many packets the window grew while the connection was in use."""
        used = union((each.start_ns, each.end_ns) for each in self.transfers.get(ends, ()))
        used_s = sum(max(0, min(end, end_ns) - max(start, start_ns)) for start, end in used) / 1e9
        trips = used_s / max(1e-6, self._find_trip_s(ends, int(end_ns)))
        return max(RENO_GAIN * trips, CUBIC * used_s**3)

    def _carry(self, ends: Directed, start_ns: float, end_ns: float) -> float:
        """The payload of a connection in a span of time in bytes; transfers are spread evenly."""
        total = 0.0
        for each in self.transfers.get(ends, ()):
            length = max(1, each.end_ns - each.start_ns)
            both = min(each.end_ns, end_ns) - max(each.start_ns, start_ns)
            total += each.bytes * max(0.0, both) / length
        return total

    def _find_product(self, ends: Directed) -> float:
        """The packets that fill the path in the scenario."""
        topology = self.conditions.topology
        rate_mbps = min(topology.link(*hop).rate_mbps for hop in self._list_hops(ends))
        trip_ms = topology.path_delay_ms(*ends) + topology.path_delay_ms(*reversed(ends))
        return rate_mbps * trip_ms * 1e3 / 8 / self._packet_bytes

    def _find_trip_s(self, ends: Directed, t_ns: int) -> float:
        hops = [*self._list_hops(ends), *self._list_hops((ends[1], ends[0]))]
        return sum(self.conditions.at(hop, t_ns).delay_ms for hop in hops) / 1e3

    def _list_hops(self, ends: Directed) -> tuple[Directed, ...]:
        return tuple(pairwise(self.conditions.topology.path(*ends)))

    @property
    def _packet_bytes(self) -> int:
        return self.mtu - TCP_IP_HEADER_BYTES


def _list_spells(spells: Sequence[Spell]) -> Iterator[tuple[Spell, float]]:
    """Each spell with its end."""
    yield from ((spell, after.start_ns) for spell, after in pairwise(spells))
    yield spells[-1], math.inf
