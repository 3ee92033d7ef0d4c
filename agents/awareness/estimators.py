"""The rate of a directed link from the times of the chunks that crossed it anyway (pure).

NetStorm's passive awareness (Section V). Times are nanoseconds: when a frame's first byte entered
the sender's socket, by the sender's clock, and when its last one arrived, by the receiver's. Only
chunks larger than `probe_bytes` (PROBE_CHUNK_SIZE) count towards a rate, and `count` of them
(PROBE_CHUNK_NUM) give one. Of a chunk of S bytes on a link of rate r the one-way delay is

    t = S / r + propagation + what was queued before it, in the socket and on the way

    one_way            the mean of S / t, as (17) is printed: low, the more the smaller the chunk
    one_way_min_delay  S over the time that the link was busy with the chunks: without propagation,
                       which is the smallest one-way delay of any frame, and without the queue, as
                       no chunk can be on the wire before the one ahead of it has arrived. Clocks
                       that differ by a constant do no harm: it is in both delays
    round_trip         TSEngine's, from acknowledgements: the mean of S / (t + propagation / 2)
                       (Proposition 1); only the sender's clock matters
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

MEMORY_NS = 120 * 10**9
"""The smallest delay is that of the last two to four minutes: propagation and clocks change, and a
link may be busy for minutes."""

IMPLAUSIBLE = 10
"""No link becomes so many times as fast from one chunk to the next; NetStorm's 7.75 times."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """A link's rate in Mbit/s of chunk bytes, from so many chunks; the smallest delay seen."""

    rate_mbps: float
    chunks: int
    bytes: int
    least_delay_ms: float


class Estimator(Protocol):
    """One directed link's; a new rate comes of every `count`-th chunk that is large enough."""

    def add(self, sent_ns: int, arrived_ns: int, size: int) -> Measurement | None:
        """Take in a frame: a chunk of `size` bytes, or one without a chunk (0).

        Frames come in the order in which they arrived. Of `round_trip` the second time is that of
        the acknowledgement at the sender.
        """
        ...

    def passed(self, arrived_ns: int) -> None:
        """Take in that a frame arrived of which it is not known when it was sent."""
        ...

    def set_ahead(self, by_ns: int) -> None:
        """The clocks of both ends of the link are set ahead by so much (negative: back)."""
        ...


@dataclass(slots=True)
class Least:
    """The smallest of the values of the last `MEMORY_NS` or more."""

    _older: int | None = None
    _newer: int | None = None
    _since_ns: int = 0

    def add(self, now_ns: int, value: int) -> int:
        """Take in a value; returns the smallest."""
        if self._newer is None or now_ns - self._since_ns >= MEMORY_NS:
            self._older, self._newer, self._since_ns = self._newer, value, now_ns
        self._newer = min(self._newer, value)
        return self._newer if self._older is None else min(self._newer, self._older)

    def set_ahead(self, by_ns: int) -> None:
        """See `Estimator`: the delays stay what they were."""
        self._since_ns += by_ns


@dataclass(slots=True)
class MeanOfRates:
    """(17): the mean over the chunks of size over time, which `time_ns(delay, least)` says.

    A chunk that arrived before it was sent, by clocks that disagree, has no rate and is left out.
    """

    probe_bytes: int
    count: int
    time_ns: Callable[[int, int], float]
    _least: Least = field(default_factory=Least)
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

    def passed(self, arrived_ns: int) -> None:
        """See `Estimator`."""

    def set_ahead(self, by_ns: int) -> None:
        """See `Estimator`."""
        self._least.set_ahead(by_ns)


@dataclass(slots=True)
class BusyTime:
    """All bytes of the chunks over all of the time that the link was busy with them.

    The sums are divided, not each chunk: where TCP waits for a lost packet, the chunk with the gap
    seems slow and those behind it, which are there already, infinitely fast. If such follow a
    measurement's last chunk, it is made again with them.
    """

    probe_bytes: int
    count: int
    _least: Least = field(default_factory=Least)
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

    def passed(self, arrived_ns: int) -> None:
        """See `Estimator`."""
        self._last_ns = arrived_ns

    def set_ahead(self, by_ns: int) -> None:
        """See `Estimator`."""
        self._least.set_ahead(by_ns)
        if self._last_ns is not None:
            self._last_ns += by_ns

    def _waited_for_another(self, took_ns: int, size: int) -> bool:
        """Whether a chunk must have been there when the measurement's last one became complete."""
        is_fast = took_ns * self._bytes * IMPLAUSIBLE < size * self._busy_ns
        return is_fast and self._chunks < 2 * self.count


def one_way(probe_bytes: int, count: int) -> Estimator:
    """Equation (17)."""
    return MeanOfRates(probe_bytes, count, lambda delay_ns, _: delay_ns)


def one_way_min_delay(probe_bytes: int, count: int) -> Estimator:
    """Without propagation and queueing."""
    return BusyTime(probe_bytes, count)


def round_trip(probe_bytes: int, count: int) -> Estimator:
    """Proposition 1's, of which half the acknowledgement's way back is part.

    The time to the acknowledgement is t and the whole way back, a half of the smallest round trip;
    so a quarter of that is taken off. (Printed is half of that time, which would be too little.)
    """
    return MeanOfRates(probe_bytes, count, lambda delay_ns, least_ns: delay_ns - least_ns / 4)


ESTIMATORS: Mapping[str, Callable[[int, int], Estimator]] = {
    "one_way_min_delay": one_way_min_delay,
    "one_way": one_way,
    "round_trip": round_trip,
}
"""By name, from PROBE_CHUNK_SIZE in bytes and PROBE_CHUNK_NUM."""
