"""How delays spread around their mean: named shapes, and those of measured delays (pure).

A shape has 4,096 deviations in ascending order, which are equally likely. Their unit is the link's
jitter. The named shapes are those of iproute2's `normal`, `pareto` and `paretonormal`. A shape of
measured delays is written as its quantiles, separated by commas.
"""

from __future__ import annotations

import functools
import math
import statistics
from collections.abc import Sequence

SIZE = 4096
ONE = 8192
"""What the kernel's tables have for a deviation as large as the jitter, in 16 bits."""

MOST = 32767 / ONE

MOST_QUANTILES = 4096


def _uniform(p: float) -> float:
    return 2 * p - 1


def _normal(p: float) -> float:
    return statistics.NormalDist().inv_cdf(p)


def _pareto(p: float) -> float:
    """Pareto's distribution with a = 3, moved and stretched as in iproute2."""
    return float((1 - p) ** (-1 / 3) - 1.5) * 4 / 3


def _pareto_normal(p: float) -> float:
    return (_normal(p) + 3 * min(MOST, _pareto(p))) / 4


_SHAPES = {
    "uniform": _uniform,
    "normal": _normal,
    "pareto": _pareto,
    "paretonormal": _pareto_normal,
}
NAMES = tuple(_SHAPES)


def find_problem(distribution: str) -> str:
    """What is allowed instead of a text that is not a distribution, or an empty text."""
    if distribution in _SHAPES:
        return ""
    allowed = f"one of {', '.join(NAMES)}, or the name of a file of delays (*.csv)"
    try:
        found = [float(word) for word in distribution.split(",")]
    except ValueError:
        return allowed
    if not 2 <= len(found) <= MOST_QUANTILES or not all(map(math.isfinite, found)):
        return allowed
    return "" if found == sorted(found) else "quantiles in ascending order"


@functools.lru_cache(maxsize=64)
def shape(distribution: str) -> tuple[float, ...]:
    """The deviations of a distribution without problems."""
    places = [(i + 0.5) / SIZE for i in range(SIZE)]
    if distribution in _SHAPES:
        values = [_SHAPES[distribution](p) for p in places]
    else:
        found = [float(word) for word in distribution.split(",")]
        values = [interpolate(found, p) for p in places]
    return tuple(max(-MOST, min(MOST, value)) for value in values)


def interpolate(values: Sequence[float], p: float) -> float:
    """The value at a share `p` of two or more ascending values."""
    at = p * (len(values) - 1)
    low = min(int(at), len(values) - 2)
    return values[low] + (at - low) * (values[low + 1] - values[low])
