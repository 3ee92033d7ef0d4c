"""Background traffic in numbers: a table, and the rate of each flow over time (pure)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from trunkline.agents.events.background_events import (
    BackgroundFailed,
    BackgroundFile,
    BackgroundReceived,
    BackgroundSent,
)
from trunkline.harness.background.flows import Flow
from trunkline.harness.record.history import History
from trunkline.harness.report.overlay.link_load import Loads
from trunkline.harness.report.tables.row import Row, column
from trunkline.topologies.model import Topology


class BackgroundRow(Row, table="background"):
    """One row per flow of background traffic; only with `background:`."""

    flow: int = column("its number, from 0")
    src: str = column("the site that sends")
    dst: str = column("the site that receives")
    kind: str = column("`constant`, `on-off` or `tcp`")
    mean_mbps: float = column("the mean rate that the scenario sets, headers included")
    bytes_sent: int = column("payload that the sender gave its kernel")
    bytes_received: int = column("payload that arrived")
    goodput_mbps: float | None = column(
        "payload that arrived over the time from its start to its end"
    )
    lost_percent: float | None = column("packets that did not arrive; empty for `tcp`")
    files: int | None = column("files that arrived completely; empty unless `tcp`")
    file_median_s: float | None = column("median time of a file from its start to its last byte")
    file_p99_s: float | None = column("the time that 99 % of the files took at most")
    failures: int = column("connections that broke or could not be opened")


def tabulate_background(history: History, flows: Iterable[Flow]) -> Iterator[BackgroundRow]:
    """One row per flow, in the scenario's order."""
    for flow in flows:
        number, entry, is_tcp = flow.number, flow.entry, flow.entry.kind == "tcp"
        sent = [event for event in history.all(BackgroundSent) if event.flow == number]
        received = [event for event in history.all(BackgroundReceived) if event.flow == number]
        files = [event for event in history.all(BackgroundFile) if event.flow == number]
        size = sum(event.bytes for event in received)
        end_s = max((event.t_ns for event in (*sent, *received)), default=0) / 1e9
        end_s = min(end_s, math.inf if entry.stop_s is None else entry.stop_s)
        taken_s = end_s - entry.start_s
        packets = sum(event.packets for event in sent)
        arrived = sum(event.packets for event in received)
        took_s = [(event.t_ns - event.start_ns) / 1e9 for event in files]
        yield BackgroundRow(
            flow=number,
            src=flow.src,
            dst=flow.dst,
            kind=entry.kind,
            mean_mbps=entry.mean_mbps,
            bytes_sent=sum(event.bytes for event in sent),
            bytes_received=size,
            goodput_mbps=size * 8e-6 / taken_s if taken_s > 0 else None,
            lost_percent=100 * (1 - arrived / packets) if packets else None,
            files=len(files) if is_tcp else None,
            file_median_s=float(np.median(took_s)) if took_s else None,
            file_p99_s=float(np.quantile(took_s, 0.99)) if took_s else None,
            failures=sum(event.flow == number for event in history.all(BackgroundFailed)),
        )


def compute_rates_mbps(
    history: History, flows: Sequence[Flow], edges_ns: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Per step between two edges (row) and flow (column): the payload that arrived, in Mbit/s.

    A receiver reports once per second. Between two reports, payload is assumed to arrive evenly.
    """
    moved = np.zeros((len(edges_ns) - 1, len(flows)))
    for place, flow in enumerate(flows):
        times_ns, total = [0.0], [0.0]
        for event in history.all(BackgroundReceived):
            if event.flow == flow.number:
                times_ns += [event.since_ns, event.t_ns]
                total += [total[-1], total[-1] + event.bytes]
        moved[:, place] = np.diff(np.interp(edges_ns, times_ns, total))
    rates: NDArray[np.float64] = moved * 8e3 / np.diff(edges_ns)[:, None]
    return rates


def compute_flow_loads(
    history: History, topology: Topology, flows: Sequence[Flow], steps: int
) -> Loads:
    """The rate of each flow over time, as a share of the slowest link on its path."""
    edges_ns = np.linspace(0.0, max(history.active_end_ns, 1), steps + 1)
    slowest = [
        min(topology.link(*hop).rate_mbps for hop in pairwise(topology.path(flow.src, flow.dst)))
        for flow in flows
    ]
    share = compute_rates_mbps(history, flows, edges_ns) / np.array(slowest)
    ends = tuple((flow.src, flow.dst) for flow in flows)
    never = np.zeros(share.shape, dtype=bool)
    return Loads(float(edges_ns[1]) / 1e9, ends, share, never, never)
