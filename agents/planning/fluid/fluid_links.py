"""How chunks cross the links of the fluid model (pure).

In a network with routers, an overlay link is a path of links that others use as well. All overlay
links that send at a time get max-min fair rates.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

from trunkline.agents.planning.auxiliary_paths import Bounds, PathQueues, find_disjoint_paths
from trunkline.agents.planning.disciplines import DISCIPLINES, Flow, Queue
from trunkline.agents.planning.fluid.agenda import Agenda
from trunkline.agents.planning.fluid.fair_shares import compute_fair_rates
from trunkline.agents.planning.fluid.fluid_tasks import FluidChunk, Offer, RunningTask
from trunkline.agents.planning.plan import Directed, Edge

Paths: TypeAlias = Mapping[Directed, Sequence[Directed]]

LAST_BITS = 1e-3
"""A chunk with less to send is done: that much may be left by rounding."""


@dataclass(slots=True)
class FluidLinks:
    """The links of an overlay, which send chunks to the ends of their edges.

    Attributes:
        rates_mbps: the rate of each link of the overlay, or of the `paths`; `set_rates` changes it.
        delays_ms: the one-way delay of each link of the overlay.
        discipline: the order in which a link serves its flows, a name in `DISCIPLINES`.
        auxiliary: the bounds of auxiliary paths; None without such paths.
        paths: the links of each overlay link; None if overlay links share nothing.
        arrived: called with each chunk at the end of its edge.
        relayed: the chunks that wait at a relay, by task, block, edge and number of hops.
        shared: with `paths`, what overlay links send now.
        sent: called with each link and chunk, and when the chunk began to be sent and was sent.
    """

    agenda: Agenda
    rates_mbps: Mapping[Directed, float]
    delays_ms: Mapping[Directed, float]
    discipline: str = "fcfs"
    auxiliary: Bounds | None = None
    paths: Paths | None = None
    arrived: Callable[[FluidChunk], None] = field(init=False)
    queues: dict[Directed, Queue[FluidChunk]] = field(default_factory=dict)
    busy: set[Directed] = field(default_factory=set)
    relayed: dict[tuple[RunningTask | Offer, int | None, Edge, int], list[FluidChunk]] = field(
        default_factory=dict
    )
    path_queues: PathQueues[FluidChunk, FluidChunk] = field(init=False)
    shared: _SharedPaths | None = field(init=False)
    sent: Callable[[Directed, FluidChunk, float, float], None] | None = None

    def __post_init__(self) -> None:
        self.path_queues = PathQueues(self.auxiliary or Bounds(), self._take_path)
        self.shared = None
        if self.paths is not None:
            self.shared = _SharedPaths(self.agenda, self.paths, self.rates_mbps, self._finish)
        if self.auxiliary is not None:
            self.set_known_rates(self.link_rates_mbps())

    def set_rates(self, rates_mbps: Mapping[Directed, float]) -> None:
        """Change the rates of all links.

        A chunk that is being sent keeps its old rate; with `paths`, until another chunk begins or
        ends.
        """
        self.rates_mbps = rates_mbps
        if self.shared is not None:
            self.shared.rates_mbps = rates_mbps

    def link_rates_mbps(self) -> Mapping[Directed, float]:
        """The rate of each overlay link that sends alone."""
        if self.paths is None:
            return self.rates_mbps
        return {
            link: min(self.rates_mbps[hop] for hop in path) for link, path in self.paths.items()
        }

    def set_known_rates(self, rates_mbps: Mapping[Directed, float]) -> None:
        """Let sites choose auxiliary paths by these rates from now on."""
        if self.auxiliary is not None:
            sites = sorted({site for link in rates_mbps for site in link})
            self.path_queues.switch(
                find_disjoint_paths(itertools.permutations(sites, 2), rates_mbps)
            )

    def send(self, chunk: FluidChunk) -> None:
        """Send a chunk to the next site of its task, along its edge or an auxiliary path."""
        if self.auxiliary is None:
            self.queue(chunk)
        else:
            self.path_queues.put(chunk.edge, chunk, chunk)

    def queue(self, chunk: FluidChunk) -> None:
        """Queue a chunk for the next hop of its edge."""
        link = chunk.link
        if link not in self.queues:
            self.queues[link] = Queue(DISCIPLINES[self.discipline])
        self.queues[link].push(chunk, chunk.flow)
        if link not in self.busy:
            self.busy.add(link)
            self._serve(link)

    def drop(self, site: str, unwanted: Callable[[FluidChunk], bool]) -> None:
        """Remove the unwanted chunks from the queues of the site that sends them."""
        for link, queue in self.queues.items():
            if link[0] == site:
                queue.drop(unwanted)

    def forget(self, flows: Collection[Flow]) -> None:
        """Remove these flows from all queues."""
        for queue in self.queues.values():
            queue.forget(flows)

    def _take_path(self, path: Edge, chunk: FluidChunk) -> None:
        chunk.primary, chunk.edge = path == chunk.edge, path
        self.queue(chunk)

    def _serve(self, link: Directed) -> None:
        """Let a link send its next chunk."""
        chunk = self.queues[link].pop()
        if chunk is None:
            self.busy.remove(link)
        elif self.shared is not None:
            self.shared.begin(link, chunk)
        else:
            done_s = self.agenda.now_s + chunk.size_bytes * 8e-6 / self.rates_mbps[link]
            if self._leaves_primary(chunk):
                self.agenda.call_at(done_s, partial(self.path_queues.release, chunk))
            self._plan_arrival(link, chunk, self.agenda.now_s, done_s)

    def _finish(self, link: Directed, chunk: FluidChunk, begun_s: float) -> None:
        """Go on when a link that shares its path has sent a chunk."""
        if self._leaves_primary(chunk):
            self.path_queues.release(chunk)
        self._plan_arrival(link, chunk, begun_s, self.agenda.now_s)

    def _leaves_primary(self, chunk: FluidChunk) -> bool:
        """Whether this chunk no longer counts on its primary path once it has been sent."""
        return self.auxiliary is not None and chunk.primary and not chunk.hops

    def _plan_arrival(
        self, link: Directed, chunk: FluidChunk, begun_s: float, sent_s: float
    ) -> None:
        """Serve the link again when it has sent the chunk, which arrives a delay later."""
        if self.sent is not None:
            self.sent(link, chunk, begun_s, sent_s)
        self.agenda.call_at(sent_s, partial(self._serve, link))
        arrives_s = sent_s + self.delays_ms.get(link, 0.0) / 1e3
        self.agenda.call_at(arrives_s, partial(self._arrive, chunk))

    def _arrive(self, chunk: FluidChunk) -> None:
        chunk.hops += 1
        if chunk.hops + 1 < len(chunk.edge):
            self._relay(chunk)
            return
        if not chunk.primary:
            self.path_queues.release(chunk)
        self.arrived(chunk)

    def _relay(self, chunk: FluidChunk) -> None:
        """Queue a chunk for its next hop, with those that wait, unless it has to wait itself."""
        stream = chunk.of, chunk.block, chunk.edge, chunk.hops
        self.relayed.setdefault(stream, []).append(chunk)
        if not chunk.more:
            for each in self.relayed.pop(stream):
                self.queue(each)


@dataclass(slots=True)
class _Sending:
    """A chunk that an overlay link sends, with the bits that have not left yet."""

    chunk: FluidChunk
    bits: float
    begun_s: float
    rate_mbps: float = 0.0


@dataclass(slots=True)
class _SharedPaths:
    """The overlay links that send now, each at its max-min fair rate.

    Attributes:
        finished: called when a link has sent a chunk, with the time at which it began.
        sending: the chunk that each overlay link sends.
        counted_s: when the bits in `sending` were counted.
        shares: how often rates were shared.
        pending: whether rates are shared again before time passes.
        fair_mbps: the fair rates of those that sent when they were last computed.
        fair_of: the rates of links by which they were computed.
    """

    agenda: Agenda
    paths: Paths
    rates_mbps: Mapping[Directed, float]
    finished: Callable[[Directed, FluidChunk, float], None]
    sending: dict[Directed, _Sending] = field(default_factory=dict)
    counted_s: float = 0.0
    shares: int = 0
    pending: bool = False
    fair_mbps: dict[Directed, float] = field(default_factory=dict)
    fair_of: Mapping[Directed, float] | None = None

    def begin(self, link: Directed, chunk: FluidChunk) -> None:
        """Let a link send a chunk."""
        self._drain()
        self.sending[link] = _Sending(chunk, chunk.size_bytes * 8.0, self.agenda.now_s)
        self._plan_share()

    def _drain(self) -> None:
        """Count the bits that have left since the last time."""
        if self.agenda.now_s == self.counted_s:
            return
        for each in self.sending.values():
            each.bits -= each.rate_mbps * 1e6 * (self.agenda.now_s - self.counted_s)
        self.counted_s = self.agenda.now_s

    def _plan_share(self) -> None:
        """Share the rates once for all that begins and ends now."""
        if not self.pending:
            self.pending = True
            self.agenda.call_at(self.agenda.now_s, self._share)

    def _share(self) -> None:
        """Give all overlay links that send their fair rates, and plan when the next one is done."""
        self.pending = False
        if self.fair_of is not self.rates_mbps or self.fair_mbps.keys() != self.sending.keys():
            active = {link: self.paths[link] for link in self.sending}
            self.fair_mbps = compute_fair_rates(active, self.rates_mbps)
            self.fair_of = self.rates_mbps
        for link, each in self.sending.items():
            each.rate_mbps = self.fair_mbps[link]
        self.shares += 1
        if self.sending:
            left_s = min(each.bits / each.rate_mbps for each in self.sending.values()) / 1e6
            done = partial(self._finish_sent, self.shares)
            self.agenda.call_at(self.agenda.now_s + max(0.0, left_s), done)

    def _finish_sent(self, shares: int) -> None:
        """Finish the chunks of which all bits have left.

        Does nothing if the rates have changed since this was planned, after so many `shares`.
        """
        if shares != self.shares:
            return
        self._drain()
        done = [link for link, each in self.sending.items() if each.bits < LAST_BITS]
        for link in done:
            sent = self.sending.pop(link)
            self.finished(link, sent.chunk, sent.begun_s)
        self._plan_share()
