"""A site's own clock, and its correction by exchanges with another clock (pure).

The exchange has four timestamps (NTP, RFC 5905): this clock stamps `asked` and `heard`, the other
one `received` and `replied`. If both directions take equally long, the other clock is ahead by

    ((received - asked) + (replied - heard)) / 2

If not, this is wrong by half of the difference. A queue in one direction makes the exchange longer,
so only the shortest exchanges count. These may be minutes old, because a link may be busy for
minutes, and an exchange behind a queue of seconds is worse than any drift. A line through the
shortest exchanges follows the drift. If the other clock is itself corrected by a third one, that
exchange's delay is added (the root delay of RFC 5905).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from pydantic import Field

KEPT = 32
"""How many exchanges are remembered: the shortest ones."""

MEMORY_NS = 300 * 10**9
"""How long exchanges are remembered. Older ones may be of a shorter path that no longer exists, or
of a drift that has changed."""

MARGIN_NS = 500_000
"""Exchanges count if they took at most this much longer than the shortest. Their error is at most
half of it."""

SPAN_NS = 4 * 10**9
"""The time that exchanges must span before the drift is estimated from them."""


@dataclass(frozen=True, slots=True)
class SiteClock:
    """How far a site's clock is ahead of the true time.

    Only differences between sites matter, so clocks that are behind are not needed.

    Options:
        offset_ms: the lead at the run's start.
        drift_ppm: the growth of the lead, in microseconds per second.
    """

    offset_ms: Annotated[float, Field(le=3_600_000)] = 0.0
    drift_ppm: Annotated[float, Field(le=1000)] = 0.0

    def read_ns(self, now_ns: int) -> int:
        """The clock's reading at a true time."""
        return now_ns + round(self.offset_ms * 1e6) + round(now_ns * self.drift_ppm * 1e-6)


@dataclass(frozen=True, slots=True)
class Exchange:
    """One exchange in nanoseconds; `asked_ns` and `heard_ns` are by the asking site's clock.

    `beyond_ns` is the distance of the answering clock from the reference clock.
    """

    asked_ns: int
    received_ns: int
    replied_ns: int
    heard_ns: int
    beyond_ns: int = 0

    @property
    def offset_ns(self) -> float:
        """How far the answering clock is ahead."""
        return ((self.received_ns - self.asked_ns) + (self.replied_ns - self.heard_ns)) / 2

    @property
    def delay_ns(self) -> int:
        """The time on the way, in both directions together."""
        return (self.heard_ns - self.asked_ns) - (self.replied_ns - self.received_ns)

    @property
    def distance_ns(self) -> int:
        """The time on the way to the reference clock and back; the error is at most half of it."""
        return self.delay_ns + self.beyond_ns


@dataclass(slots=True)
class Correction:
    """The correction of a clock, computed from the shortest exchanges.

    `distance_ns` is that of the shortest exchange; None without any exchange.
    """

    distance_ns: int | None = None
    _kept: list[Exchange] = field(default_factory=list)
    _at_ns: int = 0
    _offset_ns: float = 0.0
    _slope: float = 0.0

    @property
    def exchanges(self) -> int:
        """The number of remembered exchanges."""
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
        """The value to add to this clock when it reads `own_ns`."""
        return round(self._offset_ns + self._slope * (own_ns - self._at_ns))
