"""What an abandoned task still waited for."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Missing:
    """What an abandoned task still waited for when it ended.

    Attributes:
        where: the link of the overlay that needed most time for what was missing.
        arrived, planned: bytes of the task over it.
        mbps, usual_mbps: the rate of its slowest link below, on average while the task ran, and in
            the scenario.
        fault: the number of the fault that slowed or cut it; None without one.
    """

    where: str
    arrived: int
    planned: int
    mbps: float
    usual_mbps: float
    fault: int | None

    @property
    def left_s(self) -> float:
        """How long it would have needed at this rate for what was missing."""
        missing = self.planned - self.arrived
        return missing * 8e-6 / self.mbps if self.mbps else math.inf
