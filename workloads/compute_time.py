"""The duration of one iteration at a site: distributions that are drawn by hash, not in sequence.

A distribution is given by its quantile function. The duration of an iteration is the quantile of a
number in (0, 1) that is a hash of (seed, rank, iteration). So it does not depend on earlier
draws, on other sites or on the machine.

A site may wait after it has computed, before its update is there, as clients of federated learning
do in the evaluation of R2SP (Zhang et al. 2025, VI-A5, VI-B1). This delay is drawn by another hash.
No factor and no batch changes it.

`t1` and `t2` stand for the two distributions of the CREW evaluation: an LSTM on UCF101 and a
Transformer on WMT16, both rescaled to 0.05 .. 0.2 s. Their source (Li et al., "Taming unbalanced
training workloads in deep learning with partial collective operations", PPoPP 2020) shows
histograms, not tables. So they are *modelled* as lognormals that are truncated to that range. `t1`
is broad and skewed to the right: the time of a batch follows the lengths of its videos. `t2` is a
narrow peak at the low end with a thin long tail. Trunkline chose their parameters.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist, median
from typing import Any, Literal, Protocol, TypeAlias

from trunkline.workloads.option_rules import (
    OptionError,
    Rule,
    Sites,
    find_broken,
    find_rank,
    number,
    positive,
)

_Parameters: TypeAlias = dict[str, float | tuple[float, ...]] | dict[str, dict[str, float]]
_OfSite: TypeAlias = float | tuple[float, float] | Literal["t1", "t2"] | _Parameters
Compute: TypeAlias = _OfSite | dict[str, _OfSite]
"""One time in seconds, a uniform range, a named distribution, a lognormal distribution or measured
times; or one of these for each site (name or rank), and for `others`."""

Slowdown: TypeAlias = dict[str, float]
"""Site (name or rank) -> the factor by which its iterations take longer."""

Delay: TypeAlias = Compute | dict[str, float]
"""A delay after computing, in the forms of `Compute`; or site (name or rank) -> seconds."""

ALLOWED = (
    "a time (0.1 s), a range ([0.05 s, 0.2 s]), t1, t2, "
    "{lognormal: {mean: 0.1 s, deviation: 0.05 s, low: 0 s, high: 1 s}} (low, high optional), "
    "{measured: [0.11 s, 0.12 s]}, {csv: FILE, column: NAME}, or one of these for each site"
)
FORMS = ("lognormal", "measured", "csv")
"""The keys of a mapping that describes one distribution; others are sites."""


DELAYS = Rule(number(0, 1e6).holds, "a time from 0 s to below 1e6 s")


class Distribution(Protocol):
    """A distribution of durations, given by its quantile function."""

    def quantile_s(self, probability: float) -> float:
        """Return the duration in seconds below which the share `probability` in (0, 1) stays."""


@dataclass(frozen=True, slots=True)
class Constant:
    """Always `time_s`."""

    time_s: float

    def __post_init__(self) -> None:
        if not 0 <= self.time_s < math.inf:
            raise ValueError(f"{self.time_s} s is no duration")

    def quantile_s(self, probability: float) -> float:
        """Return `time_s`."""
        return self.time_s


@dataclass(frozen=True, slots=True)
class Uniform:
    """All durations from `low_s` to `high_s` are equally likely."""

    low_s: float
    high_s: float

    def __post_init__(self) -> None:
        if not 0 <= self.low_s <= self.high_s < math.inf:
            raise ValueError(f"{self.low_s} .. {self.high_s} s is no range of durations")

    def quantile_s(self, probability: float) -> float:
        """Interpolate between the ends."""
        return self.low_s + (self.high_s - self.low_s) * probability


@dataclass(frozen=True, slots=True)
class Lognormal:
    """A lognormal distribution, truncated to `low_s` .. `high_s`.

    Mean and standard deviation are those before the truncation.
    """

    mean_s: float
    deviation_s: float
    low_s: float = 0.0
    high_s: float = math.inf

    def __post_init__(self) -> None:
        if not (0 < self.mean_s < math.inf and 0 < self.deviation_s < math.inf):
            raise ValueError("mean and deviation of a lognormal are above 0 s")
        if not 0 <= self.low_s < self.high_s:
            raise ValueError(f"{self.low_s} .. {self.high_s} s is no range of durations")
        below, above = self._cut()
        if above - below < 1e-6:
            raise ValueError(f"no duration of it falls into {self.low_s} .. {self.high_s} s")

    def quantile_s(self, probability: float) -> float:
        """Invert the normal distribution of the logarithm within the truncated range."""
        below, above = self._cut()
        log_s = self._logarithm().inv_cdf(below + (above - below) * probability)
        return min(max(math.exp(log_s), self.low_s), self.high_s)

    def _logarithm(self) -> NormalDist:
        variance = math.log1p((self.deviation_s / self.mean_s) ** 2)
        return NormalDist(math.log(self.mean_s) - variance / 2, math.sqrt(variance))

    def _cut(self) -> tuple[float, float]:
        normal = self._logarithm()
        below = normal.cdf(math.log(self.low_s)) if self.low_s > 0 else 0.0
        return below, normal.cdf(math.log(self.high_s)) if self.high_s < math.inf else 1.0


@dataclass(frozen=True, slots=True)
class Measured:
    """Times that were measured, each equally likely; `times_s` are in increasing order."""

    times_s: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.times_s:
            raise ValueError("no time is measured")
        if not all(0 <= time_s < math.inf for time_s in self.times_s):
            raise ValueError("a measured time is no duration")

    @classmethod
    def of(cls, times_s: Sequence[float]) -> Measured:
        """The times in any order."""
        return cls(tuple(sorted(map(float, times_s))))

    def quantile_s(self, probability: float) -> float:
        """Return the time at this place in their order."""
        return self.times_s[int(probability * len(self.times_s))]


T1 = Lognormal(mean_s=0.10, deviation_s=0.04, low_s=0.05, high_s=0.2)
T2 = Lognormal(mean_s=0.065, deviation_s=0.012, low_s=0.05, high_s=0.2)
NAMED: Mapping[str, Distribution] = {"t1": T1, "t2": T2}


@dataclass(frozen=True, slots=True)
class ComputeTime:
    """The compute times of one site: draws from a distribution, times a factor.

    They are the times of steps on `batch` samples, the workload's own batch. None means that it has
    no batch. A draw of `delay` is added.
    """

    distribution: Distribution
    seed: int
    rank: int
    factor: float = 1.0
    batch: int | None = None
    delay: Distribution = Constant(0.0)

    def time_s(self, iteration: int, batch: int | None = None) -> float:
        """Return the duration of one iteration in seconds; without the delay, linear in the batch.

        Args:
            iteration: the number of the iteration, from 0 on.
            batch: the samples per step in this iteration; None for the workload's own batch.

        Raises ValueError for a batch that is no whole number above 0, and for any batch if the
        workload has none.
        """
        probability = uniform(self.seed, self.rank, iteration)
        own_s = self.factor * self.distribution.quantile_s(probability)
        delay_s = self.delay.quantile_s(uniform(self.seed, self.rank, iteration, "delay"))
        if batch is None:
            return own_s + delay_s
        if self.batch is None:
            raise ValueError(f"batch: {batch}: expected none, the workload has no batch")
        if type(batch) is not int or batch < 1:
            raise ValueError(f"batch: {batch!r}: expected a whole number above 0")
        return own_s * (batch / self.batch) + delay_s


def uniform(seed: int, rank: int, iteration: int, what: str = "compute") -> float:
    """Return a number in (0, 1), always the same for its arguments and uniform over all of them."""
    key = f"{what} {seed} {rank} {iteration}".encode()
    word = int.from_bytes(hashlib.blake2b(key, digest_size=8).digest(), "big")
    # 52 bits and a half: exact in a float, never 0 and never 1, where quantiles may be infinite.
    return ((word >> 12) + 0.5) / 2**52


def parse(value: Any, option: str = "compute") -> Distribution:
    """Return the distribution that an option's value describes, with times in seconds.

    Raises OptionError unless the value has one of the forms in `ALLOWED`.
    """
    try:
        match value:
            case str() if value in NAMED:
                return NAMED[value]
            case bool():
                raise ValueError("not a time")
            case int() | float():
                return Constant(float(value))
            case [int() | float() as low, int() | float() as high]:
                return Uniform(float(low), float(high))
            case {"lognormal": dict(parameters), **rest} if not rest:
                return _parse_lognormal(parameters)
            case {"measured": [*times_s], **rest} if not rest:
                return Measured.of(times_s)
    except (TypeError, ValueError) as error:
        raise OptionError(option, value, f"{ALLOWED} ({error})") from error
    raise OptionError(option, value, ALLOWED)


def _parse_lognormal(parameters: Mapping[str, Any]) -> Lognormal:
    for key in ("mean", "deviation"):
        if key not in parameters:
            raise ValueError(f"{key} is missing")
    for key, value in parameters.items():
        if key not in ("mean", "deviation", "low", "high"):
            raise ValueError(f"{key} is no parameter of a lognormal")
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"{key} is not a time")
    return Lognormal(**{f"{key}_s": float(value) for key, value in parameters.items()})


def parse_for(value: Any, rank: int, sites: Sites) -> Distribution:
    """Return the distribution of the site `rank`; a mapping may have one for each site.

    The value is right (`check_sites`).
    """
    if not _is_by_site(value):
        return parse(value)
    names = () if isinstance(sites, int) else (sites[rank],)
    keys = (*names, rank, str(rank), OTHERS)
    return parse(next(value[key] for key in keys if key in value))


OTHERS = "others"
"""The key of the time of all sites that are not named."""


def check_sites(value: Any, sites: Sites) -> None:
    """Raise OptionError for a wrong distribution, or for sites that are missing or named twice."""
    if not _is_by_site(value):
        parse(value)
        return
    found: set[int] = set()
    for site, own in value.items():
        if site == OTHERS:
            parse(own, f"compute.{site}")
            continue
        named = find_rank("compute", site, sites)
        if named in found:
            raise OptionError(f"compute.{site}", own, "each site once")
        found.add(named)
        parse(own, f"compute.{site}")
    names = range(sites) if isinstance(sites, int) else sites
    missing = [str(name) for number, name in enumerate(names) if number not in found]
    if missing and OTHERS not in value:
        lacking = f"{', '.join(missing)} {'has' if len(missing) == 1 else 'have'} none"
        raise OptionError("compute", value, f"a time for each site: {lacking}; or {OTHERS}: a time")


def median_s(value: Any) -> float:
    """Return the median of a distribution, or that of the sites' medians. Raises OptionError."""
    if _is_by_site(value):
        return median(map(median_s, value.values()))
    return parse(value).quantile_s(0.5)


def _is_by_site(value: Any) -> bool:
    return isinstance(value, Mapping) and not any(key in FORMS for key in value)


def slowdown_factor(slowdown: Mapping[Any, float] | None, rank: int, sites: Sites) -> float:
    """Return the factor by which `slowdown` slows down the site `rank`; 1 if it is not named.

    Keys of `slowdown` are ranks or, if `sites` are names, also names.
    Raises OptionError for an unknown site, a site named twice, or a factor that is not above 0.
    """
    factors = _by_rank("slowdown", slowdown or {}, sites, positive(1e6))
    return factors.get(rank, 1.0)


def delay_of(delay_s: Any, rank: int, sites: Sites) -> Distribution:
    """Return the distribution of the delay of the site `rank`; always 0 if it is not named.

    Raises OptionError unless `delay_s` has one of the forms in `ALLOWED`, or is a mapping of sites
    to seconds.
    """
    if isinstance(delay_s, Mapping) and "lognormal" not in delay_s:
        delays_s = _by_rank("delay", delay_s, sites, DELAYS)
        return Constant(delays_s.get(rank, 0.0))
    return parse(delay_s, "delay")


def for_site(
    rank: int,
    sites: Sites,
    seed: int,
    compute_s: Any,
    factor: float,
    slowdown: Any,
    batch: int | None = None,
    delay_s: Any = 0.0,
) -> ComputeTime:
    """Return the compute times of the site `rank` by the options that all kinds share.

    `batch` is the workload's own batch; None if it has none.
    """
    factor *= slowdown_factor(slowdown, rank, sites)
    delay = delay_of(delay_s, rank, sites)
    return ComputeTime(parse_for(compute_s, rank, sites), seed, rank, factor, batch, delay)


def of_options(
    rank: int,
    sites: Sites,
    seed: int,
    *,
    compute_s: Any,
    compute_factor: float = 1.0,
    slowdown: Any = None,
    batch: int | None = None,
    delay_s: Any = 0.0,
    **_: Any,
) -> ComputeTime:
    """Return the compute times of the site `rank` by all options of a kind that has these."""
    return for_site(rank, sites, seed, compute_s, compute_factor, slowdown, batch, delay_s)


def problems(sites: Sites, options: Mapping[str, Any]) -> list[OptionError]:
    """Return what is wrong with `compute_s`, `compute_factor`, `slowdown` and `delay_s`."""
    found = find_broken({"compute_factor": positive(1e6)}, options)
    checks: tuple[Callable[[], object], ...] = (
        lambda: check_sites(options.get("compute_s", 0.0), sites),
        lambda: slowdown_factor(options.get("slowdown"), 0, sites),
        lambda: delay_of(options.get("delay_s", 0.0), 0, sites),
    )
    for check in checks:
        try:
            check()
        except OptionError as error:
            found.append(error)
    return found


def _by_rank(option: str, values: Mapping[Any, Any], sites: Sites, rule: Rule) -> dict[int, float]:
    """The values of an option that names sites, by rank."""
    found: dict[int, float] = {}
    for site, value in values.items():
        rank = find_rank(option, site, sites)
        if rank in found:
            raise OptionError(f"{option}.{site}", value, "each site once")
        if not rule.holds(value):
            raise OptionError(f"{option}.{site}", value, rule.allowed)
        found[rank] = float(value)
    return found
