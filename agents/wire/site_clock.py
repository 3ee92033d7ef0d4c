"""A site's own clock, and how it is set right by another one's answers (pure).

The four-timestamp exchange (NTP, RFC 5905): asked and heard by this clock, received and replied by
the other. If both ways take as long, the other clock is ahead by

    ((received - asked) + (replied - heard)) / 2

and if they do not, that is wrong by half of the difference. A queue on one of the ways makes the
exchange longer, so only the shortest ones count, also those of long ago: a link may be busy for
minutes, and one exchange behind a queue of seconds is worse than any drift. A line through them
follows the drift. Whoever was told the time over other sites counts their ways, too (the root delay
of RFC 5905).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from pydantic import Field

KEPT = 32
"""So many exchanges are remembered, the shortest ones."""

MEMORY_NS = 300 * 10**9
"""For so long: then a way has become longer for good, or the line through them leads astray."""

MARGIN_NS = 500_000
"""An exchange counts that took this much longer than the shortest; it is wrong by up to half."""

SPAN_NS = 4 * 10**9
"""Exchanges must lie this far apart for a line through them to tell a drift."""


@dataclass(frozen=True, slots=True)
class SiteClock:
    """How far a site's clock is ahead of the true time.

    Only differences between sites matter, so no clock need be behind.

    Options:
        offset_ms: at the run's start.
        drift_ppm: so many microseconds more every second.
    """

    offset_ms: Annotated[float, Field(le=3_600_000)] = 0.0
    drift_ppm: Annotated[float, Field(le=1000)] = 0.0

    def read_ns(self, now_ns: int) -> int:
        """What it shows at a true time."""
        return now_ns + round(self.offset_ms * 1e6) + round(now_ns * self.drift_ppm * 1e-6)


@dataclass(frozen=True, slots=True)
class Exchange:
    """A question and its answer; nanoseconds, the outer two by the asker's clock.

    `beyond_ns` is the distance of the clock that answered from the one that is right.
    """

    asked_ns: int
    received_ns: int
    replied_ns: int
    heard_ns: int
    beyond_ns: int = 0

    @property
    def offset_ns(self) -> float:
        """How far the clock that answered is ahead."""
        return ((self.received_ns - self.asked_ns) + (self.replied_ns - self.heard_ns)) / 2

    @property
    def delay_ns(self) -> int:
        """What both ways took together."""
        return (self.heard_ns - self.asked_ns) - (self.replied_ns - self.received_ns)

    @property
    def distance_ns(self) -> int:
        """What all ways to the right clock and back took: the error is at most half of it."""
        return self.delay_ns + self.beyond_ns


@dataclass(slots=True)
class Correction:
    """What to add to a clock for the right time, by the best exchanges.

    `distance_ns` is that of the best one; without any, the right time is not known at all.
    """

    distance_ns: int | None = None
    _kept: list[Exchange] = field(default_factory=list)
    _at_ns: int = 0
    _offset_ns: float = 0.0
    _slope: float = 0.0

    @property
    def exchanges(self) -> int:
        """How many it remembers."""
        return len(self._kept)

    def add(self, exchange: Exchange) -> None:
        """Take in one more exchange."""
        since_ns = exchange.heard_ns - MEMORY_NS
        self._kept = [each for each in self._kept if each.heard_ns > since_ns] + [exchange]
        self.distance_ns = min(each.distance_ns for each in self._kept)
        longest_ns = self.distance_ns + MARGIN_NS
        if len(self._kept) > KEPT:
            self._kept.remove(max(self._kept, key=lambda each: max(each.distance_ns, longest_ns)))
        good = [each for each in self._kept if each.distance_ns <= longest_ns]
        self._at_ns, self._offset_ns, self._slope = good[-1].heard_ns, good[-1].offset_ns, 0.0
        if good[-1].heard_ns - good[0].heard_ns < SPAN_NS:
            return
        mean_at = sum(each.heard_ns - self._at_ns for each in good) / len(good)
        mean_offset = sum(each.offset_ns for each in good) / len(good)
        apart = [(each.heard_ns - self._at_ns - mean_at, each.offset_ns) for each in good]
        self._slope = sum(x * (y - mean_offset) for x, y in apart) / sum(x * x for x, _ in apart)
        self._offset_ns = mean_offset - self._slope * mean_at

    def at_ns(self, own_ns: int) -> int:
        """The correction when this clock shows so much."""
        return round(self._offset_ns + self._slope * (own_ns - self._at_ns))
