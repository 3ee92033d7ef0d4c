"""Measures a site's links from the chunks that cross them, and reports to the controller.

A link is measured at its receiving end, or with acknowledgements at its sending end. Either way the
rate goes to the controller, which plans with it (`agents.awareness.measured_rates.MeasuredRates`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from trunkline.agents.awareness.clock_sync import SynchronizedClock
from trunkline.agents.awareness.estimators import ESTIMATORS, Estimator
from trunkline.agents.events import awareness_events
from trunkline.agents.events.event import CONTROLLER, Log
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
    """One site's awareness: the `agents.wire.link.Timing` of all of its connections.

    `tell` sends to a neighbour, `beat` sends a heartbeat to all of them, and `report` sends to the
    controller. Without `probing` in the settings, nothing is measured.
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
        """Keep the clock synchronized until cancelled."""
        await self._clock.run()

    def on_compute_started(self) -> None:
        """Ask for the time: the site begins to compute, so queues are likely empty."""
        self._clock.ask()

    def stamp(self, now_ns: int) -> Stamp:
        """See `Timing`."""
        found = self._clock.stamp(now_ns) if self.settings.probing else None
        return found or UNTIMED

    def on_arrived(self, peer: str, sent: Stamp, size: int | None) -> None:
        """See `Timing`."""
        probing, site = self.settings.probing, self.settings.site
        if probing is None:
            return
        if probing.estimator != "round_trip":
            self._add(probing, (peer, site), sent, size or 0)
        elif size == 0 or (size or 0) > probing.chunk_bytes:
            self.tell(peer, Arrived(*sent, size or 0))

    def on_controller_frame(self, frame: TimeServer | TimeReply) -> None:
        """Handle the controller's messages about the time."""
        if isinstance(frame, TimeServer):
            self._clock.server = frame.site
        else:
            self._on_reply(CONTROLLER, frame)

    def on_neighbour_frame(self, peer: str, frame: Arrived | TimeRequest | TimeReply) -> None:
        """Handle a neighbour's messages about the time and the arrival of this site's frames."""
        match frame:
            case TimeRequest():
                self._clock.on_request(peer, frame)
            case TimeReply():
                self._on_reply(peer, frame)
            case Arrived() if self.settings.probing is not None:
                link = self.settings.site, peer
                sent = Stamp(frame.sent_ns, frame.controller)
                self._add(self.settings.probing, link, sent, frame.size)

    def report_all(self) -> None:
        """Report the latest rates to a controller that has just taken charge."""
        for found in self._latest.values():
            self.report(found)

    def _ask(self, server: str, message: Control) -> None:
        """Ask for the time, and send heartbeats from which neighbours learn the propagation delay.

        Chunks alone would not show it on a link that is always busy.
        """
        self.beat()
        if server == CONTROLLER:
            self.report(message)
        else:
            self.tell(server, message)

    def _on_reply(self, server: str, reply: TimeReply) -> None:
        """Correct the clock. If it follows another controller now, shift the estimators' times."""
        if ahead_ns := self._clock.on_reply(server, reply):
            for estimator in self._estimators.values():
                estimator.set_ahead(ahead_ns)

    def _add(self, probing: Probing, link: Directed, sent: Stamp, size: int) -> None:
        now = self._clock.stamp(self.now_ns())
        if now is None:
            return
        if link not in self._estimators:
            make = ESTIMATORS[probing.estimator]
            self._estimators[link] = make(probing.chunk_bytes, probing.count)
        if sent.controller != now.controller:  # clocks of two controllers may be hours apart
            self._estimators[link].add_untimed(now.time_ns)
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
