"""What plans know of the links' rates when they do not know them exactly (pure)."""

from __future__ import annotations

import random
from collections.abc import Mapping

from agents.plan import Directed


def noisy(
    rates_mbps: Mapping[Directed, float], error: float, rng: random.Random
) -> dict[Directed, float]:
    """Every rate b as b (1 + u), u uniform in [-error, error], 0 <= error < 1 (CREW, figure 11).

    Each directed link is off by its own u. No error leaves all rates as they are.
    """
    if not 0 <= error < 1:
        raise ValueError(f"error: {error}: allowed is 0 up to, not including, 1")
    return {link: rate * (1 + rng.uniform(-error, error)) for link, rate in rates_mbps.items()}
