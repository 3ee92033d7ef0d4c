"""OWL: workers of a rack hand a server's model on to each other while they compute.

Branches of a base are grouped by size (Algorithm 1), and each group has its own way through a rack:
from the server to a central worker, from there to its communication group, and then to all others
(`agents.distribution.owl`). Sites without a rack are in one rack together. Chunks are passed on as
they arrive. Pushes go directly to the server.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from trunkline.agents.distribution import owl
from trunkline.agents.distribution.chunked_step import AskedHandOut, compute_steps
from trunkline.agents.distribution.grouping import Groups, group_evenly, group_randomly
from trunkline.agents.distribution.handout import Handout
from trunkline.agents.distribution.handout_plan import find_racks, make_plan, make_plan_across
from trunkline.agents.planning.option_types import Count
from trunkline.agents.planning.plan import Chunks, Plan, PlanRequest
from trunkline.agents.plans.ps import find_shards
from trunkline.workloads.layered.model import LayeredModel

Deploy = Literal["centralized", "decentralized", "uneven", "unbalanced", "across"]

_DEPLOYMENTS = {
    "centralized": owl.centralize,
    "decentralized": owl.decentralize,
    "uneven": owl.centralize_unevenly,
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
            has fewer. By default the one with which the last worker ends its forward computation
            first (Algorithm 2), in the fluid model of chunks that are passed on as they arrive.
        deploy: who pulls a group of branches: one central worker of a rack, every worker one group,
            or one worker all of them, who sends each to all others (`unbalanced`, OWL-A). `uneven`
            is a milder OWL-A: all communication groups but one have one worker. With `across`, a
            group of branches leaves the server once, and racks pass it on to each other: the
            overlay needs links between racks.
        grouping: by size (Algorithm 1), or at random (OWL-B).
    """
    held = find_shards(request)
    count = groups or _choose_count(request, held, deploy)
    group_by = (
        group_evenly if grouping == "even" else functools.partial(group_randomly, request.rng)
    )
    known: dict[tuple[int, ...], Groups] = {}

    def group_alike(sizes: Sequence[int], number: int) -> Groups:
        key = (number, *sizes)
        if key not in known:  # the same in every rack
            known[key] = group_by(sizes, number)
        return known[key]

    if deploy == "across":
        return make_plan_across(
            request, held, lambda model, sizes: owl.build_across(model, sizes, count, group_alike)
        )

    def make(model: LayeredModel, workers: int) -> Handout:
        return owl.build(model, workers, count, group_alike, _DEPLOYMENTS[deploy])

    return make_plan(request, held, make)


def describe_choice(
    request: PlanRequest, *, groups: int | None = None, deploy: Deploy = "centralized", **_: Any
) -> str:
    """What the plan chooses for this request, for `trunkline show`; empty if `groups` is given."""
    if groups is not None:
        return ""
    count = _choose_count(request, find_shards(request), deploy)
    return f"{count} communication group{'s' * (count > 1)} of a rack, chosen by Algorithm 2"


def _choose_count(request: PlanRequest, held: Mapping[str, Chunks], deploy: Deploy) -> int:
    """The number of communication groups by Algorithm 2; one without workers or layers."""
    racks = find_racks(request, held)
    if request.layers is None or not racks:
        return 1
    counts = owl.count_groups(request.layers, max(map(len, racks)))
    asked = AskedHandOut.of(request, held) if len(counts) > 1 else None
    return counts[0] if asked is None else _choose(asked, counts, deploy)


@functools.lru_cache(maxsize=64)  # every task asks
def _choose(asked: AskedHandOut, counts: range, deploy: Deploy) -> int:
    """The number with which the last worker ends first.

    Of equal ones, that with which the last worker has the model first, then the one with the best
    means.
    """

    def simulate(count: int) -> tuple[float, ...]:
        make = functools.partial(build, groups=count, deploy=deploy)
        steps = compute_steps(asked, make).values()
        ends_s, arrived_s = [each.end_s for each in steps], [each.arrived_s for each in steps]
        found = max(ends_s), max(arrived_s), sum(ends_s), sum(arrived_s)
        return tuple(round(value, 9) for value in found)

    return min(counts, key=simulate)
