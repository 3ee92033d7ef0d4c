"""How much of their links servers use over time, in both directions (pure).

R2SP's figures 1 and 17 show this. A server's links are those that begin or end at it: its access
link, or, without one, its links to all other sites together.

The log has the times of a payload's first and last byte. `spreading` says when its bytes are
assumed to move in between. If several transfers share a link unevenly, that gives more than the
link can carry: what exceeds a step's rate is then counted in the next step, as if it waited in a
queue.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from trunkline.harness.record.history import History
from trunkline.harness.report import columns
from trunkline.harness.report.link_load import count_bytes
from trunkline.topologies.model import Topology

STEP_S = 0.1
"""The length of a step, as in R2SP's figure 1."""

MAX_STEPS = 10_000
"""The most steps of a run; those of a longer run are longer."""

DIRECTIONS: Mapping[str, str] = {"in": "from workers", "out": "to workers"}
"""The start of a column's name -> what moves in this direction."""


def tabulate_servers(
    history: History, topology: Topology, servers: Sequence[str], share: float = 1.0
) -> pd.DataFrame:
    """One row per step and server, in order of time; payload gets `share` of a link's rate."""
    end_s = max(history.end_ns, 1) / 1e9
    step_s = max(STEP_S, end_s / MAX_STEPS)
    edges_ns = np.arange(math.ceil(end_s / step_s) + 1, dtype=np.float64) * step_s * 1e9
    ends = [(link.src, link.dst) for link in topology.links]
    found: dict[str, Any] = {
        "t_s": np.repeat(edges_ns[:-1] / 1e9, len(servers)),
        "server": list(servers) * (len(edges_ns) - 1),
    }
    links = [pair for pair in ends if not set(pair).isdisjoint(servers)]
    moved, room = count_bytes(history, topology, links, edges_ns, share)
    moved = _delay_excess(moved, share * room)
    for direction, side in (("in", 1), ("out", 0)):
        here = [number for number, pair in enumerate(links) if pair[side] in servers]
        of_server = np.array([[links[n][side] == server for server in servers] for n in here])
        carried, possible = moved[:, here] @ of_server, room[:, here] @ of_server
        used = np.divide(carried, possible, out=np.zeros_like(carried), where=possible > 0)
        found[f"{direction}_mbps"] = (carried * 8e-6 / step_s).ravel()
        found[f"{direction}_percent"] = 100 * used.ravel()
    rows = zip(*found.values(), strict=True)
    return columns.SERVERS.frame(dict(zip(found, row, strict=True)) for row in rows)


def summarize_rates(
    servers: pd.DataFrame | None, until_s: float = math.inf
) -> dict[str, float | None]:
    """The columns of the table `run` that are about servers' links; empty without servers.

    `servers` is the table of that name. Means are over its servers, peaks those of any.
    """
    found: dict[str, float | None] = {}
    known = None if servers is None else servers[servers["t_s"] < until_s]
    for direction in DIRECTIONS:
        rates = None if known is None or not len(known) else known[f"{direction}_mbps"]
        found[f"server_{direction}_mbps"] = None if rates is None else float(rates.mean())
        found[f"server_{direction}_peak_mbps"] = None if rates is None else float(rates.max())
    return found


def _delay_excess(moved: NDArray[np.float64], most: NDArray[np.float64]) -> NDArray[np.float64]:
    """Move what exceeds `most` in a step (row) to the next one; the last step has the rest."""
    found, waiting = np.empty_like(moved), np.zeros(moved.shape[1])
    for step in range(len(moved)):
        waiting = waiting + moved[step]
        found[step] = np.minimum(waiting, most[step])
        waiting = waiting - found[step]
    found[-1] += waiting
    return found
