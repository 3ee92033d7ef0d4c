"""PS: parameter servers; without them, the member with the best direct links (CREW, Section V).

Members push to them, and they send the result back.

Each server that is a member of the group aggregates the chunks that it holds. In a group without
servers, one worker is the server (CREW's paper, Section V): the one with the largest average rate
over its direct links to all other workers. Ties go to the smallest average latency.
"""

from __future__ import annotations

from collections.abc import Mapping

from trunkline.agents.planning.plan import Block, Chunks, Plan, PlanRequest, star
from trunkline.agents.planning.routes import routes


def build(request: PlanRequest) -> Plan:
    """One block for each server: two stars around it."""
    blocks = []
    for hub, chunks in find_shards(request).items():
        others = [site for site in request.group if site != hub]
        pairs = [pair for site in others for pair in ((site, hub), (hub, site))]
        spokes = star(hub, request.group, routes(pairs, request.rates_mbps))
        blocks.append(Block(chunks, hub, *spokes))
    return Plan(request.group, request.group, request.chunk_count, tuple(blocks))


def find_shards(request: PlanRequest) -> Mapping[str, Chunks]:
    """The chunks of each server; one worker is the server if the group has none."""
    return request.shards or {choose_server(request): ((0, request.chunk_count),)}


def choose_server(request: PlanRequest) -> str:
    """The site with the largest average rate to all others; a missing link counts as 0.

    The first known rates decide, because a server with the parameters cannot move.
    """

    def quality(site: str) -> tuple[float, float]:
        links = [link for link in request.lasting_mbps if link[0] == site]
        rate = sum(request.lasting_mbps[link] for link in links)
        delay = sum(request.delays_ms[link] for link in links) / max(1, len(links))
        return rate, -delay

    return max(request.sites, key=quality)
