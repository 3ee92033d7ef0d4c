"""Source routes over an overlay that is not a full mesh (pure)."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterable, Mapping
from typing import Literal

from trunkline.agents.planning.plan import Directed, Edge, PlanError

By = Literal["hops", "rate"]
"""What makes a path short: the number of its hops, as in IP networks, or the sum of 1 / rate."""


def routes(
    pairs: Iterable[Directed], rates_mbps: Mapping[Directed, float], by: By = "rate"
) -> dict[Directed, Edge]:
    """For each ordered pair of sites, the direct link or, without one, the shortest path.

    The length of a path by `rate` is the sum of 1 / rate over its hops: the time to pass one unit
    of data from hop to hop (NetStorm, Section IV). By `hops` it is their number. Ties go to fewer
    hops, then to site names, so the result depends on the arguments only.

    Raises:
        PlanError: a pair has no path.
    """
    if by == "hops":
        rates_mbps = dict.fromkeys(rates_mbps, 1.0)
    trees: dict[str, dict[str, Edge]] = {}
    found: dict[Directed, Edge] = {}
    for src, dst in pairs:
        if (src, dst) in rates_mbps:
            found[src, dst] = (src, dst)
            continue
        if src not in trees:
            trees[src] = shortest_paths(src, rates_mbps)
        if dst not in trees[src]:
            text = f"there is no path from {src} to {dst} over the overlay"
            raise PlanError(text, (src, dst))
        found[src, dst] = trees[src][dst]
    return found


def route_rates_mbps(
    found: Mapping[Directed, Edge], rates_mbps: Mapping[Directed, float]
) -> dict[Directed, float]:
    """The rate in Mbit/s that each route has on its own: the rate of its slowest hop.

    A route that continues another one by a hop takes over the other one's rate.
    """
    slowest: dict[Directed, float] = {}
    for pair in sorted(found, key=lambda pair: len(found[pair])):
        route = found[pair]
        before, last = (route[0], route[-2]), (route[-2], route[-1])
        if found.get(before) == route[:-1]:
            slowest[pair] = min(slowest[before], rates_mbps[last])
        else:
            slowest[pair] = min(rates_mbps[hop] for hop in itertools.pairwise(route))
    return {pair: slowest[pair] for pair in found}


def shortest_paths(src: str, rates_mbps: Mapping[Directed, float]) -> dict[str, Edge]:
    """The shortest path to each site that can be reached; lengths and ties are as in `routes`."""
    neighbours: dict[str, list[str]] = {}
    for a, b in rates_mbps:
        neighbours.setdefault(a, []).append(b)
    best: dict[str, Edge] = {}
    heap: list[tuple[float, int, Edge]] = [(0.0, 1, (src,))]
    while heap:
        cost, length, path = heapq.heappop(heap)
        if path[-1] in best:
            continue
        best[path[-1]] = path
        for site in neighbours.get(path[-1], []):
            if site not in best:
                weight = 1.0 / rates_mbps[path[-1], site]
                heapq.heappush(heap, (cost + weight, length + 1, (*path, site)))
    return best
