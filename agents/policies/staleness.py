"""Weights that favour fresh models in a partial reduce (P-Reduce, "Dynamic", equation (9); pure).

In a group whose iterations are k_i, the relative iteration of a site is r_i = max k - k_i + 1. An
exponential moving average over the versions r = 1 .. r_max gives version r the weight

    beta_r = (1 - a) a^(r - 1) / (1 - a^r_max)

Sites with the same version share its weight equally. The weight of a version that no site has goes
to the closest version that a site has, the newer one of two. (The paper's alternative, the initial
model in its place, is not implemented.) The paper gives no value for `a`.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction


def compute_weights(iterations: Mapping[str, int], decay: Fraction) -> dict[str, Fraction]:
    """The exact weight of each site, from its iteration; `decay` is a, between 0 and 1.

    Weights sum to 1.
    """
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
