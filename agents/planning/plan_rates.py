"""The rates that plans are built from (Li et al., NetStorm, Algorithm 2; pure).

With awareness, measured rates arrive all the time. Plans change only every UPDATE_TIME, and only if
a rate has changed by UPDATE_RATE or more. The roots of trees and their shares must not change from
task to task, so plans choose them by the rates that were known first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from trunkline.agents.planning.plan import Directed


@dataclass(slots=True)
class PlanRates:
    """The first and the present rates of each directed link, in Mbit/s.

    Attributes:
        threshold: UPDATE_RATE, as a share of a link's rate; with 0 every refresh takes effect.
        version: 1 for the first rates, one more with each change.
    """

    first_mbps: Mapping[Directed, float]
    threshold: float = 0.0
    rates_mbps: Mapping[Directed, float] = field(init=False)
    version: int = field(init=False, default=1)

    def __post_init__(self) -> None:
        self.rates_mbps = self.first_mbps

    def refresh(self, latest_mbps: Mapping[Directed, float]) -> bool:
        """Take over the latest rates; returns False if no rate has changed by the threshold."""
        known = self.rates_mbps
        changes = (abs(latest_mbps[link] - rate) / rate for link, rate in known.items())
        if not any(change >= self.threshold for change in changes):
            return False
        self.rates_mbps = {link: latest_mbps[link] for link in known}
        self.version += 1
        return True
