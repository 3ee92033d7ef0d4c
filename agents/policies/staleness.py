"""Weights that favour fresh models in a partial reduce (P-Reduce, "Dynamic", equation (9); pure).

Of a group whose iterations are k_i, the relative iteration is r_i = max k - k_i + 1. An exponential
moving average over the versions r = 1 .. r_max gives

    beta_r = (1 - a) a^(r - 1) / (1 - a^r_max)

to version r; who has the same version shares its weight equally. What a version that nobody holds
would get goes to the closest one that somebody holds, the newer of two. (The paper's other choice,
the initial model in its place, is not built.) The paper does not say what `a` is.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction


def compute_weights(iterations: Mapping[str, int], decay: Fraction) -> dict[str, Fraction]:
    """Site -> weight, exact and summing to 1, from its iteration; `decay` is a, 0 < a < 1."""
    newest = max(iterations.values())
    relative = {site: newest - iteration for site, iteration in iterations.items()}
    held = sorted(set(relative.values()))
    oldest = held[-1]
    shares = dict.fromkeys(held, Fraction(0))
    for version in range(oldest + 1):
        closest = min(held, key=lambda each: (abs(each - version), each))
        shares[closest] += decay**version
    total = sum(shares.values())
    holders = list(relative.values())
    return {
        site: shares[version] / total / holders.count(version) for site, version in relative.items()
    }
