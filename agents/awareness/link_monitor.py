"""How a site measures its links by the chunks that cross them, and tells the controller.

What is measured about a link is known at its receiving end, or with acknowledgements at its sending
end; either way it goes to the controller, which plans with it
(`agents.awareness.measured_rates.MeasuredRates`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from trunkline.agents.awareness.clock_sync import CONTROLLER, SynchronizedClock
from trunkline.agents.awareness.estimators import ESTIMATORS, Estimator
from trunkline.agents.events import awareness_events
from trunkline.agents.events.event import Log
from trunkline.agents.planning.plan import Directed
from trunkline.agents.wire.agent_settings import Probing, WorkerSettings
from trunkline.agents.wire.framing import UNTIMED, Stamp
from trunkline.agents.wire.messages import (
    Arrived,
    Control,
    Measured,
    TimeReply,
    TimeRequest,
    TimeServer,
)


@dataclass(slots=True)
class Awareness:
    """Of one site: the `agents.wire.link.Timing` of its connections. Without `probing` it is idle.

    `tell` reaches a neighbour, `beat` all of them with a frame that is nearly empty, `report` the
    controller.
    """

    settings: WorkerSettings
    now_ns: Callable[[], int]
    tell: Callable[[str, Control], None]
    beat: Callable[[], None]
    report: Callable[[Control], None]
    log: Log
    _clock: SynchronizedClock = field(init=False)
    _estimators: dict[Directed, Estimator] = field(default_factory=dict)
    _latest: dict[Directed, Measured] = field(default_factory=dict)

    def __post_init__(self) -> None:
        probing = self.settings.probing
        period_s = probing.sync_s if probing else None
        clock, ask = self.settings.clock, self._ask
        self._clock = SynchronizedClock(clock, period_s, self.now_ns, ask, self.log)

    async def run(self) -> None:
        """Keep the clock right, until cancelled."""
        await self._clock.run()

    def pauses(self) -> None:
        """The site begins to compute: likely a moment without queues."""
        self._clock.ask()

    def stamp(self, now_ns: int) -> Stamp:
        """See `Timing`."""
        found = self._clock.stamp(now_ns) if self.settings.probing else None
        return found or UNTIMED

    def arrived(self, peer: str, sent: Stamp, size: int | None) -> None:
        """See `Timing`."""
        probing, site = self.settings.probing, self.settings.site
        if probing is None:
            return
        if probing.estimator != "round_trip":
            self._add(probing, (peer, site), sent, size or 0)
        elif size == 0 or (size or 0) > probing.chunk_bytes:
            self.tell(peer, Arrived(*sent, size or 0))

    def heard(self, frame: TimeServer | TimeReply) -> None:
        """The controller says something about the time."""
        if isinstance(frame, TimeServer):
            self._clock.server = frame.site
        else:
            self._answered(CONTROLLER, frame)

    def heard_from(self, peer: str, frame: Arrived | TimeRequest | TimeReply) -> None:
        """A neighbour says something about the time, or that a frame of this site has arrived."""
        match frame:
            case TimeRequest():
                self._clock.asked(peer, frame)
            case TimeReply():
                self._answered(peer, frame)
            case Arrived() if self.settings.probing is not None:
                link = self.settings.site, peer
                sent = Stamp(frame.sent_ns, frame.controller)
                self._add(self.settings.probing, link, sent, frame.size)

    def tell_all(self) -> None:
        """Whoever controls from now on has heard of nothing yet."""
        for found in self._latest.values():
            self.report(found)

    def _ask(self, server: str, message: Control) -> None:
        """Ask for the time, and let neighbours see how long an idle link takes.

        A link that is busy from its first chunk on would never show its propagation.
        """
        self.beat()
        if server == CONTROLLER:
            self.report(message)
        else:
            self.tell(server, message)

    def _answered(self, server: str, reply: TimeReply) -> None:
        """Another controller's time is another clock; all sites are about to follow it."""
        if ahead_ns := self._clock.answered(server, reply):
            for estimator in self._estimators.values():
                estimator.set_ahead(ahead_ns)

    def _add(self, probing: Probing, link: Directed, sent: Stamp, size: int) -> None:
        now = self._clock.stamp(self.now_ns())
        if now is None:
            return
        if link not in self._estimators:
            make = ESTIMATORS[probing.estimator]
            self._estimators[link] = make(probing.chunk_bytes, probing.count)
        if sent.controller != now.controller:  # whose clocks may be hours apart
            self._estimators[link].passed(now.time_ns)
            return
        found = self._estimators[link].add(sent.time_ns, now.time_ns, size)
        if found is None or not math.isfinite(found.rate_mbps):
            return
        rate_mbps = found.rate_mbps / probing.payload_share
        src, dst = link
        self._latest[link] = Measured(src, dst, rate_mbps)
        self.report(self._latest[link])
        measured = (found.chunks, found.bytes, found.least_delay_ms)
        self.log(awareness_events.RateMeasured, src, dst, rate_mbps, *measured)
