"""The bytes of a plan on the links of the network, and how long they need (pure)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import pairwise

from trunkline.agents.planning.plan import Directed
from trunkline.topologies.model import Topology


def count_on_hops(topology: Topology, planned: Mapping[Directed, int]) -> Counter[Directed]:
    """The bytes on each link of the network, where so many are on those of the overlay."""
    counted = Counter[Directed]()
    for ends, size in planned.items():
        counted.update(dict.fromkeys(pairwise(topology.path(*ends)), size))
    return counted


def need_s(size: int, rate_mbps: float) -> float:
    """How long bytes take at a rate, in seconds; nearly for ever without one."""
    return 8e-6 * size / max(rate_mbps, 1e-9)
