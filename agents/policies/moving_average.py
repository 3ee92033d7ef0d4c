"""Moving averages of measured times, and of how they depend on the batch (R2SP, V-A, V-B; pure)."""

from __future__ import annotations

from dataclasses import dataclass, field

NEWEST = 0.1
"""The weight of the newest value in a moving average (R2SP, V-B)."""

SPREAD = 0.05
"""Batches whose sizes deviate by less than this share of their mean say little about a slope."""

FLATTEST = 0.25
"""The smallest slope of a line, as a share of that of a proportional time: noise can hide it."""


@dataclass(frozen=True, slots=True)
class Average:
    """A moving average; the first few values count equally."""

    value: float = 0.0
    count: int = 0

    def add(self, value: float) -> Average:
        """The average with one more value."""
        weight = max(NEWEST, 1 / (self.count + 1))
        return Average(self.value + weight * (value - self.value), self.count + 1)


@dataclass(frozen=True, slots=True)
class Line:
    """How a time depends on the size of a batch: a fixed part, and a slope (R2SP, figure 5).

    The line goes through the moving averages of both. Its slope is that of least squares, as far as
    sizes have differed; as long as they have not, the time counts as proportional to the size. So a
    size that the line gives may be wrong at first, but it is nearer each time: the averages move to
    what was measured with it.
    """

    size: Average = field(default_factory=Average)
    time_s: Average = field(default_factory=Average)
    square: Average = field(default_factory=Average)
    product_s: Average = field(default_factory=Average)

    @property
    def count(self) -> int:
        """How many times were measured."""
        return self.time_s.count

    @property
    def slope_s(self) -> float:
        """The time that one more unit of size takes; 0 before anything was measured."""
        if not self.size.value:
            return 0.0
        proportional_s = self.time_s.value / self.size.value
        variance = self.square.value - self.size.value**2
        covariance_s = self.product_s.value - self.size.value * self.time_s.value
        doubt = (SPREAD * self.size.value) ** 2
        slope_s = (covariance_s + doubt * proportional_s) / (variance + doubt)
        return min(max(slope_s, FLATTEST * proportional_s), proportional_s)

    def add(self, size: float, time_s: float) -> Line:
        """The line with one more time, which took a batch of this size."""
        return Line(
            self.size.add(size),
            self.time_s.add(time_s),
            self.square.add(size**2),
            self.product_s.add(size * time_s),
        )

    def time_of(self, size: float) -> float:
        """How long a batch of this size is expected to take, in seconds."""
        return self.time_s.value + self.slope_s * (size - self.size.value)

    def size_of(self, time_s: float) -> float:
        """The size with which the time is this long; needs a measured time above 0."""
        return self.size.value + (time_s - self.time_s.value) / self.slope_s
