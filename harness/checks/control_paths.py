"""How long messages take at least on the paths between agents (pure)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from trunkline.harness.checks.rules import Rules
from trunkline.harness.record.history import History
from trunkline.harness.record.link_history import Conditions

DELAY_SHARE, DELAY_SLACK_MS = 0.99, 0.1
"""A path takes at least this share of its delay, less this slack: timers are accurate to 0.1 ms."""

FEW = 100
"""Up to so many nodes, quickest paths are found without scipy."""


@dataclass(frozen=True)
class Paths:
    """The least time that messages and payload needed between sites, in nanoseconds.

    Links have their smallest delay of the whole run. Messages take the static routes of packets;
    payload may take any path over the overlay.
    """

    history: History
    rules: Rules

    def control_ns(self, src: str, dst: str) -> int:
        """From one agent to another by the routes of packets; 0 for unknown agents."""
        a, b = self._sites.get(src), self._sites.get(dst)
        if a is None or b is None:
            return 0
        hops = pairwise(self.rules.topology.path(a, b))
        return _with_slack_ns(sum(self._least_ms[hop] for hop in hops))

    def payload_ns(self, src: str, dst: str) -> int:
        """From one site to another by the quickest path of links; 0 for unknown sites."""
        ranks = self._ranks
        if src not in ranks or dst not in ranks:
            return 0
        return _with_slack_ns(float(self._quickest_ms[ranks[src], ranks[dst]]))

    def link_ns(self, src: str, dst: str) -> int:
        """Over one link of the overlay; 0 for unknown sites."""
        if src not in self._ranks or dst not in self._ranks:
            return 0
        hops = pairwise(self.rules.topology.path(src, dst))
        return _with_slack_ns(sum(self._least_ms[hop] for hop in hops))

    @cached_property
    def _sites(self) -> Mapping[str, str]:
        own = {site: site for site in self.rules.topology.site_names}
        return own | dict(self.rules.controllers)

    @cached_property
    def _ranks(self) -> Mapping[str, int]:
        return {node: rank for rank, node in enumerate(self.rules.topology.node_names)}

    @cached_property
    def _least_ms(self) -> Mapping[tuple[str, str], float]:
        spells = Conditions.to_judge(self.history, self.rules.topology).spells
        return {
            ends: min(spell.link.least_delay_ms for spell in found)
            for ends, found in spells.items()
        }

    @cached_property
    def _quickest_ms(self) -> NDArray[np.float64]:
        """The quickest path between each two sites."""
        ranks, delays_ms = self._ranks, self._least_ms
        ends = [ranks[src] for src, _ in delays_ms], [ranks[dst] for _, dst in delays_ms]
        solve = find_quickest if len(ranks) <= FEW else find_quickest_of_many
        return solve(np.array([*delays_ms.values()]), ends, len(ranks))


def find_quickest(
    delays_ms: NDArray[np.float64], ends: tuple[Sequence[int], Sequence[int]], nodes: int
) -> NDArray[np.float64]:
    """The delay of the quickest path from each node to each other, by Floyd and Warshall.

    `ends` has the sources and the destinations of the links. To import scipy would take longer.
    """
    found = np.full((nodes, nodes), np.inf)
    found[ends] = delays_ms
    np.fill_diagonal(found, 0.0)
    for node in range(nodes):
        np.minimum(found, found[:, [node]] + found[node], out=found)
    return found


def find_quickest_of_many(
    delays_ms: NDArray[np.float64], ends: tuple[Sequence[int], Sequence[int]], nodes: int
) -> NDArray[np.float64]:
    """The same for many nodes, of which few are neighbours, by Dijkstra."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import shortest_path

    # A stored zero is a link without delay.
    graph = csr_array((delays_ms, ends), shape=(nodes, nodes))
    found: NDArray[np.float64] = shortest_path(graph, method="D")
    return found


def _with_slack_ns(delay_ms: float) -> int:
    return max(0, round((delay_ms * DELAY_SHARE - DELAY_SLACK_MS) * 1e6))
