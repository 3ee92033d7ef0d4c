"""What an impaired link is expected to show: shares of packets, and how delays spread (pure)."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from scipy.stats import binom, norm

from trunkline.topologies import distributions
from trunkline.topologies.links import UNIFORM, Link

PERCENTILES = (10, 50, 90)
"""The percentiles of delays that are judged if they are not uniform."""


@dataclass(frozen=True, slots=True)
class Shares:
    """Shares of the packets sent: of which nothing arrives, that arrive twice, that overtake."""

    missing: float
    twice: float
    overtaking: float

    @classmethod
    def of(cls, link: Link) -> Shares:
        """The kernel duplicates a packet first: then one of both may be lost or corrupted."""
        loss, twin = link.loss_percent / 100, link.duplicate_percent / 100
        wrong, ahead = link.corrupt_percent / 100, link.reorder_percent / 100
        gone = loss + (1 - loss) * wrong
        # A loss drops the original, if there are two; the copy can be lost as any other packet.
        missing = (1 - twin) * gone + twin * (loss * wrong + (1 - loss) * gone * wrong)
        twice = twin * (1 - loss) * (1 - gone) * (1 - wrong)
        return cls(missing, twice, (1 - missing) * ahead + twice * ahead * (1 - ahead))


@dataclass(frozen=True, slots=True)
class Spread:
    """The delays of the packets that do not overtake, in ms, and their kurtosis."""

    mean_ms: float
    deviation_ms: float
    kurtosis: float

    @classmethod
    def of(cls, link: Link) -> Spread:
        """Of a uniform distribution, exactly; of others, of their tables."""
        if link.distribution == UNIFORM:
            return cls(link.delay_ms, link.jitter_ms / math.sqrt(3), 1.8)
        delays = [max(0.0, link.delay_ms + link.jitter_ms * each) for each in _shape(link)]
        mean, deviation = statistics.fmean(delays), statistics.pstdev(delays)
        fourth = statistics.fmean((each - mean) ** 4 for each in delays)
        return cls(mean, deviation, fourth / deviation**4)

    def with_overtaking(self, link: Link) -> Spread:
        """The delays of all packets: some leave theirs out."""
        if not (ahead := link.reorder_percent / 100):
            return self
        mean = (1 - ahead) * self.mean_ms
        square = (1 - ahead) * (self.deviation_ms**2 + self.mean_ms**2) - mean**2
        return replace(self, mean_ms=mean, deviation_ms=math.sqrt(square))


def find_sigmas(count: int, sent: int, share: float) -> float:
    """How unlikely a count of independent events is, in deviations of a normal distribution."""
    below, above = binom.cdf(count, sent, share), binom.sf(count - 1, sent, share)
    chance = min(0.5, float(min(below, above)))
    sign = 1.0 if count > share * sent else -1.0
    return sign * max(0.0, float(norm.isf(max(chance, 1e-300))))


def find_percentile(link: Link, percent: float) -> float:
    """The delay in ms that so many percent of the packets do not exceed."""
    share = min(1.0, max(0.0, percent / 100))
    return max(0.0, link.delay_ms + link.jitter_ms * distributions.interpolate(_shape(link), share))


def sum_delays(links: Sequence[Link]) -> tuple[float, float]:
    """The mean in ms and the variance of the delays of links in a row, with those that overtake."""
    spreads = [(Spread.of(link).with_overtaking(link), inflate(link)) for link in links]
    mean = sum(spread.mean_ms for spread, _ in spreads)
    return mean, sum(factor * spread.deviation_ms**2 for spread, factor in spreads)


def in_order(link: Link) -> Link:
    """The link without packets that overtake."""
    return replace(link, reorder_percent=0.0) if link.reorder_percent else link


def swing_ms(link: Link) -> float:
    """By how much the arrivals of a busy link move, on average at most."""
    jitter_ms = link.jitter_ms
    if link.distribution != UNIFORM:
        jitter_ms = in_order(link).most_deviation_ms
    return jitter_ms + link.reorder_percent / 100 * link.delay_ms


def inflate(link: Link) -> float:
    """How much a correlation increases the variance of a sum."""
    rho = link.correlation_percent / 100
    return (1 + rho) / (1 - rho)


def _shape(link: Link) -> tuple[float, ...]:
    return distributions.shape(link.distribution)
