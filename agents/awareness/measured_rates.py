"""What plans know of the links' rates when they do not know them exactly (pure)."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field

from trunkline.agents.planning.plan import Directed


@dataclass(slots=True)
class MeasuredRates:
    """The latest rate of every directed link, in Mbit/s, as far as somebody has measured it.

    What was never measured has the rate that is `assumed`. What was, keeps its last measurement
    until the next, however old it is: a link that nobody uses is not measured (NetStorm's
    "avalanche").
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
    """Every rate b as b (1 + u), u uniform in [-error, error], 0 <= error < 1 (CREW, figure 11).

    Each directed link is off by its own u. No error leaves all rates as they are.
    """
    if not 0 <= error < 1:
        raise ValueError(f"error: {error}: allowed is 0 up to, not including, 1")
    return {link: rate * (1 + rng.uniform(-error, error)) for link, rate in rates_mbps.items()}
