"""Weights that favour fresh models in a partial reduce (P-Reduce, "Dynamic", equation (9); pure).

In a group whose iterations are k_i, the relative iteration of a site is r_i = max k - k_i + 1. An
exponential moving average over the versions r = 1 .. r_max gives version r the weight

    beta_r = (1 - a) a^(r - 1) / (1 - a^r_max)

Sites with the same version share its weight equally. The paper has two approximations for a version
that no site has: its weight goes to the closest version that a site has (the newer one of two), or
to the initial model x_1. The paper gives no value for `a`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from itertools import pairwise
from typing import Literal

Missing = Literal["closest", "initial"]
"""What gets the weight of a version that no site has."""


def compute_weights(
    iterations: Mapping[str, int], decay: Fraction, missing: Missing = "closest"
) -> dict[str, Fraction]:
    """The exact weight of each site, from its iteration; `decay` is a, between 0 and 1.

    Weights sum to 1; with `initial`, what is missing from 1 is the weight of the initial model.
    """
    newest = max(iterations.values())
    relative = {site: newest - iteration for site, iteration in iterations.items()}  # r - 1
    held = sorted(set(relative.values()))
    # Each held version stands for the versions from one edge to the next; their beta_r telescope.
    edges = [0, *((one + other) // 2 + 1 for one, other in pairwise(held)), held[-1] + 1]
    spans = list(pairwise(edges))
    if missing == "initial":
        spans = [(version, version + 1) for version in held]
    shares = {
        version: (decay**first - decay**after) / (1 - decay ** edges[-1])
        for version, (first, after) in zip(held, spans, strict=True)
    }
    holders = Counter(relative.values())
    return {site: shares[version] / holders[version] for site, version in relative.items()}
