"""Clock synchronization between sites over the links of the overlay (NetStorm, Section V).

The roots ask the controller for the time, which answers by its own site's clock. Every other site
periodically asks its parent in the tree of fastest paths, over the link between them. A site that
does not know the time yet does not answer. Only the stamps of awareness use these clocks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from trunkline.agents.events import awareness_events
from trunkline.agents.events.event import CONTROLLER, Log
from trunkline.agents.planning.plan import Directed, PlanError
from trunkline.agents.planning.trees import compute_delay, grow_shortest
from trunkline.agents.timing.site_clock import Correction, Exchange, SiteClock
from trunkline.agents.wire.framing import Stamp
from trunkline.agents.wire.messages import Control, TimeReply, TimeRequest, TimeServer

FIRST_EXCHANGES, FIRST_PAUSE_S = 4, 0.1
"""How many exchanges a site makes first in quick succession, and the pause between them."""


def choose_servers(rates_mbps: Mapping[Directed, float], roots: int) -> dict[str, str]:
    """The time server of every site of a connected overlay, as {site: server}.

    The roots have the fastest paths to all sites (the least sums of 1 / rate), like the roots of
    fastest aggregation path trees. Other sites ask the next site on the path to their nearest root.
    Raises PlanError if the links do not connect all sites.
    """
    weights = {link: 1.0 / rate for link, rate in rates_mbps.items()}
    sites = sorted({site for link in weights for site in link})
    ranked = sorted(sites, key=lambda site: compute_delay(grow_shortest(site, weights), weights))
    asked = {(site, CONTROLLER): 0.0 for site in ranked[:roots]}
    return grow_shortest(CONTROLLER, weights | asked)


@dataclass(slots=True)
class TimeService:
    """The controller's part: it assigns a time server to every site and answers the roots."""

    clock: SiteClock
    roots: int
    rank: int
    now_ns: Callable[[], int]
    tell: Callable[[str, Control], None]
    log: Log
    _servers: dict[str, str] = field(default_factory=dict)

    def refresh(self, present: Collection[str], usable_mbps: Mapping[Directed, float]) -> None:
        """Assign servers over the usable links, and tell the sites whose server has changed."""
        self._servers = {site: asked for site, asked in self._servers.items() if site in present}
        if not self.roots or not usable_mbps:
            return
        try:
            found = choose_servers(usable_mbps, self.roots)
        except PlanError:  # some sites are cut off: keep the servers until the links are back
            return
        changed = {site: found[site] for site in found if self._servers.get(site) != found[site]}
        for site in sorted(changed):
            self.tell(site, TimeServer(changed[site]))
        self._servers |= changed
        if changed:
            self.log(awareness_events.TimeServed, servers=changed)

    def answer(self, site: str, request: TimeRequest) -> None:
        """Answer a root's request."""
        time_ns = self.clock.read_ns(self.now_ns())
        self.tell(site, TimeReply(request.asked_ns, time_ns, time_ns, self.rank, 0))


@dataclass(slots=True)
class SynchronizedClock:
    """A site's clock, synchronized every `period_s`; with None it stays as it is.

    `server` is the site to ask for the time. `tell` sends to a neighbour, or to the controller in
    charge under the name `CONTROLLER`.
    """

    clock: SiteClock
    period_s: float | None
    now_ns: Callable[[], int]
    tell: Callable[[str, Control], None]
    log: Log
    server: str | None = None
    _correction: Correction = field(default_factory=Correction)
    _controller: int = 0

    def stamp(self, now_ns: int) -> Stamp | None:
        """The synchronized time at `now_ns`, with the rank of the controller that it follows.

        None if this site does not know the time yet.
        """
        own_ns = self.clock.read_ns(now_ns)
        if self.period_s is None:
            return Stamp(own_ns, self._controller)
        if not self._correction.exchanges:
            return None
        return Stamp(own_ns + self._correction.at_ns(own_ns), self._controller)

    async def run(self) -> None:
        """Ask for the time periodically until cancelled."""
        while self.period_s is not None:
            self.ask()
            begins = self._correction.exchanges < FIRST_EXCHANGES
            await asyncio.sleep(min(FIRST_PAUSE_S, self.period_s) if begins else self.period_s)

    def ask(self) -> None:
        """Ask for the time once, if this site has a server."""
        if self.period_s is not None and self.server is not None:
            self.tell(self.server, TimeRequest(self.clock.read_ns(self.now_ns())))

    def on_request(self, peer: str, request: TimeRequest) -> None:
        """Answer a neighbour's request, if this site knows the time."""
        stamp, distance_ns = self.stamp(self.now_ns()), self._correction.distance_ns
        if stamp is not None and distance_ns is not None:
            known = stamp.time_ns, stamp.time_ns, stamp.controller, distance_ns
            self.tell(peer, TimeReply(request.asked_ns, *known))

    def on_reply(self, peer: str, reply: TimeReply) -> int:
        """Correct the clock by an answer; another controller's time replaces all earlier ones.

        Returns by how many nanoseconds a change of the controller has set this clock ahead.
        """
        if peer != self.server:
            return 0
        now_ns = self.now_ns()
        own_ns = self.clock.read_ns(now_ns)
        before_ns = self._correction.at_ns(own_ns) if self._correction.exchanges else None
        begins = reply.controller != self._controller
        if begins:
            self._correction, self._controller = Correction(), reply.controller
        exchange = Exchange(
            reply.asked_ns, reply.received_ns, reply.replied_ns, own_ns, reply.distance_ns
        )
        self._correction.add(exchange)
        after_ns = self._correction.at_ns(own_ns)
        self.log(
            awareness_events.ClockSynchronized,
            server=peer,
            controller=reply.controller,
            delay_ms=exchange.delay_ns / 1e6,
            before_ns=before_ns,
            correction_ns=after_ns,
        )
        return after_ns - before_ns if begins and before_ns is not None else 0
