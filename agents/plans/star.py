"""STAR: one server that every member talks to, as in MXNET (NetStorm, Section IX-B, baseline).

Pushes and pulls follow the overlay's shortest paths. The sites on the way forward and do not
aggregate. The paper does not say where the server is. By default it is the root of a single FAPT
(Section IV-A), so the two differ in their topology only.
"""

from __future__ import annotations

from trunkline.agents.planning.plan import Block, Plan, PlanError, PlanRequest, star
from trunkline.agents.planning.routes import routes
from trunkline.agents.planning.trees import require_pair
from trunkline.agents.plans.fapt import rank_roots


def build(request: PlanRequest, *, server: str | None = None) -> Plan:
    """One block, two stars around the server, which need not be in the group.

    Options:
        server: the site of the server; by default the root of a single FAPT.
    """
    require_pair(request)
    if server is not None and server not in request.sites:
        raise PlanError(f"server: {server!r} is not one of {', '.join(request.sites)}")
    hub = server or next(iter(rank_roots(request)))
    pairs = [pair for site in request.group if site != hub for pair in ((site, hub), (hub, site))]
    spokes = star(hub, request.group, routes(pairs, request.rates_mbps))
    block = Block(((0, request.chunk_count),), hub, *spokes)
    return Plan(request.group, request.group, request.chunk_count, (block,))
