"""Link rates for plans that do not know the exact ones: measured, or with an error (pure)."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field

from trunkline.agents.planning.plan import Directed


@dataclass(slots=True)
class MeasuredRates:
    """The latest measured rate of every directed link, in Mbit/s.

    A link without a measurement has its `assumed` rate. A measurement stays valid until the next
    one, at any age: a link that no plan uses is not measured again (NetStorm's "avalanche").
    """

    assumed: Mapping[Directed, float]
    found: dict[Directed, float] = field(default_factory=dict)

    def record(self, link: Directed, rate_mbps: float) -> None:
        """Take in a measurement. Raises KeyError if there is no such link."""
        if link not in self.assumed:
            raise KeyError(link)
        self.found[link] = rate_mbps

    def latest_mbps(self) -> dict[Directed, float]:
        """Every link's rate."""
        return {**self.assumed, **self.found}


def add_error(
    rates_mbps: Mapping[Directed, float], error: float, rng: random.Random
) -> dict[Directed, float]:
    """Replace every rate b by b (1 + u) with u uniform in [-error, error] (CREW, figure 11).

    Each directed link has its own u. With an error of 0, all rates stay the same. Raises ValueError
    unless 0 <= error < 1.
    """
    if not 0 <= error < 1:
        raise ValueError(f"error: {error}: expected 0 up to, not including, 1")
    return {link: rate * (1 + rng.uniform(-error, error)) for link, rate in rates_mbps.items()}
