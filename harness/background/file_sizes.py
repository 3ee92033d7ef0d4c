"""Distributions of the sizes of files that background traffic transfers (pure)."""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

Named = Literal["web-search", "data-mining"]

PACKET_BYTES = 1460


@dataclass(frozen=True, slots=True)
class Distribution:
    """An empirical distribution: between two points, its cumulative probability is linear.

    Attributes:
        points: pairs of a size in bytes and the probability that a file is no larger; both grow,
            and the last probability is 1.
    """

    points: tuple[tuple[float, float], ...]

    @property
    def mean_bytes(self) -> float:
        """The mean size."""
        steps = pairwise(self.points)
        return sum((low + high) / 2 * (q - p) for (low, p), (high, q) in steps)

    def draw(self, rng: random.Random) -> float:
        """A random size in bytes."""
        share = rng.random()
        above = bisect_right(self.points, share, key=lambda point: point[1])
        (low, p), (high, q) = self.points[above - 1], self.points[above]
        return low + (high - low) * (share - p) / (q - p)


NAMED: Mapping[Named, Distribution] = {
    "web-search": Distribution(
        (
            (0, 0.0),
            (10_000, 0.15),
            (20_000, 0.2),
            (30_000, 0.3),
            (50_000, 0.4),
            (80_000, 0.53),
            (200_000, 0.6),
            (1_000_000, 0.7),
            (2_000_000, 0.8),
            (5_000_000, 0.9),
            (10_000_000, 0.97),
            (30_000_000, 1.0),
        )
    ),
    "data-mining": Distribution(
        (
            (0, 0.0),
            (1 * PACKET_BYTES, 0.5),
            (2 * PACKET_BYTES, 0.6),
            (3 * PACKET_BYTES, 0.7),
            (7 * PACKET_BYTES, 0.8),
            (267 * PACKET_BYTES, 0.9),
            (2_107 * PACKET_BYTES, 0.95),
            (66_667 * PACKET_BYTES, 0.99),
            (666_667 * PACKET_BYTES, 1.0),
        )
    ),
}
"""Web search: the cluster of Alizadeh et al., "Data Center TCP", SIGCOMM 2010, Figure 4; data
mining: the cluster of Greenberg et al., "VL2", SIGCOMM 2009, Figure 2. The points are those that
studies of congestion control commonly use ("pFabric", SIGCOMM 2013; "HPCC", SIGCOMM 2019)."""
