"""How the training samples are dealt out to the sites."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

Indexes = NDArray[np.int64]
Kind = Literal["iid", "dirichlet"]


def deal(
    kind: Kind, labels: NDArray[np.uint8], sites: int, alpha: float, rng: np.random.Generator
) -> list[Indexes]:
    """Return the indexes of each site's samples; `alpha` is for `dirichlet` only."""
    if kind == "dirichlet":
        return dirichlet(labels, sites, alpha, rng)
    return iid(labels.size, sites, rng)


def iid(samples: int, sites: int, rng: np.random.Generator) -> list[Indexes]:
    """Deal `samples` out at random, as evenly as possible: the indexes of each site."""
    return np.array_split(rng.permutation(samples), sites)


def dirichlet(
    labels: NDArray[np.uint8], sites: int, alpha: float, rng: np.random.Generator
) -> list[Indexes]:
    """Deal each class out in proportions drawn from a symmetric Dirichlet distribution.

    Small `alpha`: a site has few classes; large: every site has all (Hsu et al., "Measuring the
    effects of non-identical data distribution", 2019). No site stays empty as long as there are
    enough samples: it gets one of the largest shard's.
    """
    parts: list[list[Indexes]] = [[] for _ in range(sites)]
    for label in range(int(labels.max()) + 1):
        members = rng.permutation(np.flatnonzero(labels == label))
        shares = np.cumsum(rng.dirichlet(np.full(sites, alpha)))
        cuts = np.round(shares[:-1] * members.size).astype(np.int64)
        for part, piece in zip(parts, np.split(members, cuts), strict=True):
            part.append(piece)
    return _fill_empty([np.concatenate(part) for part in parts])


def _fill_empty(shards: list[Indexes]) -> list[Indexes]:
    for site in range(len(shards)):
        if not shards[site].size:
            largest = max(range(len(shards)), key=lambda other: shards[other].size)
            shards[site] = shards[largest][-1:]
            shards[largest] = shards[largest][:-1]
    return shards
