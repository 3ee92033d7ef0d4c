"""MST: the spanning tree of the highest throughput, as in TSEngine (NetStorm, Section IX-B).

The tree grows from its root and always adds the site with the fastest link into the tree (Prim). So
the slowest link on the path of each site is as fast as possible. TSEngine (Zhou et al., IEEE TNSM
2021) prefers the links of the highest throughput. Links are directed: a tree is chosen by the rates
towards its root. The result comes down a tree that is chosen by the rates away from the root
(`pull: own`), or down the same tree (`pull: reversed`).
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


def build(request: PlanRequest, *, pull: Pull = "own") -> Plan:
    """One tree of the group. Its root is the member of the highest quality, as in `fapt`.

    The tree has a source route only where direct links between members do not suffice.

    Options:
        pull: whether results come down a tree of their `own` or the same tree (`reversed`).
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
