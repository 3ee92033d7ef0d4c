"""Estimators of a directed link's rate from the chunks that cross the link anyway (pure).

This is NetStorm's passive awareness (Section V). A frame has two times in nanoseconds: when its
first byte entered the sender's socket, by the sender's clock, and when its last byte arrived, by
the receiver's clock. Only chunks larger than `probe_bytes` (PROBE_CHUNK_SIZE) are measured;
`count` of them (PROBE_CHUNK_NUM) give one rate. The one-way delay of a chunk of S bytes on a link
of rate r is

    t = S / r + propagation + time in queues (in the socket and on the way)

    one_way            The mean of S / t, as (17) is printed. It is too low, most of all for small
                       chunks.
    one_way_min_delay  S over the time that the link was busy with the chunks. Propagation, which is
                       the smallest one-way delay of any frame, is left out, and so is the time in
                       queues, because no chunk is on the wire before the chunk ahead of it has
                       arrived. A constant difference of the clocks cancels out.
    round_trip         TSEngine's, from acknowledgements: the mean of S / (t + propagation / 2)
                       (Proposition 1). Only the sender's clock matters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

MEMORY_NS = 120 * 10**9
"""The smallest delay is taken over the last one or two periods of this length: long enough for a
link that is busy for minutes, short enough to follow changes of propagation and clocks."""

IMPLAUSIBLE = 10
"""No link becomes this many times as fast from one chunk to the next; in NetStorm the largest
factor is 7.75."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """A link's rate in Mbit/s of payload, how it was measured, and the smallest delay so far."""

    rate_mbps: float
    chunks: int
    bytes: int
    least_delay_ms: float


class Estimator(Protocol):
    """Estimates one directed link's rate: once per `count` chunks that are large enough."""

    def add(self, sent_ns: int, arrived_ns: int, size: int) -> Measurement | None:
        """Take in a frame with a chunk of `size` bytes (0 without a chunk).

        Frames must be given in the order of arrival. For `round_trip`, `arrived_ns` is when the
        acknowledgement reached the sender.
        """
        ...

    def add_untimed(self, arrived_ns: int) -> None:
        """Take in a frame whose sending time is unknown."""
        ...

    def set_ahead(self, by_ns: int) -> None:
        """Take in that the clocks of both ends were set ahead (if negative, back)."""
        ...


@dataclass(slots=True)
class RecentMinimum:
    """The smallest value of the last `MEMORY_NS` to twice as long."""

    _older: int | None = None
    _newer: int | None = None
    _since_ns: int = 0

    def add(self, now_ns: int, value: int) -> int:
        """Take in a value; returns the smallest recent one."""
        if self._newer is None or now_ns - self._since_ns >= MEMORY_NS:
            self._older, self._newer, self._since_ns = self._newer, value, now_ns
        self._newer = min(self._newer, value)
        return self._newer if self._older is None else min(self._newer, self._older)

    def set_ahead(self, by_ns: int) -> None:
        """See `Estimator`; the delays do not change, because both clocks move."""
        self._since_ns += by_ns


@dataclass(slots=True)
class MeanOfRates:
    """Equation (17): the mean of size / time over the chunks.

    `time_ns(delay_ns, least_ns)` is the time of a chunk with this delay, where the smallest delay
    is `least_ns`. A chunk that seems to arrive before it was sent, because clocks differ, is left
    out.
    """

    probe_bytes: int
    count: int
    time_ns: Callable[[int, int], float]
    _least: RecentMinimum = field(default_factory=RecentMinimum)
    _rates_mbps: list[float] = field(default_factory=list)
    _bytes: int = 0

    def add(self, sent_ns: int, arrived_ns: int, size: int) -> Measurement | None:
        """See `Estimator`."""
        delay_ns = arrived_ns - sent_ns
        least_ns = self._least.add(arrived_ns, delay_ns)
        took_ns = self.time_ns(delay_ns, least_ns)
        if size <= self.probe_bytes or took_ns <= 0:
            return None
        self._rates_mbps.append(size * 8e3 / took_ns)
        self._bytes += size
        if len(self._rates_mbps) < self.count:
            return None
        mean_mbps = sum(self._rates_mbps) / len(self._rates_mbps)
        found = Measurement(mean_mbps, len(self._rates_mbps), self._bytes, least_ns / 1e6)
        self._rates_mbps, self._bytes = [], 0
        return found

    def add_untimed(self, arrived_ns: int) -> None:
        """See `Estimator`."""

    def set_ahead(self, by_ns: int) -> None:
        """See `Estimator`."""
        self._least.set_ahead(by_ns)


@dataclass(slots=True)
class BusyTime:
    """The sum of the chunks' bytes over the sum of the times that the link was busy with them.

    A mean of each chunk's rate would be wrong: while TCP waits for a lost packet, that packet's
    chunk seems slow, and the chunks behind it, which have arrived by then, seem infinitely fast. If
    such chunks follow the last chunk of a measurement, the measurement is repeated with them.
    """

    probe_bytes: int
    count: int
    _least: RecentMinimum = field(default_factory=RecentMinimum)
    _last_ns: int | None = None
    _busy_ns: int = 0
    _bytes: int = 0
    _chunks: int = 0

    def add(self, sent_ns: int, arrived_ns: int, size: int) -> Measurement | None:
        """See `Estimator`."""
        least_ns = self._least.add(arrived_ns, arrived_ns - sent_ns)
        free_ns = sent_ns + least_ns
        if self._last_ns is not None:
            free_ns = max(free_ns, self._last_ns)
        self._last_ns = arrived_ns
        if size <= self.probe_bytes:
            return None
        took_ns = arrived_ns - free_ns
        if self._chunks >= self.count and not self._waited_for_another(took_ns, size):
            self._busy_ns = self._bytes = self._chunks = 0
        self._busy_ns += took_ns
        self._bytes += size
        self._chunks += 1
        if self._chunks < self.count or self._busy_ns <= 0:
            return None
        rate_mbps = self._bytes * 8e3 / self._busy_ns
        return Measurement(rate_mbps, self._chunks, self._bytes, least_ns / 1e6)

    def add_untimed(self, arrived_ns: int) -> None:
        """See `Estimator`."""
        self._last_ns = arrived_ns

    def set_ahead(self, by_ns: int) -> None:
        """See `Estimator`."""
        self._least.set_ahead(by_ns)
        if self._last_ns is not None:
            self._last_ns += by_ns

    def _waited_for_another(self, took_ns: int, size: int) -> bool:
        """Whether this chunk was waiting behind the last one, as it came implausibly fast."""
        is_fast = took_ns * self._bytes * IMPLAUSIBLE < size * self._busy_ns
        return is_fast and self._chunks < 2 * self.count


def one_way(probe_bytes: int, count: int) -> Estimator:
    """Equation (17)."""
    return MeanOfRates(probe_bytes, count, lambda delay_ns, _: delay_ns)


def one_way_min_delay(probe_bytes: int, count: int) -> Estimator:
    """Without propagation and queueing."""
    return BusyTime(probe_bytes, count)


def round_trip(probe_bytes: int, count: int) -> Estimator:
    """Proposition 1: a chunk's time includes half of the acknowledgement's way back.

    The measured time is t plus the whole way back, which is half of the smallest round trip. So a
    quarter of the smallest round trip is subtracted. (As printed, the time would be halved, which
    is too little.)
    """
    return MeanOfRates(probe_bytes, count, lambda delay_ns, least_ns: delay_ns - least_ns / 4)


ESTIMATORS: Mapping[str, Callable[[int, int], Estimator]] = {
    "one_way_min_delay": one_way_min_delay,
    "one_way": one_way,
    "round_trip": round_trip,
}
"""Estimators by name; the arguments are PROBE_CHUNK_SIZE in bytes and PROBE_CHUNK_NUM."""
