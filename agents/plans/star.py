"""STAR: one server that every member talks to, as in MXNET (NetStorm, Section IX-B, baseline).

Pushes and pulls follow the overlay's shortest paths. The sites on the way forward and do not
aggregate. The paper does not say where the server is, nor what makes a path short. By default the
server is the root of a single FAPT (Section IV-A), and paths have the fewest hops, as IP forwards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trunkline.agents.planning.plan import Block, Directed, Edge, Plan, PlanError, PlanRequest, star
from trunkline.agents.planning.routes import By
from trunkline.agents.planning.routes import routes as find_routes
from trunkline.agents.planning.trees import count_uses, pipeline_rate_mbps, require_pair
from trunkline.agents.plans.fapt import rank_roots


def build(request: PlanRequest, *, server: str = "root", routes: By = "hops") -> Plan:
    """One block, two stars around the server, which need not be in the group.

    Options:
        server: the site of the server; or `root`, the root of the FAPT of the highest quality; or
            `fastest` or `slowest`, the site whose star over all sites has the highest or the lowest
            throughput.
        routes: whether the shortest paths are those of the fewest `hops`, or of the smallest sum of
            1 / `rate`.
    """
    require_pair(request)
    hub = _choose_server(request, server, routes)
    found = _find_spokes(hub, request.group, request.rates_mbps, routes)
    block = Block(((0, request.chunk_count),), hub, *star(hub, request.group, found))
    return Plan(request.group, request.group, request.chunk_count, (block,))


def _choose_server(request: PlanRequest, server: str, routes: By) -> str:
    """The site that an option names, the same for every group. Raises PlanError."""
    if server in request.sites:
        return server
    if server == "root":
        return next(iter(rank_roots(request)))

    def compute_rate_mbps(site: str) -> float:
        found = _find_spokes(site, request.sites, request.lasting_mbps, routes)
        tree = {other: site for other in request.sites if other != site}
        return pipeline_rate_mbps(count_uses(tree, found), request.lasting_mbps)

    if server == "fastest":
        return max(request.sites, key=compute_rate_mbps)
    if server == "slowest":
        return min(request.sites, key=compute_rate_mbps)
    allowed = ", ".join(("root", "fastest", "slowest", *request.sites))
    raise PlanError(f"server: {server!r} is not one of {allowed}")


def _find_spokes(
    hub: str, members: Sequence[str], rates_mbps: Mapping[Directed, float], routes: By
) -> dict[Directed, Edge]:
    """The shortest paths between a server and the other members, both ways."""
    pairs = [pair for site in members if site != hub for pair in ((site, hub), (hub, site))]
    return find_routes(pairs, rates_mbps, routes)
