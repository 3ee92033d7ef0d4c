"""STAR: one server that every member talks to, as in MXNET (NetStorm, Section IX-B, baseline).

Pushes and pulls follow the overlay's shortest paths. The sites on the way forward and do not
aggregate. The paper does not say where the server is, nor what makes a path short. By default the
server is the root of a single FAPT (Section IV-A), which is the best place, and paths have the
fewest hops, as IP forwards.
"""

from __future__ import annotations

from trunkline.agents.planning.plan import Block, Plan, PlanError, PlanRequest, star
from trunkline.agents.planning.routes import By
from trunkline.agents.planning.routes import routes as find_routes
from trunkline.agents.planning.trees import require_pair
from trunkline.agents.plans.fapt import rank_roots


def build(request: PlanRequest, *, server: str = "best", routes: By = "hops") -> Plan:
    """One block, two stars around the server, which need not be in the group.

    Options:
        server: the site of the server, or `best` or `worst`: the root of the FAPT of the highest or
            the lowest quality.
        routes: whether the shortest paths are those of the fewest `hops`, or of the smallest sum of
            1 / `rate`.
    """
    require_pair(request)
    ranked = tuple(rank_roots(request))
    places = {"best": ranked[0], "worst": ranked[-1], **{site: site for site in request.sites}}
    if server not in places:
        raise PlanError(f"server: {server!r} is not one of {', '.join(places)}")
    hub = places[server]
    pairs = [pair for site in request.group if site != hub for pair in ((site, hub), (hub, site))]
    spokes = star(hub, request.group, find_routes(pairs, request.rates_mbps, routes))
    block = Block(((0, request.chunk_count),), hub, *spokes)
    return Plan(request.group, request.group, request.chunk_count, (block,))
