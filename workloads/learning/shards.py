"""Training samples, shared among the sites (pure).

`dirichlet` draws the sites' shares of each class, so shards differ in size. The others draw the
classes' shares of each site, which has a concentration of its own: so R2SP makes clients whose
samples are mostly of one class (Zhang et al. 2025, VI-B1). With `independent-dirichlet`, each site
then draws its samples on its own, as in their paper, and a sample may be in several shards. With
all others, every sample is in exactly one shard. For that, `even-dirichlet` fits the drawn shares
to the numbers of samples that there are: what an outlier has of a class, the other sites lack.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from trunkline.workloads.option_rules import OptionError, Sites, find_rank

if TYPE_CHECKING:
    from numpy.typing import NDArray

Indexes: TypeAlias = "NDArray[np.int64]"
Table: TypeAlias = "NDArray[np.float64]"
"""Numbers of samples, of shape (sites, classes)."""

Kind = Literal["iid", "dirichlet", "even-dirichlet", "independent-dirichlet"]
Outliers: TypeAlias = float | tuple[str, ...]
"""A share of the sites, or their names (or ranks)."""

OUTLIERS = 2
"""The first word of the seed of the random numbers that choose outliers."""

FITS = 1000
"""How often a table is scaled at most; 128 sites need about 30 times."""

SMALLEST_SHARE = 1e-6
"""A class that a site was not given by its draw has this share: then every table can be fitted."""


def deal(
    kind: Kind, labels: NDArray[np.uint8], alphas: Table, rng: np.random.Generator
) -> list[Indexes]:
    """Return the indexes of each site's samples.

    Args:
        kind: one of `Kind`.
        labels: the class of each sample, of shape (samples,).
        alphas: the parameter of each site's Dirichlet distribution, of shape (sites,); `dirichlet`
            needs the same one for all sites, and `iid` none.
        rng: where random values come from.

    Raises OptionError if there are fewer samples than sites.
    """
    sites = alphas.size
    if labels.size < sites:
        raise OptionError("data", f"{labels.size} samples", f"a sample for each of {sites} sites")
    if kind == "dirichlet":
        return dirichlet(labels, sites, float(alphas[0]), rng)
    if kind == "even-dirichlet":
        return even_dirichlet(labels, alphas, rng)
    if kind == "independent-dirichlet":
        return independent_dirichlet(labels, alphas, rng)
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


def even_dirichlet(
    labels: NDArray[np.uint8], alphas: Table, rng: np.random.Generator
) -> list[Indexes]:
    """Give every site as many samples, with the classes in proportions that are drawn for it.

    The parameter of site i's symmetric Dirichlet distribution is `alphas[i]`.
    """
    classes, counts = np.unique(labels, return_counts=True)
    sizes = np.array([part.size for part in np.array_split(labels, alphas.size)])
    shares = np.stack([rng.dirichlet(np.full(classes.size, alpha)) for alpha in alphas])
    table = _fit(np.maximum(shares, SMALLEST_SHARE), sizes, counts)
    parts: list[list[Indexes]] = [[] for _ in alphas]
    for label, column in zip(classes, table.T, strict=True):
        members = rng.permutation(np.flatnonzero(labels == label))
        for part, piece in zip(parts, np.split(members, np.cumsum(column)[:-1]), strict=True):
            part.append(piece)
    return [np.concatenate(part) for part in parts]


def independent_dirichlet(
    labels: NDArray[np.uint8], alphas: Table, rng: np.random.Generator
) -> list[Indexes]:
    """Let every site draw as many samples on its own, by classes in proportions drawn for it.

    The parameter of site i's symmetric Dirichlet distribution is `alphas[i]`. No sample is twice in
    a shard, unless the site draws more samples of a class than there are.
    """
    classes = np.unique(labels)
    members = [np.flatnonzero(labels == label) for label in classes]
    shards = []
    for alpha, part in zip(alphas, np.array_split(labels, alphas.size), strict=True):
        counts = rng.multinomial(part.size, rng.dirichlet(np.full(classes.size, alpha)))
        drawn = [
            rng.choice(each, count, replace=bool(count > each.size))
            for each, count in zip(members, counts, strict=True)
        ]
        shards.append(np.concatenate(drawn))
    return shards


def find_outliers(outliers: Outliers, sites: Sites, seed: int) -> tuple[int, ...]:
    """Return the ranks of the outliers, in ascending order.

    A share of the sites is rounded to the nearest number of sites, which the seed chooses.
    Raises OptionError for a share that is not from 0 to 1, and for a site that does not exist.
    """
    if isinstance(outliers, tuple | list):
        return tuple(sorted({find_rank("outliers", site, sites) for site in outliers}))
    if isinstance(outliers, bool) or not 0 <= outliers <= 1:
        raise OptionError("outliers", outliers, "a share from 0 to 1, or a list of sites")
    count = sites if isinstance(sites, int) else len(sites)
    if not (outlying := round(outliers * count)):
        return ()
    chosen = np.random.default_rng((OUTLIERS, seed)).permutation(count)
    return tuple(sorted(map(int, chosen[:outlying])))


def problems(sites: Sites, options: Mapping[str, Any]) -> list[OptionError]:
    """Return what is wrong with `outliers`."""
    outliers, kind = options.get("outliers", 0.0), options.get("shards", "iid")
    try:
        find_outliers(outliers, sites, 0)
    except OptionError as error:
        return [error]
    if outliers and kind not in ("even-dirichlet", "independent-dirichlet"):
        return [OptionError("outliers", outliers, f"none with shards: {kind}")]
    return []


def _fit(shares: Table, sizes: Indexes, counts: Indexes) -> Indexes:
    """Scale rows and columns in turn until they add up (Deming and Stephan 1940), then round.

    Rows then add up to `sizes`, columns to `counts`. What the shares say of the classes of a site
    relative to another site stays as it is.
    """
    table = shares
    for _ in range(FITS):
        table = table * (sizes / table.sum(axis=1))[:, None]
        too_many = table.sum(axis=0) / counts
        if np.abs(too_many - 1).max() < SMALLEST_SHARE:
            break
        table = table / too_many
    # From here on, no row and no column has too much, however well the table fits.
    table = table / np.maximum(1, table.sum(axis=0) / counts)
    table = table / np.maximum(1, table.sum(axis=1) / sizes)[:, None]
    whole: Indexes = np.floor(table).astype(np.int64)
    rows, columns = sizes - whole.sum(axis=1), counts - whole.sum(axis=0)
    largest_first = np.argsort(whole - table, axis=None, kind="stable")
    while rows.any():
        for cell in largest_first:
            site, label = divmod(int(cell), counts.size)
            if rows[site] and columns[label]:
                whole[site, label] += 1
                rows[site] -= 1
                columns[label] -= 1
    return whole


def _fill_empty(shards: list[Indexes]) -> list[Indexes]:
    for site in range(len(shards)):
        if not shards[site].size:
            largest = max(range(len(shards)), key=lambda other: shards[other].size)
            shards[site] = shards[largest][-1:]
            shards[largest] = shards[largest][:-1]
    return shards
