"""Clocks of sites kept alike over the overlay's own links (NetStorm, Section V).

The controller gives the time to the roots, by its own site's clock. Every other site asks its
parent in the tree of fastest paths, over the link between them, again and again; who does not know
the time yet does not answer. Only what awareness stamps goes by these clocks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from trunkline.agents.events import awareness_events
from trunkline.agents.events.event import Log
from trunkline.agents.planning.plan import Directed, PlanError
from trunkline.agents.planning.trees import compute_delay, grow_shortest
from trunkline.agents.wire.framing import Stamp
from trunkline.agents.wire.messages import Control, TimeReply, TimeRequest, TimeServer
from trunkline.agents.wire.site_clock import Correction, Exchange, SiteClock

CONTROLLER = "controller"
"""Stands for whoever controls among those who are asked for the time."""

FIRST_EXCHANGES, FIRST_PAUSE_S = 4, 0.1
"""So many exchanges begin with a server, so far apart."""


def servers(rates_mbps: Mapping[Directed, float], roots: int) -> dict[str, str]:
    """Whom every site of a connected overlay asks for the time.

    The roots are the best sites by the paths of least summed 1 / rate to them, as those of the
    fastest aggregation path trees; the others ask their parents on the paths to the nearest root.
    """
    weights = {link: 1.0 / rate for link, rate in rates_mbps.items()}
    sites = sorted({site for link in weights for site in link})
    ranked = sorted(sites, key=lambda site: compute_delay(grow_shortest(site, weights), weights))
    asked = {(site, CONTROLLER): 0.0 for site in ranked[:roots]}
    return grow_shortest(CONTROLLER, weights | asked)


@dataclass(slots=True)
class TimeService:
    """The controller's part: tells everybody whom to ask, and answers the roots."""

    clock: SiteClock
    roots: int
    rank: int
    now_ns: Callable[[], int]
    tell: Callable[[str, Control], None]
    log: Log
    _told: dict[str, str] = field(default_factory=dict)

    def refresh(self, present: Collection[str], usable_mbps: Mapping[Directed, float]) -> None:
        """These sites can be reached, and these links used: tell whoever is to ask another."""
        self._told = {site: asked for site, asked in self._told.items() if site in present}
        if not self.roots or not usable_mbps:
            return
        try:
            found = servers(usable_mbps, self.roots)
        except PlanError:  # the links do not connect all: whoever is cut off has nobody to ask
            return
        changed = {site: found[site] for site in found if self._told.get(site) != found[site]}
        for site in sorted(changed):
            self.tell(site, TimeServer(changed[site]))
        self._told |= changed
        if changed:
            self.log(awareness_events.TimeServed, servers=changed)

    def answer(self, site: str, request: TimeRequest) -> None:
        """A root asks."""
        time_ns = self.clock.read_ns(self.now_ns())
        self.tell(site, TimeReply(request.asked_ns, time_ns, time_ns, self.rank, 0))


@dataclass(slots=True)
class SynchronizedClock:
    """A site's clock. With `period_s` None nobody sets it right.

    `tell` reaches neighbours and, as `CONTROLLER`, whoever controls.
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
        """What it takes a true time for, and whose time that is; None until somebody tells it."""
        own_ns = self.clock.read_ns(now_ns)
        if self.period_s is None:
            return Stamp(own_ns, self._controller)
        if not self._correction.exchanges:
            return None
        return Stamp(own_ns + self._correction.at_ns(own_ns), self._controller)

    async def run(self) -> None:
        """Ask again and again, until cancelled."""
        while self.period_s is not None:
            self.ask()
            begins = self._correction.exchanges < FIRST_EXCHANGES
            await asyncio.sleep(min(FIRST_PAUSE_S, self.period_s) if begins else self.period_s)

    def ask(self) -> None:
        """Ask once, if there is whom to ask."""
        if self.period_s is not None and self.server is not None:
            self.tell(self.server, TimeRequest(self.clock.read_ns(self.now_ns())))

    def asked(self, peer: str, request: TimeRequest) -> None:
        """A neighbour asks."""
        stamp, distance_ns = self.stamp(self.now_ns()), self._correction.distance_ns
        if stamp is not None and distance_ns is not None:
            known = stamp.time_ns, stamp.time_ns, stamp.controller, distance_ns
            self.tell(peer, TimeReply(request.asked_ns, *known))

    def answered(self, peer: str, reply: TimeReply) -> int:
        """Whoever was asked tells the time; that of another controller begins a new line.

        Returns by how many nanoseconds that sets this clock ahead (0 by the same controller's).
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
