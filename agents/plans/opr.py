"""OPR: the original partial reduce; only the group aggregates (CREW's paper, Section V, baseline).

As CREW, with one block per member of the group; shares from the same linear program (N-A) or
even (E-D).
"""

from __future__ import annotations

from trunkline.agents.planning.plan import Plan, PlanRequest
from trunkline.agents.plans.crew import Split, build_stars


def build(request: PlanRequest, *, split: Split = "aware") -> Plan:
    """The members of the group aggregate for one another.

    Options:
        split: `aware` shares by the paper's linear program, `even` alike, `pipelined` by ours, in
            which scatter and multicast run at once.
    """
    return build_stars(request, request.group, split)
