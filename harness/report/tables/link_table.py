"""The table of directed links (pure)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

import pandas as pd

from trunkline.agents.events.run_events import RunFinished
from trunkline.agents.planning.plan import Directed
from trunkline.harness.background.flows import Flow
from trunkline.harness.checks.network.background_checks import count_payload
from trunkline.harness.record.history import History
from trunkline.harness.record.link_history import Conditions
from trunkline.harness.record.transfers import Transfer, transfers, union
from trunkline.harness.report.tables.row import Row, column
from trunkline.topologies.model import Topology


class LinkRow(Row, table="links"):
    """One row per directed link, in the topology's order."""

    src: str = column("the site that sends")
    dst: str = column("the site that receives")
    rate_mbps: float = column("the rate that was set; if it changed, the mean over the run")
    delay_ms: float = column("the one-way delay that was set; if it changed, the smallest")
    bytes: int | None = column("payload that crossed it; empty for programs")
    interface_bytes: int | None = column("bytes that its interface counted, with headers")
    drops: int | None = column(
        "packets that it lost: its queue was full, at random, or in a blackhole"
    )
    busy_s: float | None = column(
        "time between the first and the last byte of payloads on it; empty for programs"
    )
    goodput_mbps: float | None = column("payload over busy time; empty if there was no payload")
    utilisation_percent: float | None = column("goodput over the rate during the busy time")
    background_bytes: int = column(
        "payload of background traffic that crossed it and arrived; not in `bytes`"
    )


def tabulate_links(
    history: History, topology: Topology, flows: Sequence[Flow] = (), logs_payload: bool = True
) -> Iterator[LinkRow]:
    """One row per directed link, in the topology's order; `flows` are the background traffic.

    A link is busy from a payload's first byte handed to it to the last byte off it. Goodput is
    payload over busy time, utilisation is goodput over the rate during that time. Both are empty
    for a link that carried nothing. Programs do not log their payload.
    """
    conditions = Conditions.of(history, topology)
    delays_ms = conditions.least_delays_ms
    moved: defaultdict[Directed, list[Transfer]] = defaultdict(list)
    for transfer in conditions.on_links(transfers(history.tasks, delays_ms)):
        moved[transfer.src, transfer.dst].append(transfer)
    counted = {(c.src, c.dst): c for run in history.all(RunFinished) for c in run.links}
    background = count_payload(history, topology, flows)
    for link in topology.links:
        ends = (link.src, link.dst)
        spans = union((transfer.start_ns, transfer.end_ns) for transfer in moved[ends])
        busy_s = sum(end - start for start, end in spans) / 1e9
        size = sum(transfer.bytes for transfer in moved[ends])
        goodput_mbps = size * 8 / 1e6 / busy_s if busy_s else None
        room_bytes = conditions.capacity_bytes(ends, spans)
        counters = counted.get(ends)
        yield LinkRow(
            src=link.src,
            dst=link.dst,
            rate_mbps=conditions.mean_rate_mbps(ends, history.end_ns),
            delay_ms=delays_ms[ends],
            bytes=size if logs_payload else None,
            interface_bytes=counters.bytes if counters else None,
            drops=counters.drops if counters else None,
            busy_s=busy_s if logs_payload else None,
            goodput_mbps=goodput_mbps,
            utilisation_percent=goodput_mbps and 100 * size / room_bytes,
            background_bytes=background[ends],
        )


def use_interface_counters(links: pd.DataFrame, history: History) -> pd.DataFrame:
    """The table of links with the interfaces' bytes as payload, for runs of programs.

    Agents log their payload, programs do not. A link counts as busy while any site synchronizes.
    """
    spans = union((sync.start_ns, sync.end_ns or history.end_ns) for sync in history.syncs)
    busy_s = sum(end - start for start, end in spans) / 1e9 or history.end_ns / 1e9
    table = links.assign(bytes=links["interface_bytes"].fillna(0).astype("int64"), busy_s=busy_s)
    table["goodput_mbps"] = table["bytes"] * 8 / 1e6 / busy_s if busy_s else 0.0
    return table.assign(utilisation_percent=100 * table["goodput_mbps"] / table["rate_mbps"])
