"""The distribution of training samples among the sites."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

Indexes = NDArray[np.int64]
Kind = Literal["iid", "dirichlet"]


def deal(
    kind: Kind, labels: NDArray[np.uint8], sites: int, alpha: float, rng: np.random.Generator
) -> list[Indexes]:
    """Return the indexes of each site's samples.

    Args:
        kind: `iid` or `dirichlet`.
        labels: the class of each sample, of shape (samples,).
        sites: the number of sites.
        alpha: the parameter of the Dirichlet distribution, for `dirichlet` only.
        rng: where random values come from.
    """
    if kind == "dirichlet":
        return dirichlet(labels, sites, alpha, rng)
    return iid(labels.size, sites, rng)


def iid(samples: int, sites: int, rng: np.random.Generator) -> list[Indexes]:
    """Return the indexes of each site's samples: random, and as even as possible."""
    return np.array_split(rng.permutation(samples), sites)


def dirichlet(
    labels: NDArray[np.uint8], sites: int, alpha: float, rng: np.random.Generator
) -> list[Indexes]:
    """Share each class in proportions drawn from a symmetric Dirichlet distribution.

    With a small `alpha` a site has few classes; with a large one every site has all classes (Hsu et
    al., "Measuring the effects of non-identical data distribution", 2019). A site without samples
    gets one from the largest shard.
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
