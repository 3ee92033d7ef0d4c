"""MST: the spanning tree of the highest throughput, as in TSEngine (NetStorm, Section IX-B).

From its root the tree always takes in the site with the fastest link into it (Prim), so that
every site's path has the fastest slowest link there is: TSEngine (Zhou et al., IEEE TNSM 2021)
prefers the links of the highest throughput. Links are directed: a tree is chosen by the rates
towards its root. The result comes down the same tree (`pull: reversed`), or down one chosen by
the rates away from the root (`pull: own`).
"""

from __future__ import annotations

from collections.abc import Mapping

from trunkline.agents.planning.plan import Directed, Edge, Plan, PlanRequest
from trunkline.agents.planning.trees import (
    Pull,
    build_block,
    grow,
    require_pair,
    reverse_links,
    route_closure,
)
from trunkline.agents.plans.fapt import rank_roots


def build(request: PlanRequest, *, pull: Pull = "reversed") -> Plan:
    """One tree of the group, rooted at its member of the highest quality (as `fapt` has it).

    A source route stands for a missing link, and only where the members' own links do not do.

    Options:
        pull: whether results go down the `reversed` tree, or down one of their `own`.
    """
    require_pair(request)
    found, rates = route_closure(request)
    root = next(site for site in rank_roots(request) if site in request.group)
    inward = _grow_fastest(root, found, rates)
    outward = (
        _grow_fastest(root, reverse_links(found), reverse_links(rates)) if pull == "own" else inward
    )
    block = build_block(request, ((0, request.chunk_count),), root, inward, outward)
    return Plan(request.group, request.group, request.chunk_count, (block,))


def _grow_fastest(
    root: str, found: Mapping[Directed, Edge], rates_mbps: Mapping[Directed, float]
) -> dict[str, str]:
    return grow(root, found, lambda _, link: (len(found[link]), -rates_mbps[link]))
