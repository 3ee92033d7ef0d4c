"""BLINK: the load split among a few packed spanning trees of the group (Wang et al., MLSys 2020).

Blink packs spanning trees so that the sum of their rates is the largest that the links allow
(Section 3.1), finds candidates by multiplicative weight updates, and keeps few of them by an
integer program (Section 3.2). All-reduce goes up each tree and down it again (Section 3.3). CREW's
paper takes five trees, spanning the group, by a MILP (Section V, baseline):

    maximise    sum_t w[t]
    subject to  sum_t u[t, e] w[t] <= b[e]     for each link e, which tree t uses u[t, e] times
                w[t] <= c[t] z[t],  sum_t z[t] <= 5,  z[t] in {0, 1}

with c[t] the rate of tree t alone. Chunks are shared among the trees in proportion to w.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from trunkline.agents.planning.plan import Directed, Edge, Plan, PlanError, PlanRequest
from trunkline.agents.planning.trees import (
    build_forest,
    count_uses,
    grow,
    pipeline_rate_mbps,
    require_pair,
    route_closure,
)

ROUNDS = 16
"""Rounds of the packing, and so the most trees that the integer program chooses from."""

STEP = 0.5
"""How much longer a round makes a link that its tree fills."""

GAP = 0.05
"""The integer program may stop this close to the optimum, like Blink's."""

MAX_BRANCHES = 1000
"""After so many branches the integer program stops with the best solution that it has."""


def build(request: PlanRequest, *, trees: int = 5) -> Plan:
    """Up to `trees` blocks, each with a spanning tree of the group that it goes up and down.

    Source routes stand for missing links. All trees have the same root, the member with the
    largest sum of rates to the others; the load that a tree puts on links does not depend on it.

    Options:
        trees: the most spanning trees to use.
    """
    require_pair(request)
    if trees < 1:
        raise PlanError(f"trees: {trees}: allowed is 1 or more")
    found, rates = route_closure(request)
    root = max(
        request.group, key=lambda site: sum(rates[link] for link in rates if link[0] == site)
    )
    candidates = pack_trees(root, found, request.rates_mbps)
    loads = [count_uses(tree, found) for tree in candidates]
    weights = split_load(loads, request.rates_mbps, trees)
    return build_forest(request, [(root, tree) for tree in candidates], weights)


def pack_trees(
    root: str, found: Mapping[Directed, Edge], rates_mbps: Mapping[Directed, float]
) -> list[dict[str, str]]:
    """Different spanning trees that together use the links well, by multiplicative weight updates.

    Each round takes the tree of least length, at the rate that it gets alone, and lengthens its
    links by the part of their rate that this takes.
    """
    length = {link: 1.0 / rate for link, rate in rates_mbps.items()}
    trees: list[dict[str, str]] = []
    for _ in range(ROUNDS):
        tree = _grow_least_length(root, found, length)
        if tree not in trees:
            trees.append(tree)
        load = count_uses(tree, found)
        rate = pipeline_rate_mbps(load, rates_mbps)
        for link, times in load.items():
            length[link] *= 1.0 + STEP * times * rate / rates_mbps[link]
    return trees


def split_load(
    loads: Sequence[Counter[Directed]], rates_mbps: Mapping[Directed, float], most: int
) -> list[float]:
    """The trees' rates in Mbit/s by the integer program, at most `most` of them above 0.

    `loads` says for each tree how often it uses which link.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp  # see `plans.crew`

    n = len(loads)
    links = sorted({link for load in loads for link in load})
    # Unknowns: w[0..n-1], z[0..n-1]. Rates are parts of the fastest tree's, for good conditioning.
    alone = np.array([pipeline_rate_mbps(load, rates_mbps) for load in loads])
    scale = alone.max()
    used = np.array([[load[link] for load in loads] for link in links], dtype=float)
    limits = np.array([rates_mbps[link] / scale for link in links])
    chosen = np.diag(alone / scale)
    solved = milp(
        np.concatenate([-np.ones(n), np.zeros(n)]),
        integrality=np.concatenate([np.zeros(n), np.ones(n)]),
        bounds=Bounds(0.0, np.concatenate([alone / scale, np.ones(n)])),
        constraints=[
            LinearConstraint(np.hstack([used, np.zeros_like(used)]), ub=limits),
            LinearConstraint(np.hstack([np.eye(n), -chosen]), ub=np.zeros(n)),
            LinearConstraint(np.concatenate([np.zeros(n), np.ones(n)]), ub=most),
        ],
        options={"mip_rel_gap": GAP, "node_limit": MAX_BRANCHES},
    )
    if solved.x is None:
        raise PlanError(f"the integer program for the trees has no solution: {solved.message}")
    kept = sorted(range(n), key=lambda tree: -solved.x[tree])[:most]
    return [float(solved.x[tree] * scale) if tree in kept else 0.0 for tree in range(n)]


def _grow_least_length(
    root: str, found: Mapping[Directed, Edge], length: Mapping[Directed, float]
) -> dict[str, str]:
    """An edge is as long as both its directions, since what goes up it comes down again."""
    one_way = {
        pair: sum(length[hop] for hop in itertools.pairwise(route)) for pair, route in found.items()
    }
    return grow(root, found, lambda _, link: (one_way[link] + one_way[link[1], link[0]],))
