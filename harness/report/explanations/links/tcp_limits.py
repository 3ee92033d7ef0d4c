"""The limit of TCP while a link was cut, lost packets or was late, and afterwards (pure).

The log says how many packets TCP sent again, and no more. The rest is CUBIC's rule for a connection
that sends all the time:

- A link that loses packets leaves a window which depends on the share that is lost. TCP waits for
  its timer now and then.
- A raised delay, also of the way back, makes a window last for a longer round trip. If round trips
  grow by more than TCP's shortest timer, TCP takes packets for lost that are only late, and begins
  with a window of one.
- A link at a lower rate holds a window for so long that TCP takes its packets for lost, and begins
  with a window of one.
- A cut stops TCP, also one of the way back, where the acknowledgements are. If it is longer than
  that timer, TCP begins with a window of one, without transfers too: agents always send heartbeats.
- Afterwards the window grows from what was left, while the connection is in use. So a link is slow
  for seconds after it has its own values again.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise

from trunkline.agents.events.connection_events import LinkFound
from trunkline.agents.planning.plan import Directed
from trunkline.harness.network.interface import TCP_IP_HEADER_BYTES
from trunkline.harness.record.link_history import Conditions, Spell
from trunkline.harness.record.lives import Interval
from trunkline.harness.record.transfers import Transfer, union
from trunkline.harness.report.explanations.links.link_loads import BUSY
from trunkline.harness.report.explanations.links.resent_packets import ResentPackets
from trunkline.harness.report.explanations.links.troubles import Limitation, Slice, Trouble

LIKELY_LOSSES = 0.5
"""Losses explain a delay if at least this many packets are lost on average meanwhile."""

FEW_LOSSES = 3
"""TCP sends so many packets, and so many times the mean loss, again because they were lost.

If it sent more, a queue may have dropped them: that drops many at once.
"""

SHORTEST_TIMER_S = 0.2
"""TCP sends a packet again after the usual round trip and this time, in Linux."""

KEPT = 0.7
"""The share of CUBIC's window after a lost packet."""

CUBIC = 0.4
"""A window grows by this many packets times the cube of the seconds."""

RENO_GAIN = 3 * (1 - KEPT) / (1 + KEPT)
"""A window grows by at least so many packets in a round trip."""

REMEMBERED_S = 30.0
"""A trouble that ended so long before matters no more."""

REFUTED = 2.0
"""A connection that carried so many times what a small window allows had found its rate again."""

SLICES = 32
"""A span of time is looked at in so many equal parts."""

BUSY_AT_LIMIT = 0.5
"""A link was busy with this share of what TCP could carry, which is an estimate."""


@dataclass(frozen=True, slots=True)
class TcpLimits:
    """The transfers of each connection between sites, and the conditions of the links below.

    Attributes:
        made_ns: when two sites made their connection again.
        resent: how many packets TCP sent again.
    """

    conditions: Conditions
    mtu: int
    transfers: Mapping[Directed, Sequence[Transfer]]
    made_ns: Mapping[frozenset[str], Sequence[int]] = field(default_factory=dict)
    resent: ResentPackets = field(default_factory=ResentPackets)

    @classmethod
    def of(
        cls,
        transfers: Sequence[Transfer],
        conditions: Conditions,
        mtu: int,
        made: Iterable[LinkFound] = (),
        resent: ResentPackets | None = None,
    ) -> TcpLimits:
        """The limits of all connections that made these transfers."""
        found: defaultdict[Directed, list[Transfer]] = defaultdict(list)
        for each in transfers:
            found[each.src, each.dst].append(each)
        made_ns: defaultdict[frozenset[str], list[int]] = defaultdict(list)
        for event in made:
            made_ns[frozenset({event.site, event.peer})].append(event.t_ns)
        return cls(conditions, mtu, dict(found), dict(made_ns), resent or ResentPackets())

    def was_full(self, ends: Directed, span: Interval) -> bool:
        """Whether a connection with a limit carried about what TCP could, and so never waited."""
        troubles = self._list_likely(ends, span)
        earlier = [e for e in troubles if e.cause != "outage" or e.silent_ns <= span[0]]
        slices = list(self._cut(ends, span, earlier))
        if all(each.trouble is None for each in slices):
            return False
        needed = sum(
            each.seconds * each.mbps * BUSY
            if each.trouble is None
            else each.seconds * min(each.mbps * BUSY, each.tcp_mbps * BUSY_AT_LIMIT)
            for each in slices
        )
        return self._carry(ends, *span) * 8e-6 >= needed

    def find_troubles(self, ends: Directed, span: Interval) -> list[Limitation]:
        """The limits of TCP in a span of time, the longest first."""
        found: defaultdict[Trouble, list[Slice]] = defaultdict(list)
        for each in self._cut(ends, span, self._list_likely(ends, span)):
            if each.trouble is not None:
                found[each.trouble].append(each)
        made = (
            Limitation(trouble, sum(e.seconds for e in slices), sum(e.due_s for e in slices))
            for trouble, slices in found.items()
        )
        return sorted(made, key=lambda each: -each.seconds)

    def find_losses(self, ends: Directed, span: Interval) -> Trouble | None:
        """The link that lost most packets in a span of time; None if it was probably none."""
        losses = [each for each in self._list_troubles(ends) if each.cause == "loss"]
        most = max(losses, key=lambda each: self._count_lost(ends, each, span), default=None)
        return None if most is None or self._has_hardly_lost(ends, most, span) else most

    def find_sure_losses(self, ends: Directed, span: Interval) -> Trouble | None:
        """The link that lost packets in a span of time for sure; None if that is not known.

        TCP sent some again on a lossy way, and not as many as a queue drops.
        """
        return None if self.resent.find(ends, span) is None else self.find_losses(ends, span)

    def find_acting(self, ends: Directed, span: Interval) -> Trouble | None:
        """The last cut, or longer delay, of a way or the way back in a span of time."""
        acting = [
            each
            for each in self._list_troubles(ends)
            if each.cause in ("delay", "outage")
            and each.start_ns < span[1]
            and span[0] < each.end_ns
        ]
        return max(acting, key=lambda each: each.start_ns, default=None)

    def find_after_effect(self, ends: Directed, span: Interval) -> Trouble | None:
        """The last trouble before a span of time that made TCP send packets again.

        It left a small window, which may be smaller than estimated.
        """
        over = (e for e in self._list_recent(ends, span) if e.end_ns <= span[0])
        return max(
            (each for each in over if self._has_hurt(ends, each, span[0])),
            key=lambda each: each.end_ns,
            default=None,
        )

    def _has_hurt(self, ends: Directed, trouble: Trouble, until_ns: int) -> bool:
        """Whether TCP lost packets by a trouble, or took them for lost."""
        resent = self.resent.find(ends, (trouble.start_ns, until_ns))
        if resent is not None and not resent.count:
            return False
        if trouble.cause == "loss":
            return not self._is_harmless(ends, trouble, (trouble.start_ns, until_ns))
        return self._limit_mbps(ends, trouble, round(trouble.end_ns)) < math.inf

    def find_lossy(self, ends: Directed, span: Interval) -> Trouble | None:
        """The link that loses most of its packets in a span of time, if one may have lost some."""
        resent = self.resent.find(ends, span)
        if resent is not None and not resent.count:
            return None
        losses = (
            each
            for each in self._list_troubles(ends)
            if each.cause == "loss" and each.start_ns < span[1] and span[0] < each.end_ns
        )
        return max(losses, key=lambda each: each.amount, default=None)

    def _cut(self, ends: Directed, span: Interval, troubles: Sequence[Trouble]) -> Iterator[Slice]:
        for t_ns, seconds in _list_slices(span):
            spells = [self.conditions.spell(hop, t_ns) for hop in self._list_hops(ends)]
            mbps = min(0.0 if spell.is_cut else spell.link.rate_mbps for spell in spells)
            limits = [(self._limit_mbps(ends, each, t_ns), each) for each in troubles]
            # one that acts counts, and not what an earlier one may have left, which is an estimate
            acting = [each for limit, each in limits if each.is_at(t_ns) and limit < mbps]
            if acting:
                limits = [limit for limit in limits if limit[1].end_ns > span[0]]
            # of cuts that left the same window, the latest (in ms) counts
            tcp_mbps, worst = min(
                limits,
                key=lambda limit: (round(limit[0], 3), -(min(limit[1].end_ns, t_ns) // 1e6)),
                default=(math.inf, None),
            )
            trouble = worst if tcp_mbps < mbps else None
            half_ns = seconds * 5e8
            carried = self._carry(ends, t_ns - half_ns, t_ns + half_ns) if trouble else 0.0
            yield Slice(seconds, mbps, tcp_mbps, trouble, carried * 8e-6)

    def _list_likely(self, ends: Directed, span: Interval) -> list[Trouble]:
        """The possible limits of the connection of two sites in a span of time."""
        return [
            each
            for each in self._list_recent(ends, span)
            if not self._is_refuted(ends, each, span) and not self._is_harmless(ends, each, span)
        ]

    def _list_recent(self, ends: Directed, span: Interval) -> Iterator[Trouble]:
        """What a connection may have suffered from in a span of time, and not long before."""
        made_ns = (t for t in self.made_ns.get(frozenset(ends), ()) if t <= span[0])
        since_ns = max(span[0] - REMEMBERED_S * 1e9, *made_ns, 0)
        for each in self._list_troubles(ends):
            if each.start_ns < span[1] and since_ns < each.end_ns:
                yield each

    def _is_refuted(self, ends: Directed, trouble: Trouble, span: Interval) -> bool:
        """Whether TCP carried too much in a span of time for the window that a cut leaves."""
        if trouble.cause not in ("outage", "slowdown") or trouble.silent_ns > span[0]:
            return False
        slices = _list_slices(span)
        most = sum(self._limit_mbps(ends, trouble, t_ns) * seconds for t_ns, seconds in slices)
        return self._carry(ends, *span) * 8e-6 > REFUTED * most

    def _is_harmless(self, ends: Directed, trouble: Trouble, span: Interval) -> bool:
        """Whether a lossy link probably lost no packet of a connection.

        If it loses packets until the end of a span of time, only those in this time count.
        """
        if trouble.cause != "loss":
            return False
        start_ns = span[0] if trouble.end_ns >= span[1] else trouble.start_ns
        return self._has_hardly_lost(ends, trouble, (start_ns, span[1]))

    def _has_hardly_lost(self, ends: Directed, trouble: Trouble, span: Interval) -> bool:
        """Whether a lossy link probably lost no packet of a connection in a span of time."""
        mean, resent = self._count_lost(ends, trouble, span), self.resent.find(ends, span)
        if resent is None:
            return mean < LIKELY_LOSSES
        most = FEW_LOSSES * (1 + self._count_lost(ends, trouble, resent.span))
        return not mean or not 0 < resent.count <= most

    def _list_troubles(self, ends: Directed) -> Iterator[Trouble]:
        for hop in self._list_hops(ends):
            spells = self.conditions.spells[hop]
            for lost, start_ns, end_ns in _merge(spells, lambda spell: spell.link.lost_percent):
                if lost:
                    yield Trouble("loss", hop, start_ns, end_ns, lost)
            for rate_mbps, start_ns, end_ns in _merge(spells, lambda spell: spell.link.rate_mbps):
                if self._times_out(ends, rate_mbps) and self._carry(ends, start_ns, end_ns):
                    yield Trouble("slowdown", hop, start_ns, end_ns, rate_mbps)
        for hop in (*self._list_hops(ends), *self._list_hops(ends[::-1])):
            usual_ms = self.conditions.topology.link(*hop).delay_ms
            spells = self.conditions.spells[hop]
            for delay_ms, start_ns, end_ns in _merge(spells, lambda spell: spell.link.delay_ms):
                if delay_ms > usual_ms:
                    yield Trouble("delay", hop, start_ns, end_ns, delay_ms)
            for lost, start_ns, end_ns in _merge(spells, _count_cut):
                if lost:
                    yield Trouble("outage", hop, start_ns, end_ns, lost)

    def _limit_mbps(self, ends: Directed, trouble: Trouble, t_ns: int) -> float:
        """The most that TCP could carry at a time because of a trouble; infinite without limit."""
        if t_ns < trouble.start_ns:
            return math.inf
        if trouble.cause == "outage" and t_ns < trouble.end_ns:
            return 0.0
        if trouble.cause == "slowdown" and t_ns < trouble.end_ns:
            return math.inf  # its rate is that of the link
        trip_s = self.find_trip_s(ends, t_ns)
        if trouble.cause == "slowdown":
            window = 1.0 + self._grow(ends, trouble.end_ns, t_ns)
        elif trouble.cause == "loss":
            window = self._find_lossy_window(ends, trouble, t_ns)
        elif trouble.cause == "outage":
            grown = self._grow(ends, trouble.end_ns, t_ns) if t_ns >= trouble.silent_ns else 0.0
            window = 1.0 + grown if self._is_silenced(ends, trouble) else math.inf
        else:
            window = self._find_late_window(ends, trouble, t_ns)
        return window * self._packet_bytes * 8e-6 / trip_s if trip_s else math.inf

    def _is_silenced(self, ends: Directed, cut: Trouble) -> bool:
        """Whether a cut made TCP's timer go off: it was as long, or took all packets of a window.

        Heartbeats are lost in a long cut; in a shorter one, only what a transfer sends meanwhile.
        """
        length_s = (cut.end_ns - cut.start_ns) / 1e9
        if length_s > SHORTEST_TIMER_S:
            return True
        is_long = length_s >= self.find_trip_s(ends, cut.start_ns)
        return is_long and self._carry(ends, cut.start_ns - length_s * 1e9, cut.end_ns) > 0

    def _times_out(self, ends: Directed, rate_mbps: float) -> bool:
        """Whether a lower rate holds up a window for longer than TCP's shortest timer."""
        window = self._find_product(ends) * self._packet_bytes * 8e-6
        usual_mbps = self._find_rate_mbps(ends)
        return window / max(rate_mbps, 1e-6) - window / usual_mbps > SHORTEST_TIMER_S

    def _find_lossy_window(self, ends: Directed, trouble: Trouble, t_ns: int) -> float:
        """The window in packets during and after a time in which packets were lost.

        Meanwhile it is the larger one of Reno's and CUBIC's responses to that share of losses, less
        what TCP does not send while it waits for its timer (Padhye et al. 1998; RFC 5348, 3.1).
        """
        share = trouble.amount / 100
        trip_s = self.find_trip_s(ends, trouble.start_ns)
        lossy = max(math.sqrt(1.5 / share), 1.054 * math.pow(trip_s / share, 0.75))
        if t_ns < trouble.end_ns:
            timed_out = share * min(1.0, 3 * math.sqrt(3 * share / 8)) * (1 + 32 * share**2)
            wait_s = timed_out * (trip_s + SHORTEST_TIMER_S)
            return trip_s / (trip_s / lossy + wait_s)
        losses = self._count_lost(ends, trouble, (trouble.start_ns, t_ns))
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
        trips = used_s / max(1e-6, self.find_trip_s(ends, int(end_ns)))
        return max(RENO_GAIN * trips, CUBIC * used_s**3)

    def _carry(self, ends: Directed, start_ns: float, end_ns: float) -> float:
        """The payload of a connection in a span of time in bytes; transfers are spread evenly."""
        total = 0.0
        for each in self.transfers.get(ends, ()):
            length = max(1, each.end_ns - each.start_ns)
            both = min(each.end_ns, end_ns) - max(each.start_ns, start_ns)
            total += each.bytes * max(0.0, both) / length
        return total

    def _count_lost(self, ends: Directed, trouble: Trouble, span: Interval) -> float:
        """The packets of a connection that a trouble lost in a span of time, on average."""
        meanwhile = max(span[0], trouble.start_ns), min(span[1], trouble.end_ns)
        return self._carry(ends, *meanwhile) / self._packet_bytes * trouble.amount / 100

    def _find_product(self, ends: Directed) -> float:
        """The packets that fill the path in the scenario."""
        topology = self.conditions.topology
        trip_ms = topology.path_delay_ms(*ends) + topology.path_delay_ms(*reversed(ends))
        return self._find_rate_mbps(ends) * trip_ms * 1e3 / 8 / self._packet_bytes

    def _find_rate_mbps(self, ends: Directed) -> float:
        """The rate of the path in the scenario."""
        return self.conditions.topology.overlay.link(*ends).rate_mbps

    def find_trip_s(self, ends: Directed, t_ns: int) -> float:
        """The round trip of two sites at a time, without queues."""
        hops = [*self._list_hops(ends), *self._list_hops((ends[1], ends[0]))]
        return sum(self.conditions.at(hop, t_ns).delay_ms for hop in hops) / 1e3

    def _list_hops(self, ends: Directed) -> tuple[Directed, ...]:
        return tuple(pairwise(self.conditions.topology.path(*ends)))

    @property
    def _packet_bytes(self) -> int:
        return self.mtu - TCP_IP_HEADER_BYTES


def _list_slices(span: Interval) -> Iterator[tuple[int, float]]:
    """The middle of each slice of a span of time, and its length in seconds."""
    length = max(1, span[1] - span[0]) / SLICES
    for number in range(SLICES):
        yield round(span[0] + (number + 0.5) * length), length / 1e9


def _count_cut(spell: Spell) -> float:
    """The share of packets that a cut loses, in %; 0 without a cut."""
    return 100.0 * spell.is_cut


def _merge(
    spells: Sequence[Spell], value: Callable[[Spell], float]
) -> Iterator[tuple[float, int, float]]:
    """A value of a link with its start and end; changes of other values do not divide this time."""
    found = [(each, next(same).start_ns) for each, same in groupby(spells, value)]
    ends_ns = [*(start_ns for _, start_ns in found[1:]), math.inf]
    for (each, start_ns), end_ns in zip(found, ends_ns, strict=True):
        yield each, start_ns, end_ns
