"""OPR: the original partial reduce; only the group aggregates (CREW's paper, Section V, baseline).

It is CREW with blocks for the members of the group only. The shares come from the same linear
program (N-A), or are equal (E-D).
"""

from __future__ import annotations

from trunkline.agents.planning.plan import Plan, PlanRequest
from trunkline.agents.plans.crew import Hubs, Split, build_stars


def build(request: PlanRequest, *, split: Split = "aware", hubs: Hubs = "routed") -> Plan:
    """Stars around the members of the group.

    Options:
        split: how sites share the model: `aware` by the paper's linear program, `even` equally,
            `pipelined` by a linear program for scatter and multicast at the same time.
        hubs: whether members without direct links to all others aggregate over source routes
            (`routed`) or not at all (`direct`, the rule of CREW's paper).
    """
    return build_stars(request, request.group, split, hubs)
