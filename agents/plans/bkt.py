"""BKT: a static, balanced k-way tree, as in MLNET (NetStorm, Sections II-A and IX-B, baseline).

The sites fill the tree by rank, level by level; rates play no part. Inner sites aggregate, then
forward. The result comes down the same tree.
"""

from __future__ import annotations

from trunkline.agents.planning.option_types import Count
from trunkline.agents.planning.plan import Plan, PlanRequest
from trunkline.agents.planning.routes import By
from trunkline.agents.planning.trees import build_block, require_pair


def build(request: PlanRequest, *, k: Count = 2, routes: By = "hops") -> Plan:
    """One tree of the group. Every inner site has `k` children; the last one may have fewer.

    Edges that the overlay lacks become source routes.

    Options:
        k: children of an inner site.
        routes: whether source routes have the fewest `hops`, or the smallest sum of 1 / `rate`.
    """
    require_pair(request)
    ranked = [site for site in request.sites if site in request.group]
    tree = {site: ranked[number // k] for number, site in enumerate(ranked[1:])}
    block = build_block(request, ((0, request.chunk_count),), ranked[0], tree, by=routes)
    return Plan(request.group, request.group, request.chunk_count, (block,))
