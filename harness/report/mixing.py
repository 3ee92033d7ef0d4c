"""How well the groups of a run spread every site's model (P-Reduce, section 3.2; pure).

A group's synchronization matrix W has, in the row of each member, the members' shares of the sum;
every other site keeps its own model (equation (4), with unequal shares for other weights). E[W] is
the mean over all groups. A group with a server does not count: the paper has no matrix for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

Weights = Mapping[str, float]
"""Each member of a group and its weight, in any scale."""

DIGITS = 9
"""Eigenvalues are rounded to that many digits, so that a 0 is 0."""


def compute_rho(groups: Iterable[Weights], sites: Sequence[str]) -> float:
    """The second largest absolute eigenvalue of E[W] (assumption 2 (3), equation (6)).

    The `sites` are the workers; a group with other members does not count. It is 0 if every group
    has all sites, and 1 if the groups leave parts that never meet; NaN without groups, with a
    single site, or if the weights of a group sum to 0.
    """
    mean = average((group for group in groups if set(group).issubset(sites)), sites)
    if len(sites) < 2 or np.isnan(mean).any():
        return float("nan")
    sizes = np.sort(np.abs(np.linalg.eigvals(mean)))
    return round(float(sizes[-2]), DIGITS)


def average(groups: Iterable[Weights], sites: Sequence[str]) -> np.ndarray:
    """E[W] over these groups: a row for each of the `sites`, whose numbers sum to 1.

    Without groups, its numbers are NaN, and so are those of a group whose weights sum to 0.
    """
    ranks = {site: rank for rank, site in enumerate(sites)}
    total, count = np.zeros((len(sites), len(sites))), 0
    for weights in groups:
        members = [ranks[site] for site in weights]
        shares = np.array(list(weights.values())) / (sum(weights.values()) or float("nan"))
        total += np.eye(len(sites))
        total[members] -= np.eye(len(sites))[members]
        total[np.ix_(members, members)] += shares
        count += 1
    return total / count if count else total * float("nan")
