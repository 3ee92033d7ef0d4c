"""Spanning trees over an overlay: growing them, weighing them, turning them into blocks (pure).

The plans that synchronize over trees differ in which trees they choose, and share the rest. A
tree is a mapping from each site but the root to its parent, the next site towards the root.
"""

from __future__ import annotations

import heapq
import itertools
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Literal, TypeVar

from trunkline.agents.planning.plan import (
    Block,
    Chunks,
    Directed,
    Edge,
    Plan,
    PlanError,
    PlanRequest,
)
from trunkline.agents.planning.routes import route_rates_mbps, routes

Parents = Mapping[str, str]
"""A tree: site -> parent, for every site of the tree but its root."""

Cost = tuple[float, ...]
"""How dear it is to reach a site of a growing tree; compared like any tuple, less is better."""

Value = TypeVar("Value")

Pull = Literal["reversed", "own"]
"""The result comes down the tree it went up, or a tree chosen by the rates away from the root."""


def require_pair(request: PlanRequest) -> None:
    """Raise `PlanError` for a group of fewer than two, which has nothing to synchronize."""
    if len(request.group) < 2:
        raise PlanError(f"a tree needs at least two sites, got {len(request.group)}")


def route_closure(request: PlanRequest) -> tuple[dict[Directed, Edge], dict[Directed, float]]:
    """Every ordered pair of the group's members: its route, and the rate of that route alone."""
    found = routes(itertools.permutations(request.group, 2), request.rates_mbps)
    return found, route_rates_mbps(found, request.rates_mbps)


def grow(
    root: str, links: Iterable[Directed], cost: Callable[[Cost, Directed], Cost]
) -> dict[str, str]:
    """The tree that starts at the root and always takes in the site that is cheapest to reach.

    `cost(parent's cost, (child, parent))` says how dear a child is; the root's own is `(0.0,)`.
    A sum along the path gives shortest paths (Dijkstra), a link's weight alone gives a minimum
    spanning tree (Prim). Ties go to fewer edges to the root, then to site names. Raises
    `PlanError` if a site of the links has no path to the root.
    """
    children: dict[str, list[str]] = {}
    for child, parent in links:
        children.setdefault(parent, []).append(child)
        children.setdefault(child, [])
    tree: dict[str, str] = {}
    grown: set[str] = set()
    best: dict[str, tuple[Cost, int, str]] = {root: ((0.0,), 0, "")}
    heap = [(*best[root][:2], root)]
    while heap:
        reached, edges, site = heapq.heappop(heap)
        if site in grown:
            continue
        grown.add(site)
        if site != root:
            tree[site] = best[site][2]
        for child in children.get(site, ()):
            found = (cost(reached, (child, site)), edges + 1, site)
            if child not in grown and (child not in best or found < best[child]):
                best[child] = found
                heapq.heappush(heap, (*found[:2], child))
    if lost := sorted(children.keys() - grown):
        raise PlanError(f"there is no path from {', '.join(lost)} to {root} over the overlay")
    return tree


def grow_shortest(root: str, weights: Mapping[Directed, float]) -> dict[str, str]:
    """The union of the shortest paths to the root, by the sum of the weights."""
    return grow(root, weights, lambda reached, link: (reached[0] + weights[link],))


def compute_delay(tree: Parents, weights: Mapping[Directed, float]) -> float:
    """The largest sum of weights from a site to the root (NetStorm, Theorem 1, equation (2)).

    The weight of a link is the time to transfer one unit of data, and so is the answer; an
    inner node's wait for its slowest child is part of it.
    """
    return max(sum(weights[link] for link in path_to_root(tree, site)) for site in tree)


def path_to_root(tree: Parents, site: str) -> list[Directed]:
    """The tree's links from a site to the root, as (child, parent)."""
    links = []
    while site in tree:
        links.append((site, tree[site]))
        site = tree[site]
    return links


def prune(tree: Parents, keep: Collection[str]) -> dict[str, str]:
    """The tree without the sites that are on no path from a site in `keep` to the root."""
    return dict(link for site in keep for link in path_to_root(tree, site))


def reverse_links(links: Mapping[Directed, Value]) -> dict[Directed, Value]:
    """The links seen from their other end: a tree away from a root is one towards it."""
    return {(dst, src): value for (src, dst), value in links.items()}


def build_block(
    request: PlanRequest, chunks: Chunks, root: str, inward: Parents, outward: Parents | None = None
) -> Block:
    """Contributions go up one tree and the result down another, or down the same one.

    Edges that the overlay lacks are source routes.
    """
    up = list(inward.items())
    down = [(parent, child) for child, parent in (inward if outward is None else outward).items()]
    found = routes([*up, *down], request.rates_mbps)
    return Block(
        chunks, root, tuple(found[edge] for edge in up), tuple(found[edge] for edge in down)
    )


def build_forest(
    request: PlanRequest, trees: Sequence[tuple[str, Parents]], weights: Sequence[float]
) -> Plan:
    """A plan of (root, tree) pairs that share the chunks in proportion to the weights."""
    shares = {str(number): weight for number, weight in enumerate(weights) if weight > 0}
    blocks = tuple(
        build_block(request, chunks, *trees[int(number)])
        for number, chunks in request.split(shares).items()
    )
    return Plan(request.group, request.group, request.chunk_count, blocks)


def count_uses(tree: Parents, found: Mapping[Directed, Edge]) -> Counter[Directed]:
    """How often each link of the overlay carries what goes up and then down the tree."""
    edges = [edge for link in tree.items() for edge in (link, (link[1], link[0]))]
    return Counter(hop for edge in edges for hop in itertools.pairwise(found[edge]))


def pipeline_rate_mbps(load: Counter[Directed], rates_mbps: Mapping[Directed, float]) -> float:
    """The rate that a pipeline gets alone which uses the links as often as `load` says."""
    return min(rates_mbps[link] / times for link, times in load.items())
