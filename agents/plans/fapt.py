"""FAPT: multi-root fastest aggregation path trees (Li et al., NetStorm, Sections III and IV).

The weight w(e) = 1 / throughput(e) is the time to transfer one unit of data. The fastest
aggregation path tree (FAPT) of a root is the union of the shortest paths to it (Definition 2). Its
delay is the largest sum of weights from a leaf to the root (Theorem 1). The quality of a root is
q = 1 / w(FAPT). The roots are the sites with the highest quality (Algorithm 1). Each root has its
own tree (Algorithm 2), and the trees share the chunks in proportion to q (Section IV-C). Sites on
the way aggregate, then forward. Roots and shares are chosen once, by the first rates that were
known. Trees follow the present rates.

Details that the paper leaves open, or that differ here:

- Links are directed. A tree is chosen by the rates towards its root, the direction of
  contributions. The result comes down the shortest paths from the root, by the rates in its own
  direction (`pull: own`), or down the same tree as in the paper (`pull: reversed`). On links that
  are equally fast both ways, as in the paper's graph, the two are the same.
- In the paper the group is all sites. A smaller group uses the same roots, chosen by the trees over
  all sites; branches without a member are cut off.
- Algorithm 2 as printed adds only sites that are not roots to a tree, so nothing if all sites are
  roots. We read it as every site except the tree's own root.
"""

from __future__ import annotations

import itertools

from trunkline.agents.planning.option_types import Count
from trunkline.agents.planning.plan import Plan, PlanError, PlanRequest
from trunkline.agents.planning.trees import (
    Pull,
    build_block,
    compute_delay,
    grow_shortest,
    prune,
    require_pair,
    reverse_links,
)


def build(request: PlanRequest, *, roots: Count | None = None, pull: Pull = "own") -> Plan:
    """One tree for each of the `roots` best sites.

    Options:
        roots: the number of roots; by default all sites are roots (Table II).
        pull: whether results come down a tree of their `own` or the same tree (`reversed`).
    """
    require_pair(request)
    n = len(request.sites)
    if roots is not None and roots > n:
        raise PlanError(f"roots: {roots}: expected 1 to the number of sites, {n}")
    weights = {link: 1.0 / rate for link, rate in request.rates_mbps.items()}
    shares = dict(itertools.islice(rank_roots(request).items(), roots))
    blocks = []
    for root, chunks in request.split(shares).items():
        inward = grow_shortest(root, weights)
        outward = grow_shortest(root, reverse_links(weights)) if pull == "own" else inward
        up, down = prune(inward, request.group), prune(outward, request.group)
        blocks.append(build_block(request, chunks, root, up, down))
    return Plan(request.group, request.group, request.chunk_count, tuple(blocks))


def rank_roots(request: PlanRequest) -> dict[str, float]:
    """The quality of each site as a root, q = 1 / w(FAPT) in Mbit/s, best site first.

    It is computed from the tree over all sites and the first known rates. Ties keep the order of
    the sites.
    """
    weights = {link: 1.0 / rate for link, rate in request.lasting_mbps.items()}
    found = {
        site: 1.0 / compute_delay(grow_shortest(site, weights), weights) for site in request.sites
    }
    return dict(sorted(found.items(), key=lambda item: -item[1]))
