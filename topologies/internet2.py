"""Nine sites and thirteen edges of a simplified Internet2 (NetStorm's testbed)."""

from __future__ import annotations

import random
import sys
from pathlib import Path

if __name__ == "builtins":  # exec()ed by `mn --custom`, which leaves the package unimportable
    sys.path.insert(0, str(Path(sys._getframe().f_code.co_filename).resolve().parents[1]))

from topologies.mininet_topo import mininet_topo
from topologies.model import Topology, TopologyError
from topologies.options import Delays, Rates, Sites, both_ways, overlay, parse_sites

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
"""Undirected, by the paper's site numbers; site number k has rank k - 1."""


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
) -> Topology:
    """The overlay of the NetStorm paper; every direction of an edge has its own rate.

    Options:
        sites: nine names or regions, in the order of the paper's numbers; n1 to n9 by default.
        rates_mbps: one rate, [low, high] (uniform), n2, intercloud, skyplane, or src -> dst ->
            rate.
        delays_ms: likewise, one-way, without n2.
        jitter_ms, loss_percent, queue_bytes: of every link.
        rate_factor: multiplies every rate; a model as much smaller then takes as long.
    """
    places = parse_sites(sites)
    if len(places) != 9:
        raise TopologyError(f"sites: {len(places)}: allowed are nine", key="sites")
    return overlay(
        "internet2",
        places,
        both_ways([(places[one - 1].name, places[other - 1].name) for one, other in EDGES]),
        rng,
        rates_mbps=rates_mbps,
        delays_ms=delays_ms,
        jitter_ms=jitter_ms,
        loss_percent=loss_percent,
        queue_bytes=queue_bytes,
        rate_factor=rate_factor,
    )


topos = {"internet2": mininet_topo(build)}
