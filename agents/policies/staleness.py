"""Weights that favour fresh models in a partial reduce (P-Reduce, "Dynamic", equation (9); pure).

In a group whose iterations are k_i, the relative iteration of a site is r_i = max k - k_i + 1. An
exponential moving average over the versions r = 1 .. r_max gives version r the weight

    beta_r = (1 - a) a^(r - 1) / (1 - a^r_max)

Sites with the same version share its weight equally. The weight of a version that no site has goes
to the closest version that a site has, the newer one of two: the second of the paper's two
approximations. Its first one, the initial model x_1 in place of such a version, is not possible
here: a task sums what its members contribute, and no member contributes x_1. The paper gives no
value for `a`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from itertools import pairwise


def compute_weights(iterations: Mapping[str, int], decay: Fraction) -> dict[str, Fraction]:
    """The exact weight of each site, from its iteration; `decay` is a, between 0 and 1.

    Weights sum to 1.
    """
    newest = max(iterations.values())
    relative = {site: newest - iteration for site, iteration in iterations.items()}  # r - 1
    held = sorted(set(relative.values()))
    # Each held version stands for the versions from one edge to the next; their beta_r telescope.
    edges = [0, *((one + other) // 2 + 1 for one, other in pairwise(held)), held[-1] + 1]
    shares = {
        version: (decay**first - decay**after) / (1 - decay ** edges[-1])
        for version, (first, after) in zip(held, pairwise(edges), strict=True)
    }
    holders = Counter(relative.values())
    return {site: shares[version] / holders[version] for site, version in relative.items()}
