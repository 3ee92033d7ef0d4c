"""Spanning trees over an overlay: how to grow them, compare them, and make blocks of them (pure).

Plans over trees differ in the trees that they choose; they share this module. A tree maps each site
except the root to its parent, the next site towards the root.
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
from trunkline.agents.planning.routes import By, route_rates_mbps, routes

Parents = Mapping[str, str]
"""A tree: site -> parent, for every site of the tree but its root."""

Cost = tuple[float, ...]
"""The cost of reaching a site of a growing tree. Tuples compare in order; less is better."""

Value = TypeVar("Value")

Pull = Literal["reversed", "own"]
"""`reversed`: the result comes down the tree that the contributions went up; `own`: it comes down
another tree, chosen by the rates away from the root."""


def require_pair(request: PlanRequest) -> None:
    """Raise PlanError for a group of fewer than two sites."""
    if len(request.group) < 2:
        raise PlanError(f"a tree needs at least two sites, got {len(request.group)}")


def route_closure(request: PlanRequest) -> tuple[dict[Directed, Edge], dict[Directed, float]]:
    """The route of every ordered pair of members, and the rate in Mbit/s of each route."""
    found = routes(itertools.permutations(request.group, 2), request.rates_mbps)
    return found, route_rates_mbps(found, request.rates_mbps)


def grow(
    root: str, links: Iterable[Directed], cost: Callable[[Cost, Directed], Cost]
) -> dict[str, str]:
    """Grow a tree from its root: always add the site that is cheapest to reach.

    With a sum along the path as the cost, these are the shortest paths (Dijkstra). With the weight
    of the last link as the cost, it is a minimum spanning tree (Prim). Ties go to fewer edges to
    the root, then to site names.

    Args:
        root: the site at which the tree begins.
        links: the (child, parent) pairs that the tree may use.
        cost: (cost of the parent, (child, parent)) -> cost of the child; the root's is `(0.0,)`.

    Raises:
        PlanError: a site of the links has no path to the root.
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
        text = f"there is no path from {', '.join(lost)} to {root} over the overlay"
        raise PlanError(text, (*lost, root))
    return tree


def grow_shortest(root: str, weights: Mapping[Directed, float]) -> dict[str, str]:
    """The tree of the shortest paths to the root; the length is the sum of the weights."""
    return grow(root, weights, lambda reached, link: (reached[0] + weights[link],))


def compute_delay(tree: Parents, weights: Mapping[Directed, float]) -> float:
    """The largest sum of weights from a site to the root (NetStorm, Theorem 1, equation (2)).

    The weight of a link is the time to transfer one unit of data. The result is in the same unit
    and includes the time that inner nodes wait for their slowest child.
    """
    return max(sum(weights[link] for link in path_to_root(tree, site)) for site in tree)


def path_to_root(tree: Parents, site: str) -> list[Directed]:
    """The (child, parent) links of the tree from a site to the root."""
    links = []
    while site in tree:
        links.append((site, tree[site]))
        site = tree[site]
    return links


def prune(tree: Parents, keep: Collection[str]) -> dict[str, str]:
    """The part of the tree on the paths from the sites in `keep` to the root."""
    return dict(link for site in keep for link in path_to_root(tree, site))


def reverse_links(links: Mapping[Directed, Value]) -> dict[Directed, Value]:
    """Reverse every link, so that a tree towards a root can be grown by the rates away from it."""
    return {(dst, src): value for (src, dst), value in links.items()}


def build_block(
    request: PlanRequest,
    chunks: Chunks,
    root: str,
    inward: Parents,
    outward: Parents | None = None,
    by: By = "rate",
) -> Block:
    """A block whose contributions go up the tree `inward` and whose result comes down `outward`.

    Without `outward` the result comes down the same tree. Edges that the overlay lacks become
    source routes, the shortest `by` their rates or hops.
    """
    up = list(inward.items())
    down = [(parent, child) for child, parent in (inward if outward is None else outward).items()]
    found = routes([*up, *down], request.rates_mbps, by)
    return Block(
        chunks, root, tuple(found[edge] for edge in up), tuple(found[edge] for edge in down)
    )


def build_forest(
    request: PlanRequest, trees: Sequence[tuple[str, Parents]], weights: Sequence[float]
) -> Plan:
    """A plan whose (root, tree) pairs share the chunks in proportion to the weights."""
    shares = {str(number): weight for number, weight in enumerate(weights) if weight > 0}
    blocks = tuple(
        build_block(request, chunks, *trees[int(number)])
        for number, chunks in request.split(shares).items()
    )
    return Plan(request.group, request.group, request.chunk_count, blocks)


def count_uses(tree: Parents, found: Mapping[Directed, Edge]) -> Counter[Directed]:
    """How often data that goes up and then down the tree crosses each link of the overlay.

    `found` has the routes of the tree's edges.
    """
    edges = [edge for link in tree.items() for edge in (link, (link[1], link[0]))]
    return Counter(hop for edge in edges for hop in itertools.pairwise(found[edge]))


def pipeline_rate_mbps(load: Counter[Directed], rates_mbps: Mapping[Directed, float]) -> float:
    """The rate in Mbit/s of a pipeline that crosses each link `load` times, on its own."""
    return min(rates_mbps[link] / times for link, times in load.items())
