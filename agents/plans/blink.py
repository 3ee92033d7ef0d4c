"""BLINK: the load split among a few packed spanning trees of the group (Wang et al., MLSys 2020).

Blink packs spanning trees so that the sum of their rates is the largest that the links allow
(Section 3.1). It finds candidate trees by multiplicative weight updates and selects a few of them
by an integer program (Section 3.2). All-reduce goes up each tree and down again (Section 3.3).
CREW's paper takes five trees that span the group, by a MILP (Section V, baseline):

    maximise    sum_t w[t]
    subject to  sum_t u[t, e] w[t] <= b[e]     for each link e, which tree t uses u[t, e] times
                w[t] <= c[t] z[t],  sum_t z[t] <= 5,  z[t] in {0, 1}

Here c[t] is the rate of tree t on its own. The trees share the chunks in proportion to w.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from trunkline.agents.planning.option_types import Count
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
"""Rounds of the packing. The integer program chooses from at most so many trees."""

STEP = 0.5
"""By this share a round lengthens a link that its tree fills completely."""

GAP = 0.05
"""The integer program stops when it is proven to be this close to the optimum, as in Blink."""

MAX_BRANCHES = 1000
"""After so many branches the integer program stops with the best solution so far. A limit on time
instead would make plans depend on the machine."""


def build(request: PlanRequest, *, trees: Count = 5) -> Plan:
    """Up to `trees` blocks, each with one spanning tree of the group for both directions.

    Edges that the overlay lacks become source routes. All trees have the same root: the member with
    the largest sum of rates to the others. The load of a tree does not depend on its root.

    Options:
        trees: the most spanning trees to use.
    """
    require_pair(request)
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
    """Find different spanning trees that together use the links well (Section 3.2).

    Each round finds the tree of least length. Then it lengthens the links of that tree, in
    proportion to the share of their rate that the tree takes at the rate it has on its own.

    Args:
        root: the root of all trees.
        found: the route of each ordered pair of members.
        rates_mbps: the rate of each directed link.
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
    """Solve the integer program: the rate of each tree in Mbit/s.

    Args:
        loads: for each tree, how often it crosses each link.
        rates_mbps: the rate of each directed link.
        most: the most trees whose rate is above 0.

    Raises:
        PlanError: the integer program has no solution.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp  # see `plans.crew`

    n = len(loads)
    links = sorted({link for load in loads for link in load})
    # Unknowns: w[0..n-1], z[0..n-1]. Rates are relative to the fastest tree, for good conditioning.
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
    # The solver meets its constraints only approximately: other trees may have tiny rates.
    kept = sorted(range(n), key=lambda tree: -solved.x[tree])[:most]
    return [float(solved.x[tree] * scale) if tree in kept else 0.0 for tree in range(n)]


def _grow_least_length(
    root: str, found: Mapping[Directed, Edge], length: Mapping[Directed, float]
) -> dict[str, str]:
    """The tree of least length. An edge is as long as both of its directions: data uses both."""
    one_way = {
        pair: sum(length[hop] for hop in itertools.pairwise(route)) for pair, route in found.items()
    }
    return grow(root, found, lambda _, link: (one_way[link] + one_way[link[1], link[0]],))
