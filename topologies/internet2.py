"""A simplified Internet2 of nine sites and thirteen edges (NetStorm's testbed); 5 to 15 sites."""

from __future__ import annotations

import random
import sys
from pathlib import Path

if __name__ == "builtins":  # exec()ed by `mn --custom`, which leaves the package unimportable
    _FOLDERS = Path(sys._getframe().f_code.co_filename).resolve().parents
    sys.path[:0] = [str(_FOLDERS[1] / "src"), str(_FOLDERS[2])]  # of a checkout, or installed

from trunkline.topologies.formats.network_file import ReadFile
from trunkline.topologies.link_options import (
    Delays,
    Rates,
    Sites,
    both_ways,
    build_overlay,
    parse_sites,
)
from trunkline.topologies.links import TopologyError
from trunkline.topologies.mininet_topo import mininet_topo, read_here
from trunkline.topologies.model import Topology

EDGES = (
    (1, 2),
    (1, 3),
    (2, 3),
    (2, 5),
    (3, 4),
    (4, 5),
    (4, 6),
    (5, 7),
    (6, 7),
    (6, 8),
    (6, 9),
    (7, 8),
    (8, 9),
)
"""Undirected edges between the paper's site numbers; site number k has rank k - 1."""

SIZES = range(5, 16)
"""The numbers of sites that the paper uses. It does not say how they are linked. Here fewer than
nine sites are the first ones, with the edges between them. Each site after the ninth has edges to
the two sites before it."""


def edges(count: int) -> tuple[tuple[int, int], ...]:
    """The undirected edges between the first `count` sites, by site number."""
    further = tuple((site - back, site) for site in range(10, count + 1) for back in (2, 1))
    return tuple((a, b) for a, b in (*EDGES, *further) if max(a, b) <= count)


def build(
    rng: random.Random,
    *,
    sites: Sites = 9,
    rates_mbps: Rates = (20.0, 155.0),
    delays_ms: Delays = 30.0,
    jitter_ms: float = 0.0,
    loss_percent: float = 0.02,
    queue_bytes: int | None = None,
    rate_factor: float = 1.0,
    read: ReadFile = read_here,
) -> Topology:
    """The overlay of the NetStorm paper. Each direction of an edge has its own rate.

    Options:
        sites: a count from 5 to 15, or 5 to 15 names or regions in the order of the paper's
            numbers; by default 9, as in the paper.
        rates_mbps: one rate, [low, high] (uniform), n1, n2, intercloud, skyplane, a CSV file with a
            matrix, or src -> dst -> rate.
        delays_ms: one-way delays in the same forms, except n1 and n2.
        jitter_ms, loss_percent, queue_bytes: of every link.
        rate_factor: multiplies every rate. With a model smaller by the same factor, times
            stay the same.
    """
    places = parse_sites(sites)
    if len(places) not in SIZES:
        allowed = f"expected {SIZES[0]} to {SIZES[-1]}"
        raise TopologyError(f"sites: {len(places)}: {allowed}", key="sites")
    names = [place.name for place in places]
    return build_overlay(
        "internet2",
        places,
        both_ways([(names[one - 1], names[other - 1]) for one, other in edges(len(names))]),
        rng,
        rates_mbps=rates_mbps,
        delays_ms=delays_ms,
        jitter_ms=jitter_ms,
        loss_percent=loss_percent,
        queue_bytes=queue_bytes,
        rate_factor=rate_factor,
        read=read,
    )


topos = {"internet2": mininet_topo(build)}
