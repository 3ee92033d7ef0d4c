"""Builds a scenario's plan once for a sample group, so that a refusal is found before a run (pure).

What a plan refuses often depends on the group and the overlay (a tree of more roots than sites),
which no type of an option can say.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from trunkline.agents.planning.chunks import Cut
from trunkline.agents.planning.plan import Plan, PlanError, PlanRequest, check
from trunkline.agents.policies.policy import Policy, Ready, Start
from trunkline.harness.scenario.user_code_guard import OwnCodeError
from trunkline.topologies.model import Topology


def refusal(
    topology: Topology, policy: Policy, build: Callable[[PlanRequest], Plan], cut: Cut
) -> ValueError | None:
    """Why the plan cannot serve the first group that the policy makes; None if it can."""
    try:
        group = first_group(policy, topology.site_names)
    except OwnCodeError as error:
        return error
    if group is None:
        return None
    rates_mbps = topology.rates_mbps()
    request = PlanRequest(
        group,
        topology.site_names,
        rates_mbps,
        topology.delays_ms(),
        cut.count,
        random.Random("rehearsal"),
        chunk_sizes=cut.sizes,
    )
    try:
        check(build(request), rates_mbps.keys())
    except PlanError as error:
        return error
    return None


def first_group(policy: Policy, sites: tuple[str, ...]) -> tuple[str, ...] | None:
    """The first group when all sites are ready one after the other; None if there is none."""
    state = policy.initial
    for site in sites:
        state, decisions = policy.step(state, Ready(site, 0))
        for decision in decisions:
            if isinstance(decision, Start):
                return decision.group
    return None
