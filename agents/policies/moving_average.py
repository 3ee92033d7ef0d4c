"""Moving averages of measured times (R2SP, V-A and V-B; pure)."""

from __future__ import annotations

from dataclasses import dataclass

NEWEST = 0.1
"""The weight of the newest value in a moving average (R2SP, V-B)."""


@dataclass(frozen=True, slots=True)
class Average:
    """A moving average; the first few values count equally."""

    value: float = 0.0
    count: int = 0

    def add(self, value: float) -> Average:
        """The average with one more value."""
        weight = max(NEWEST, 1 / (self.count + 1))
        return Average(self.value + weight * (value - self.value), self.count + 1)
