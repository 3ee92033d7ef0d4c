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
from collections.abc import Iterator, Mapping, Sequence
from itertools import product

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from trunkline.harness.record.history import History
from trunkline.harness.report.overlay.link_load import count_bytes
from trunkline.harness.report.tables.row import Columns, Row, column
from trunkline.topologies.model import Topology

STEP_S = 0.1
"""The length of a step, as in R2SP's figure 1."""

MAX_STEPS = 10_000
"""The most steps of a run; those of a longer run are longer."""

DIRECTIONS: Mapping[str, str] = {"in": "from workers", "out": "to workers"}
"""The start of a column's name -> what moves in this direction."""


class ServerRow(Row, table="servers"):
    """One row per server and step of 100 ms, in order of time; only with servers.

    A server's links are those that begin or end at it: its access link if it has one. Between
    the first and the last byte of a transfer, payload is assumed to move at one pace as far as
    the rate allows, but not while a link of its way is cut or its sender stopped. What exceeds
    the rate for payload in a step counts in the next one. Runs of more than 1000 s have 10 000
    longer steps.
    """

    t_s: float = column("when the step began")
    server: str = column("the server")
    in_mbps: float = column("payload that came over its links in the step, per second")
    in_percent: float = column(
        "that payload as a share of the bytes that the rates of these links allow"
    )
    out_mbps: float = column("payload that left over its links in the step, per second")
    out_percent: float = column(
        "that payload as a share of the bytes that the rates of these links allow"
    )


class RatesOfRun(Columns):
    """The columns of the table `run` that are about servers' links."""

    server_in_mbps: float = column(
        "payload that came to a server in the window, per second (`in_mbps` of `servers`): the "
        "mean over the servers; this column and the next three are empty without servers"
    )
    server_in_peak_mbps: float = column("the largest `in_mbps` of a server")
    server_out_mbps: float = column("payload that left a server in the window, per second")
    server_out_peak_mbps: float = column("the largest `out_mbps` of a server")


def tabulate_servers(
    history: History, topology: Topology, servers: Sequence[str], share: float = 1.0
) -> Iterator[ServerRow]:
    """One row per step and server, in order of time; payload gets `share` of a link's rate."""
    end_s = max(history.end_ns, 1) / 1e9
    step_s = max(STEP_S, end_s / MAX_STEPS)
    edges_ns = np.arange(math.ceil(end_s / step_s) + 1, dtype=np.float64) * step_s * 1e9
    ends = [(link.src, link.dst) for link in topology.links]
    links = [pair for pair in ends if not set(pair).isdisjoint(servers)]
    moved, room = count_bytes(history, topology, links, edges_ns, share)
    moved = _delay_excess(moved, share * room)
    rates: list[NDArray[np.float64]] = []
    for side in (1, 0):
        here = [number for number, pair in enumerate(links) if pair[side] in servers]
        of_server = np.array([[links[n][side] == server for server in servers] for n in here])
        carried, possible = moved[:, here] @ of_server, room[:, here] @ of_server
        used = np.divide(carried, possible, out=np.zeros_like(carried), where=possible > 0)
        rates += [(carried * 8e-6 / step_s).ravel(), 100 * used.ravel()]
    places = product(edges_ns[:-1] / 1e9, servers)
    for (t_s, server), *values in zip(places, *rates, strict=True):
        into, of_in, out, of_out = values
        yield ServerRow(
            t_s=t_s, server=server, in_mbps=into, in_percent=of_in, out_mbps=out, out_percent=of_out
        )


def summarize_rates(servers: pd.DataFrame | None, until_s: float = math.inf) -> RatesOfRun | None:
    """The rates of a run; None without servers.

    `servers` is the table of that name. Means are over its servers, peaks those of any.
    """
    known = None if servers is None else servers[servers["t_s"] < until_s]
    if known is None or not len(known):
        return None
    return RatesOfRun(
        server_in_mbps=float(known["in_mbps"].mean()),
        server_in_peak_mbps=float(known["in_mbps"].max()),
        server_out_mbps=float(known["out_mbps"].mean()),
        server_out_peak_mbps=float(known["out_mbps"].max()),
    )


def _delay_excess(moved: NDArray[np.float64], most: NDArray[np.float64]) -> NDArray[np.float64]:
    """Move what exceeds `most` in a step (row) to the next one; the last step has the rest."""
    found, waiting = np.empty_like(moved), np.zeros(moved.shape[1])
    for step in range(len(moved)):
        waiting = waiting + moved[step]
        found[step] = np.minimum(waiting, most[step])
        waiting = waiting - found[step]
    found[-1] += waiting
    return found
