"""FAPT: multi-root fastest aggregation path trees (Li et al., NetStorm, Sections III and IV).

With w(e) = 1 / throughput(e), the time to transfer one unit of data, the fastest aggregation path
tree of a root is the union of the shortest paths to it (Definition 2); its delay is the largest
sum of weights from a leaf to the root (Theorem 1). A root's quality is q = 1 / w(FAPT); the roots
are the sites of the highest quality (Algorithm 1), each has a tree of its own (Algorithm 2), and
chunks are shared among them in proportion to q (Section IV-C). Sites on the way aggregate, then
forward. Roots and shares are chosen once, by the rates known first, trees by the rates of now.

Links are directed here, and a tree is chosen by the rates towards its root, which contributions
take. The result comes down the same tree, as in the paper (`pull: reversed`), or down the
shortest paths from the root (`pull: own`). In the paper the group is all sites. Here it may be
fewer: quality is still that of the tree over all sites, so that the roots do not move from group
to group, and branches that nobody in the group needs are cut off. Algorithm 2 as printed adds
only sites that are no roots to a tree, which leaves nothing when all are roots; every site but
the tree's own root is meant.
"""

from __future__ import annotations

import itertools

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


def build(request: PlanRequest, *, roots: int | None = None, pull: Pull = "reversed") -> Plan:
    """A tree for each of the `roots` best sites.

    Options:
        roots: how many; by default all sites are roots (Table II).
        pull: whether results go down the `reversed` tree, or down one of their `own`.
    """
    require_pair(request)
    n = len(request.sites)
    if roots is not None and not 1 <= roots <= n:
        raise PlanError(f"roots: {roots}: allowed are 1 to the number of sites, {n}")
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
    """Each site's quality as a root of all sites, q = 1 / w(FAPT) in Mbit/s, the best site first.

    By the rates known first. Ties stay in the order of the sites.
    """
    weights = {link: 1.0 / rate for link, rate in request.lasting_mbps.items()}
    found = {
        site: 1.0 / compute_delay(grow_shortest(site, weights), weights) for site in request.sites
    }
    return dict(sorted(found.items(), key=lambda item: -item[1]))
