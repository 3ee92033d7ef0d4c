"""The rates that plans go by, and since when (Li et al., NetStorm, Algorithm 2; pure).

A scheduler that measures hears of new rates all the time. Plans only change every UPDATE_TIME, and
not at all if no rate has changed enough (UPDATE_RATE). Roots and their shares must not move from
task to task, so plans choose them by the rates that were known first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from trunkline.agents.planning.plan import Directed


@dataclass(slots=True)
class PlanRates:
    """The rates at first and now, in Mbit/s; `version` counts from 1 how often they have changed.

    `threshold` is UPDATE_RATE, a share of a link's rate; with 0 every refresh takes effect.
    """

    first_mbps: Mapping[Directed, float]
    threshold: float = 0.0
    rates_mbps: Mapping[Directed, float] = field(init=False)
    version: int = field(init=False, default=1)

    def __post_init__(self) -> None:
        self.rates_mbps = self.first_mbps

    def refresh(self, latest_mbps: Mapping[Directed, float]) -> bool:
        """Take over the latest rates; False if none has changed by as much as the threshold."""
        known = self.rates_mbps
        changes = (abs(latest_mbps[link] - rate) / rate for link, rate in known.items())
        if not any(change >= self.threshold for change in changes):
            return False
        self.rates_mbps = {link: latest_mbps[link] for link in known}
        self.version += 1
        return True
