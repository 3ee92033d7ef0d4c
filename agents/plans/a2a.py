"""A2A: every member sends its whole model to every other (CREW's paper, Section V, baseline)."""

from __future__ import annotations

from trunkline.agents.planning.plan import Block, Plan, PlanRequest, star
from trunkline.agents.planning.trees import route_closure


def build(request: PlanRequest) -> Plan:
    """One block of the whole model per member of the group, which sums it and keeps the result."""
    found, _ = route_closure(request)
    blocks = tuple(
        Block(((0, request.chunk_count),), site, star(site, request.group, found)[0], ())
        for site in request.group
    )
    return Plan(request.group, request.group, request.chunk_count, blocks)
