"""A lower bound on the completion time of every plan: the overlay's smallest cut (pure)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow

from trunkline.agents.planning.plan import Directed, Plan, indexes_of

_LARGEST_FLOW = 2**31 - 1
"""SciPy computes flows in 32-bit integers."""


def bound(plan: Plan, rates_mbps: Mapping[Directed, float], model_bytes: int) -> float:
    """The time in seconds that no plan with these contributors and receivers can beat.

    All that a contributor and another receiver hold of the model must cross every cut between the
    two. The smallest cut equals the maximum flow. Delays are left out.
    Capacities are rates rounded up to whole units, as fine as 32 bits allow.
    """
    sites = sorted({site for link in rates_mbps for site in link})
    index = {site: number for number, site in enumerate(sites)}
    # Each link may round up by one unit, so their sum still fits 32 bits.
    per_mbps = (_LARGEST_FLOW - len(rates_mbps)) / sum(rates_mbps.values())
    units = [math.ceil(rate * per_mbps) for rate in rates_mbps.values()]
    rows = [index[src] for src, _ in rates_mbps]
    columns = [index[dst] for _, dst in rates_mbps]
    capacity = csr_array(
        (np.array(units, dtype=np.int32), (rows, columns)), shape=(len(sites), len(sites))
    )

    def least_s(src: str, dst: str) -> float:
        flow = int(maximum_flow(capacity, index[src], index[dst]).flow_value)
        return _count_common(plan, src, dst) * model_bytes * 8e-6 * per_mbps / flow

    pairs = ((src, dst) for src in plan.contributors for dst in plan.receivers if src != dst)
    return max(itertools.starmap(least_s, pairs), default=0.0)


def _count_common(plan: Plan, src: str, dst: str) -> float:
    """The least share of the model that both sites hold; the last chunk may be a short one."""
    if src not in plan.shards and dst not in plan.shards:
        return 1.0
    common = set(indexes_of(plan.chunks_of(src))).intersection(indexes_of(plan.chunks_of(dst)))
    whole = len(common) == plan.chunk_count
    return 1.0 if whole else max(0, len(common) - 1) / plan.chunk_count
