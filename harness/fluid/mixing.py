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

MANY_SITES = 500
"""Above it, not all eigenvalues are computed: that takes time by the cube of the sites."""

DIGITS = 9
"""Eigenvalues are rounded to that many digits, so that a 0 is 0."""


def compute_rho(groups: Iterable[Weights], sites: Sequence[str]) -> float:
    """The second largest absolute eigenvalue of E[W] (assumption 2 (3), equation (6)).

    The `sites` are the workers; a group with other members does not count. It is 0 if every group
    has all sites, and 1 if the groups leave parts that never meet; NaN without groups, with a
    single site, or if the weights of a group sum to 0.
    """
    inside = [group for group in groups if set(group).issubset(sites)]
    if len(sites) < 2 or not inside or not all(sum(group.values()) for group in inside):
        return float("nan")
    if all(len(group) == len(sites) for group in inside):
        return 0.0  # all rows of E[W] are equal
    mean = average(inside, sites)
    if len(sites) > MANY_SITES:
        return round(_find_second(mean), DIGITS)
    sizes = np.sort(np.abs(np.linalg.eigvals(mean)))
    return round(float(sizes[-2]), DIGITS)


def _find_second(mean: np.ndarray) -> float:
    """The second largest absolute eigenvalue of a large E[W], by Arnoldi's iteration.

    Its rows sum to 1. Without the mean of its columns, it has all its eigenvalues but a 1, and a 0.
    """
    from scipy.sparse import linalg

    rest = mean - mean.mean(axis=0)
    first = np.linspace(1.0, 2.0, len(mean))  # so that the result is always the same
    try:
        found = linalg.eigs(rest, k=1, v0=first, return_eigenvectors=False)
    except linalg.ArpackError:
        return float("nan")
    return float(np.abs(found).max())


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
