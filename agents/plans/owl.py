"""OWL: workers of a rack hand a server's model on to each other while they compute.

Branches of a base are grouped by size (Algorithm 1), and each group has its own way through a rack:
from the server to a central worker, from there to its communication group, and then to all others
(`agents.distribution.owl`). Sites without a rack are in one rack together. Chunks are passed on as
they arrive. Pushes go directly to the server.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, Literal

from trunkline.agents.distribution import owl
from trunkline.agents.distribution.grouping import Groups, group_evenly, group_randomly
from trunkline.agents.distribution.handout import Cluster, Handout
from trunkline.agents.distribution.handout_plan import find_racks, make_plan, measure_cluster
from trunkline.agents.planning.option_types import Count
from trunkline.agents.planning.plan import Plan, PlanRequest
from trunkline.agents.plans.ps import find_shards
from trunkline.workloads.layered.model import LayeredModel

Deploy = Literal["centralized", "decentralized", "unbalanced"]

_DEPLOYMENTS = {
    "centralized": owl.centralize,
    "decentralized": owl.decentralize,
    "unbalanced": owl.unbalance,
}


def build(
    request: PlanRequest,
    *,
    groups: Count | None = None,
    deploy: Deploy = "centralized",
    grouping: Literal["even", "random"] = "even",
) -> Plan:
    """A block for each group of branches of each base.

    Options:
        groups: the number of communication groups of a rack, 1 or more; a base with fewer branches
            has fewer. By default the one with the shortest step in the fluid model (Algorithm 2).
        deploy: who pulls a group of branches: one central worker of a rack, every worker one group,
            or one worker all of them, who sends each to all others (OWL-A).
        grouping: by size (Algorithm 1), or at random (OWL-B).
    """
    held = find_shards(request)
    count = groups or _choose_count(request, deploy)
    group_by = (
        group_evenly if grouping == "even" else functools.partial(group_randomly, request.rng)
    )
    known: dict[tuple[int, ...], Groups] = {}

    def group_alike(sizes: Sequence[int], number: int) -> Groups:
        key = (number, *sizes)
        if key not in known:  # the same in every rack
            known[key] = group_by(sizes, number)
        return known[key]

    def make(model: LayeredModel, workers: int) -> Handout:
        return owl.build(model, workers, count, group_alike, _DEPLOYMENTS[deploy])

    return make_plan(request, held, make)


def describe_choice(
    request: PlanRequest, *, groups: int | None = None, deploy: Deploy = "centralized", **_: Any
) -> str:
    """What the plan chooses for this request, for `trunkline show`; empty if `groups` is given."""
    if groups is not None:
        return ""
    count = _choose_count(request, deploy)
    return f"{count} communication group{'s' * (count > 1)} of a rack, chosen by Algorithm 2"


def _choose_count(request: PlanRequest, deploy: Deploy) -> int:
    """The number of communication groups by Algorithm 2; one without workers or layers."""
    held = find_shards(request)
    if request.layers is None or not find_racks(request, held):
        return 1
    return _choose(request.layers, measure_cluster(request, held), deploy)


@functools.lru_cache(maxsize=64)  # every task asks
def _choose(layers: LayeredModel, cluster: Cluster, deploy: Deploy) -> int:
    return owl.choose_count(layers, cluster, _DEPLOYMENTS[deploy])
