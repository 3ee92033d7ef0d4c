"""Background traffic in numbers: a table, and the rate of each flow over time (pure)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from trunkline.agents.events.background_events import (
    BackgroundFailed,
    BackgroundFile,
    BackgroundReceived,
    BackgroundSent,
)
from trunkline.harness.background.flows import Flow
from trunkline.harness.record.history import History
from trunkline.harness.report import columns
from trunkline.harness.report.link_load import Loads
from trunkline.topologies.model import Topology


def tabulate_background(history: History, flows: Iterable[Flow]) -> pd.DataFrame:
    """One row per flow, in the scenario's order."""
    return columns.BACKGROUND.frame(_make_rows(history, flows))


def _make_rows(history: History, flows: Iterable[Flow]) -> Iterator[Mapping[str, Any]]:
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
        yield {
            "flow": number,
            "src": flow.src,
            "dst": flow.dst,
            "kind": entry.kind,
            "mean_mbps": entry.mean_mbps,
            "bytes_sent": sum(event.bytes for event in sent),
            "bytes_received": size,
            "goodput_mbps": size * 8e-6 / taken_s if taken_s > 0 else None,
            "lost_percent": 100 * (1 - arrived / packets) if packets else None,
            "files": len(files) if is_tcp else None,
            "file_median_s": float(np.median(took_s)) if took_s else None,
            "file_p99_s": float(np.quantile(took_s, 0.99)) if took_s else None,
            "failures": sum(event.flow == number for event in history.all(BackgroundFailed)),
        }


def compute_rates_mbps(
    history: History, flows: Sequence[Flow], edges_ns: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Per step between two edges (row) and flow (column): the payload that arrived, in Mbit/s.

    A receiver reports once per second. Between two reports, payload is assumed to arrive evenly.
    """
    moved = np.zeros((len(edges_ns) - 1, len(flows)))
    for column, flow in enumerate(flows):
        times_ns, total = [0.0], [0.0]
        for event in history.all(BackgroundReceived):
            if event.flow == flow.number:
                times_ns += [event.since_ns, event.t_ns]
                total += [total[-1], total[-1] + event.bytes]
        moved[:, column] = np.diff(np.interp(edges_ns, times_ns, total))
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
    return Loads(float(edges_ns[1]) / 1e9, ends, share, np.zeros(share.shape, dtype=bool))
