"""OVERLAP: every worker pulls branch after branch, and computes meanwhile (OWL, baseline)."""

from __future__ import annotations

from trunkline.agents.distribution import baselines
from trunkline.agents.distribution.handout import Cluster
from trunkline.agents.distribution.handout_plan import make_plan
from trunkline.agents.planning.plan import Plan, PlanRequest
from trunkline.agents.plans.ps import find_shards


def build(request: PlanRequest) -> Plan:
    """A block for each branch, which is a whole message: two stars around the server."""
    return make_plan(
        request,
        find_shards(request),
        lambda model, workers: baselines.overlap(model, Cluster(1, workers, 1.0, 1.0)),
        whole=True,
    )
