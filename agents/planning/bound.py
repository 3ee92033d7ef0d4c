"""A lower bound on the completion time of every plan: the overlay's smallest cut (pure)."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from trunkline.agents.planning.plan import Directed, Plan, indexes_of

if TYPE_CHECKING:  # scipy takes a while to load, and not every run has a plan
    from scipy.sparse import csr_array

_LARGEST_FLOW = 2**31 - 1
"""SciPy computes flows in 32-bit integers."""

FEW = 16
"""Up to so many sites, flows are found without scipy."""


class SmallestCuts:
    """The smallest cuts of an overlay, which bound the completion times of plans.

    All that a contributor and another receiver hold of the model must cross every cut between the
    two. The smallest cut equals the maximum flow. Delays are left out. Capacities are rates rounded
    up to whole units, as fine as 32 bits allow.
    """

    def __init__(self, rates_mbps: Mapping[Directed, float]) -> None:
        self._rates_mbps = rates_mbps
        self._most_mbps: dict[Directed, float] = {}
        sites = sorted({site for link in rates_mbps for site in link})
        self._index = {site: number for number, site in enumerate(sites)}

    @functools.cached_property
    def _per_mbps(self) -> float:
        """The units of flow per Mbit/s. Each link may round up by one unit: the sum still fits."""
        return (_LARGEST_FLOW - len(self._rates_mbps)) / sum(self._rates_mbps.values())

    @functools.cached_property
    def _units(self) -> Mapping[Directed, int]:
        return {link: math.ceil(rate * self._per_mbps) for link, rate in self._rates_mbps.items()}

    @functools.cached_property
    def _capacity(self) -> csr_array:
        from scipy.sparse import csr_array

        units = [*self._units.values()]
        rows = [self._index[src] for src, _ in self._rates_mbps]
        columns = [self._index[dst] for _, dst in self._rates_mbps]
        size = len(self._index)
        return csr_array((np.array(units, dtype=np.int32), (rows, columns)), shape=(size, size))

    def bound(self, plan: Plan, model_bytes: int) -> float:
        """The time in seconds that no plan with these contributors and receivers can beat."""
        pairs = ((src, dst) for src in plan.contributors for dst in plan.receivers if src != dst)
        least_s = (
            _count_common(plan, *pair) * model_bytes * 8e-6 / self._find_most_mbps(pair)
            for pair in pairs
        )
        return max(least_s, default=0.0)

    def _find_most_mbps(self, pair: Directed) -> float:
        """The maximum flow from one site to another."""
        if pair not in self._most_mbps:
            few = len(self._index) <= FEW
            flow = find_flow(self._units, *pair) if few else self._find_flow_of_many(*pair)
            self._most_mbps[pair] = flow / self._per_mbps
        return self._most_mbps[pair]

    def _find_flow_of_many(self, src: str, dst: str) -> int:
        from scipy.sparse.csgraph import maximum_flow

        found = maximum_flow(self._capacity, self._index[src], self._index[dst])
        return int(found.flow_value)


def find_flow(units: Mapping[Directed, int], src: str, dst: str) -> int:
    """The maximum flow over links of such capacities: by Edmonds and Karp, for few sites.

    To import scipy would take longer.
    """
    left: dict[str, dict[str, int]] = {site: {} for link in units for site in link}
    for (a, b), capacity in units.items():
        left[a][b] = capacity
        left[b].setdefault(a, 0)
    flow = 0
    while path := _find_shortest(left, src, dst):
        least = min(left[a][b] for a, b in path)
        for a, b in path:
            left[a][b] -= least
            left[b][a] += least
        flow += least
    return flow


def _find_shortest(left: Mapping[str, Mapping[str, int]], src: str, dst: str) -> list[Directed]:
    """A shortest path on which capacity is left; empty if there is none."""
    before: dict[str, str] = {src: src}
    reached = [src]
    for site in reached:  # which grows meanwhile
        for other, capacity in left[site].items():
            if capacity and other not in before:
                before[other] = site
                reached.append(other)
        if dst in before:
            break
    path = []
    site = dst if dst in before else src
    while site != src:
        path.append((before[site], site))
        site = before[site]
    return path


def _count_common(plan: Plan, src: str, dst: str) -> float:
    """The least share of the model that both sites hold; the last chunk may be a short one."""
    if src not in plan.shards and dst not in plan.shards:
        return 1.0
    common = set(indexes_of(plan.chunks_of(src))).intersection(indexes_of(plan.chunks_of(dst)))
    whole = len(common) == plan.chunk_count
    return 1.0 if whole else max(0, len(common) - 1) / plan.chunk_count
