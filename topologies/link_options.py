"""The options that builders share, and the links that they give.

Rates and delays may be one number, a uniform range, a measured matrix, a matrix in a CSV file, or
an explicit value for each link. Every directed link gets its own value. Values are drawn in link
order, all rates before all delays, so that the same seed gives the same network.
"""

from __future__ import annotations

import functools
import math
import random
from collections.abc import Sequence
from typing import Annotated, Literal, get_args

from trunkline.topologies.formats import csv_file
from trunkline.topologies.formats.network_file import ReadFile, list_some
from trunkline.topologies.formats.quantities import RATE, TIME, Unit
from trunkline.topologies.links import Link, TopologyError
from trunkline.topologies.model import MAX_SITES, Site, Topology, check_link_count
from trunkline.topologies.rates.matrix import Matrix, MatrixName, Pair, load_matrix

Sites = int | list[str] | dict[str, str]
"""A count (n1, n2, ...), a list of names or of regions (`aws:us-east-1`), or name -> region."""

Explicit = dict[str, dict[str, float]]
"""src -> dst -> value, one for every link of the overlay."""

CsvFile = Annotated[str, "*.csv"]
"""The name of a file with a matrix, see `csv_file`."""

Rates = float | tuple[float, float] | Literal["n1", "n2"] | MatrixName | Explicit | CsvFile
"""One rate in Mbit/s, a range, CREW's N1 or N2, a measured matrix, or a rate for each link."""

Delays = float | tuple[float, float] | MatrixName | Explicit | CsvFile
"""One one-way delay in ms, a uniform range, half the measured round trips, or one for each link."""

DELAY_MS = 30.0
"""The default one-way delay: that of the NetStorm testbed."""

_OPTIONS = {"rate_mbps": "rates_mbps", "delay_ms": "delays_ms"}


def parse_sites(sites: Sites) -> tuple[Site, ...]:
    """The sites of the option `sites`, in its order.

    In a list, a region gives its site the name: `aws:us-east-1` becomes `aws-us-east-1`.

    Raises:
        TopologyError: fewer than 2 or more than MAX_SITES sites.
    """
    count = sites if isinstance(sites, int) else len(sites)
    if not 2 <= count <= MAX_SITES:
        raise TopologyError(f"sites: {count}: expected 2 to {MAX_SITES}", key="sites")
    if isinstance(sites, int):
        return tuple(Site(f"n{number}") for number in range(1, sites + 1))
    if isinstance(sites, dict):
        return tuple(Site(name, region) for name, region in sites.items())
    return tuple(
        Site(item.replace(":", "-"), item) if ":" in item else Site(item) for item in sites
    )


def build_overlay(
    name: str,
    sites: Sequence[Site],
    pairs: Sequence[Pair],
    rng: random.Random,
    *,
    rates_mbps: Rates,
    delays_ms: Delays | None,
    jitter_ms: float,
    loss_percent: float,
    queue_bytes: int | None,
    rate_factor: float,
    read: ReadFile,
) -> Topology:
    """Build a topology with one link for each directed pair of site names.

    Args:
        name: the name of the topology.
        sites: its sites, in the order of their ranks.
        pairs: the links, as (source site, destination site).
        rng: where random values come from.
        rates_mbps: the rates of links, see `Rates`.
        delays_ms: their one-way delays, see `Delays`; None is half the measured round trips if the
            rates are measured, else 30 ms.
        jitter_ms: the jitter of every link.
        loss_percent: the loss of every link.
        queue_bytes: the queue of every link; None is the default size.
        rate_factor: multiplies every rate.
        read: reads the CSV files that `rates_mbps` and `delays_ms` name.

    Raises:
        TopologyError: an option lacks the value of a link, or a value is impossible; the error's
            key is the option.
    """
    check_link_count(len(pairs))
    if not 0 < rate_factor < math.inf:
        raise TopologyError(f"rate_factor: {rate_factor}: expected above 0", key="rate_factor")
    regions = {site.name: site.region for site in sites}
    rates = _draw_rates(rates_mbps, pairs, regions, rng, read)
    delays = _draw_delays(_default_delays(delays_ms, rates_mbps), pairs, regions, rng, read)
    links = tuple(
        Link(src, dst, rate_factor * rate, delay, jitter_ms, loss_percent, queue_bytes)
        for (src, dst), rate, delay in zip(pairs, rates, delays, strict=True)
    )
    try:
        return Topology(name, tuple(sites), links)
    except TopologyError as error:
        raise error.with_keys(lambda key: _OPTIONS.get(key, key)) from None


def both_ways(edges: Sequence[Pair]) -> list[Pair]:
    """Both directed pairs of each undirected edge, one after the other."""
    return [pair for src, dst in edges for pair in ((src, dst), (dst, src))]


def draw_n1(rng: random.Random) -> float:
    """Draw a rate in Mbit/s from CREW's N1: rates measured between regions of Amazon EC2.

    The paper does not publish its measurements. Here they are the 228 of the matrix `intercloud`:
    one TCP flow between small VMs, 19 to 830 Mbit/s, 47 in the median and 100 in the mean.
    """
    return rng.choice(_list_ec2_rates())


@functools.cache
def _list_ec2_rates() -> list[float]:
    measured = load_matrix("intercloud").rates_mbps.items()
    return [rate for pair, rate in measured if all(place.startswith("aws:") for place in pair)]


def draw_n2(rng: random.Random) -> float:
    """Draw a rate in Mbit/s from CREW's N2: `25 * k` with an integer k in [1, 10] from N(5, 1).

    The paper does not say how k becomes such an integer. Here the sample is rounded to the nearest
    integer and drawn again if it is out of range, which hardly ever happens: the limits are 4.5
    deviations below and 5.5 above the mean.
    """
    while True:
        k = round(rng.normalvariate(5.0, 1.0))
        if 1 <= k <= 10:
            return 25.0 * k


_DRAWS = {"n1": draw_n1, "n2": draw_n2}


def _draw_rates(
    option: Rates,
    pairs: Sequence[Pair],
    regions: dict[str, str],
    rng: random.Random,
    read: ReadFile,
) -> list[float]:
    if not isinstance(option, str):
        return _draw_numbers("rates_mbps", option, pairs, rng)
    if option in _DRAWS:
        return [_DRAWS[option](rng) for _ in pairs]
    if option.endswith(".csv"):
        return _read_file("rates_mbps", option, RATE, pairs, read)
    matrix = _find_matrix("rates_mbps", option, tuple(_DRAWS))
    return matrix.rates(_region_pairs("rates_mbps", option, pairs, regions))


def _default_delays(delays_ms: Delays | None, rates_mbps: Rates) -> Delays:
    if delays_ms is not None:
        return delays_ms
    measured: tuple[MatrixName, ...] = get_args(MatrixName)
    return next((name for name in measured if name == rates_mbps), DELAY_MS)


def _draw_delays(
    option: Delays,
    pairs: Sequence[Pair],
    regions: dict[str, str],
    rng: random.Random,
    read: ReadFile,
) -> list[float]:
    if not isinstance(option, str):
        return _draw_numbers("delays_ms", option, pairs, rng)
    if option.endswith(".csv"):
        return _read_file("delays_ms", option, TIME, pairs, read)
    matrix = _find_matrix("delays_ms", option)
    return matrix.delays(_region_pairs("delays_ms", option, pairs, regions))


def _draw_numbers(
    key: str,
    option: float | tuple[float, float] | list[float] | Explicit,
    pairs: Sequence[Pair],
    rng: random.Random,
) -> list[float]:
    if isinstance(option, dict):
        return _read_explicit(key, option, pairs)
    if isinstance(option, (tuple, list)):
        if len(option) != 2 or not 0 <= option[0] <= option[1] < math.inf:
            raise TopologyError(
                f"{key}: {list(option)}: expected [low, high], 0 <= low <= high", key=key
            )
        return [rng.uniform(*option) for _ in pairs]
    return [float(option)] * len(pairs)


def _read_explicit(key: str, option: Explicit, pairs: Sequence[Pair]) -> list[float]:
    given = {(src, dst): value for src, row in option.items() for dst, value in row.items()}
    for what, ends in (
        ("no value for", [pair for pair in pairs if pair not in given]),
        ("no such link:", sorted(given.keys() - set(pairs))),
    ):
        if ends:
            named = ", ".join(f"{src} -> {dst}" for src, dst in ends)
            raise TopologyError(f"{key}: {what} {named}; give each link exactly one", key=key)
    return [float(given[pair]) for pair in pairs]


def _read_file(
    key: str, name: str, unit: Unit, pairs: Sequence[Pair], read: ReadFile
) -> list[float]:
    """The values of links in a matrix; values of other pairs are not used."""
    try:
        values = csv_file.read_matrix(read(name), unit).values
    except TopologyError as error:
        texts = (f"{key}: {name!r}: {text}" for text in error.problems)
        raise TopologyError("\n".join(texts), key=key) from None
    if missing := [f"{src} -> {dst}" for src, dst in pairs if (src, dst) not in values]:
        raise TopologyError(f"{key}: {name!r}: no value for {list_some(missing)}", key=key)
    return [values[pair] for pair in pairs]


def _find_matrix(key: str, option: str, others: Sequence[str] = ()) -> Matrix:
    names: tuple[MatrixName, ...] = get_args(MatrixName)
    for name in names:
        if name == option:
            return load_matrix(name)
    raise TopologyError(
        f"{key}: {option!r}: expected one of {', '.join([*others, *names])}, a number, "
        "[low, high], a CSV file or a value for each link",
        key=key,
    )


def _region_pairs(
    key: str, option: str, pairs: Sequence[Pair], regions: dict[str, str]
) -> list[Pair]:
    bare = [name for name, region in regions.items() if not region]
    if bare:
        raise TopologyError(
            f"{key}: {option!r} needs a measured region for every site; {', '.join(bare)} have "
            "none: give sites as {name: 'aws:us-east-1', ...} or as a list of regions",
            key=key,
        )
    return [(regions[src], regions[dst]) for src, dst in pairs]
