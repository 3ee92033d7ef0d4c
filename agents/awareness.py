"""How a site measures its links by the chunks that cross them, and tells the controller.

What is measured about a link is known at its receiving end, or with acknowledgements at its sending
end; either way it goes to the controller, which plans with it (`agents.estimates.KnownRates`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from agents.estimators import ESTIMATORS, Estimator
from agents.framing import UNTIMED_NS
from agents.messages import Arrived, Control, Measured
from agents.plan import Directed
from agents.settings import Log, Probing


@dataclass(slots=True)
class Awareness:
    """Of one site; `agents.link.Timing` for its connections. Without `probing` it does nothing.

    `tell` reaches a neighbour, `report` the controller.
    """

    site: str
    probing: Probing | None
    now_ns: Callable[[], int]
    tell: Callable[[str, Control], None]
    report: Callable[[Control], None]
    log: Log
    _estimators: dict[Directed, Estimator] = field(default_factory=dict)
    _latest: dict[Directed, Measured] = field(default_factory=dict)

    def stamp_ns(self, now_ns: int) -> int:
        """See `Timing`."""
        return now_ns if self.probing else UNTIMED_NS

    def arrived(self, peer: str, sent_ns: int, size: int | None) -> None:
        """See `Timing`."""
        if self.probing is None:
            return
        if self.probing.estimator != "round_trip":
            self._add(self.probing, (peer, self.site), sent_ns, size or 0)
        elif size == 0 or (size or 0) > self.probing.chunk_bytes:
            self.tell(peer, Arrived(sent_ns, size or 0))

    def acknowledged(self, peer: str, frame: Arrived) -> None:
        """A frame of this site has arrived at its neighbour, who says so."""
        if self.probing is not None:
            self._add(self.probing, (self.site, peer), frame.sent_ns, frame.size)

    def tell_all(self) -> None:
        """Whoever controls from now on has heard of nothing yet."""
        for found in self._latest.values():
            self.report(found)

    def _add(self, probing: Probing, link: Directed, sent_ns: int, size: int) -> None:
        if link not in self._estimators:
            make = ESTIMATORS[probing.estimator]
            self._estimators[link] = make(probing.chunk_bytes, probing.count)
        found = self._estimators[link].add(sent_ns, self.now_ns(), size)
        if found is None or not math.isfinite(found.rate_mbps):
            return
        rate_mbps = found.rate_mbps / probing.payload_share
        src, dst = link
        self._latest[link] = Measured(src, dst, rate_mbps)
        self.report(self._latest[link])
        self.log(
            "rate_measured",
            src=src,
            dst=dst,
            rate_mbps=rate_mbps,
            chunks=found.chunks,
            bytes=found.bytes,
            least_delay_ms=found.least_delay_ms,
        )
