"""BKT: a static, balanced k-way tree, as in MLNET (NetStorm, Sections II-A and IX-B, baseline).

The sites are filled in by rank, level by level, whatever the network is like: the tree does not
look at rates. Inner sites aggregate, then forward; the result comes down the same tree.
"""

from __future__ import annotations

from trunkline.agents.planning.plan import Plan, PlanError, PlanRequest
from trunkline.agents.planning.trees import build_block, require_pair


def build(request: PlanRequest, *, k: int = 2) -> Plan:
    """One tree of the group in which every inner site has `k` children, the last one maybe fewer.

    Edges that the overlay lacks are source routes.

    Options:
        k: children of an inner site.
    """
    require_pair(request)
    if k < 1:
        raise PlanError(f"k: {k}: allowed is 1 or more")
    ranked = [site for site in request.sites if site in request.group]
    tree = {site: ranked[number // k] for number, site in enumerate(ranked[1:])}
    block = build_block(request, ((0, request.chunk_count),), ranked[0], tree)
    return Plan(request.group, request.group, request.chunk_count, (block,))
