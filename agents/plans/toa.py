"""ToA: trees and load split found by simulated annealing (Luo et al., TopoAdopt, ICENAT 2022).

The paper's title is "Optimizing Communication Topology for Collaborative Learning Across
Datacenters". Several aggregators share the load, each at the root of its own tree. Trees and shares
are optimised together, a mixed-integer nonlinear program. CREW's paper (Section V, baseline) solves
it by simulated annealing and extends it to all-reduce: results come down the trees.

The search minimises the time of the busiest link per unit of data: the shares of all trees that
cross the link, up and down, over its rate. A step moves one site below another parent in one tree,
or moves a part of one tree's share to another tree. A worse state is accepted with probability
exp(-d / T), where d is the relative loss and T falls from 0.1 to 0.001 (Kirkpatrick et al., 1983).
The result is the best state of the search.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from trunkline.agents.planning.option_types import Count
from trunkline.agents.planning.plan import Directed, Edge, Plan, PlanRequest
from trunkline.agents.planning.trees import (
    Parents,
    build_forest,
    count_uses,
    path_to_root,
    require_pair,
    route_closure,
)

MIN_STEPS, MAX_STEPS = 1000, 100_000
STEPS_PER_PLACE = 100
"""The default number of steps grows with the places that the search decides: one for each member of
each tree. A plan for 10 members then takes about 0.15 s to search, one for 30 takes 3 s."""

HOTTEST, COLDEST = 0.1, 0.001
"""The first and the last temperature T."""


@dataclass(frozen=True, slots=True)
class State:
    """A state of the search.

    Attributes:
        used: how often each tree crosses each link, of shape (trees, links).
        shares: the share of each tree, of shape (trees,); shares sum to 1.
    """

    trees: tuple[Parents, ...]
    used: NDArray[np.float64]
    shares: NDArray[np.float64]


def build(
    request: PlanRequest,
    *,
    aggregators: Count | None = None,
    steps: Annotated[int, Field(ge=0, le=MAX_STEPS)] | None = None,
) -> Plan:
    """A tree of the group for each of up to `aggregators` random members.

    The search starts from random trees and equal shares. Edges that the overlay lacks become source
    routes.

    Options:
        aggregators: the most members that aggregate; by default all.
        steps: steps of the search; by default 100 for each member of each tree, but 1000 to
            100000.
    """
    require_pair(request)
    found, _ = route_closure(request)
    members = request.group
    roots = request.rng.sample(members, min(aggregators or len(members), len(members)))
    search = _Search(members, found, request.rates_mbps, request.rng)
    if steps is None:
        places = len(roots) * len(members)
        steps = min(max(MIN_STEPS, STEPS_PER_PLACE * places), MAX_STEPS)
    state = search.anneal(search.start(roots), steps)
    trees = list(zip(roots, state.trees, strict=True))
    return build_forest(request, trees, [float(share) for share in state.shares])


class _Search:
    """Simulated annealing over the trees of the members and their shares."""

    def __init__(
        self,
        members: Sequence[str],
        found: Mapping[Directed, Edge],
        rates_mbps: Mapping[Directed, float],
        rng: random.Random,
    ) -> None:
        self._members = members
        self._found = found
        links = sorted({hop for route in found.values() for hop in itertools.pairwise(route)})
        self._column = {link: number for number, link in enumerate(links)}
        self._rates_mbps = np.array([rates_mbps[link] for link in links])
        self._rng = rng

    def start(self, roots: Sequence[str]) -> State:
        """Random trees with equal shares: members join in random order, below a random parent."""
        trees = []
        for root in roots:
            inside, outside = [root], [site for site in self._members if site != root]
            self._rng.shuffle(outside)
            tree = {}
            for site in outside:
                tree[site] = self._rng.choice(inside)
                inside.append(site)
            trees.append(tree)
        used = np.array([self._count_uses(tree) for tree in trees])
        return State(tuple(trees), used, np.full(len(roots), 1.0 / len(roots)))

    def anneal(self, state: State, steps: int) -> State:
        """Search for so many steps, and return the best state."""
        best, time = state, self._compute_time(state)
        best_time = time
        for step in range(steps):
            temperature = HOTTEST * (COLDEST / HOTTEST) ** (step / steps)
            other = self._draw_neighbour(state)
            other_time = self._compute_time(other)
            loss = other_time / time - 1.0
            if loss <= 0 or self._rng.random() < math.exp(-loss / temperature):
                state, time = other, other_time
                if time < best_time:
                    best, best_time = state, time
        return best

    def _compute_time(self, state: State) -> float:
        # Not a product of matrices: its rounding depends on the processor.
        loads = (state.shares[:, None] * state.used).sum(axis=0)
        return float(np.max(loads / self._rates_mbps))

    def _draw_neighbour(self, state: State) -> State:
        if len(state.trees) > 1 and self._rng.random() < 0.5:
            return self._shift_share(state)
        return self._rehang_site(state)

    def _shift_share(self, state: State) -> State:
        giver, taker = self._rng.sample(range(len(state.trees)), 2)
        part = state.shares[giver] * self._rng.random()
        shares = state.shares.copy()
        shares[giver] -= part
        shares[taker] += part
        return replace(state, shares=shares)

    def _rehang_site(self, state: State) -> State:
        """Move a random site below a random parent, unless that would make a cycle."""
        number = self._rng.randrange(len(state.trees))
        tree = state.trees[number]
        site = self._rng.choice(list(tree))
        parent = self._rng.choice(self._members)
        if any(site == below for below, _ in path_to_root(tree, parent)):
            return state
        changed = {**tree, site: parent}
        used = state.used.copy()
        used[number] = self._count_uses(changed)
        trees = (*state.trees[:number], changed, *state.trees[number + 1 :])
        return replace(state, trees=trees, used=used)

    def _count_uses(self, tree: Parents) -> NDArray[np.float64]:
        row = np.zeros(len(self._column))
        for link, times in count_uses(tree, self._found).items():
            row[self._column[link]] = times
        return row
