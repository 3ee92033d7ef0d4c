"""A lower bound on the completion time of every plan: the overlay's smallest cut (pure)."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow

from trunkline.agents.planning.plan import Directed, Plan

_LARGEST_FLOW = 2**31 - 1
"""SciPy computes flows in 32-bit integers."""


def bound(plan: Plan, rates_mbps: Mapping[Directed, float], model_bytes: int) -> float:
    """The time in seconds that no plan with these contributors and receivers can beat.

    Every contributor's whole model must influence every other receiver, so at least `model_bytes`
    cross every cut between the two. The smallest cut equals the maximum flow. Delays are left out.
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
        (np.array(units, dtype=np.int32), (rows, columns)),
        shape=(len(sites), len(sites)),
    )
    flows = [
        maximum_flow(capacity, index[src], index[dst]).flow_value
        for src in plan.contributors
        for dst in plan.receivers
        if src != dst
    ]
    return max((model_bytes * 8e-6 * per_mbps / flow for flow in flows), default=0.0)
