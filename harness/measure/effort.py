"""How much a measurement of a network sends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is sent. A real clock needs longer flows, and has less time for many packets.

    Attributes:
        loss_packets: the most packets that measure the loss of one link.
        all_loss_packets: the most packets that measure the loss of all links.
        flow_s: the least duration of the counted part of a TCP flow.
        load_s: the least duration of a `load` train.
        gap_s: the least time between two delay probes.
        rest_s: the time between two stages, after the links have become idle.
        iperf3_bytes: the most bytes of iperf3, which wakes up for every packet.
    """

    loss_packets: int
    all_loss_packets: int
    flow_s: float
    load_s: float
    gap_s: float
    rest_s: float
    iperf3_bytes: int


EFFORTS: Mapping[str, Effort] = {
    "virtual": Effort(500_000, 5_000_000, 0.0, 0.0, 0.001, 0.05, iperf3_bytes=30_000_000),
    "real": Effort(20_000, 200_000, 2.0, 0.5, 0.005, 0.3, iperf3_bytes=250_000_000),
}
"""The effort by clock."""

QUICK_SHARE = 0.1
"""The share of the packets that a quick measurement sends to count losses and their like."""


def choose_effort(clock: str, quick: bool) -> Effort:
    """The effort of a measurement by the scenario's clock; a quick one has wider bars."""
    effort = EFFORTS[clock]
    if not quick:
        return effort
    return replace(
        effort,
        loss_packets=round(effort.loss_packets * QUICK_SHARE),
        all_loss_packets=round(effort.all_loss_packets * QUICK_SHARE),
    )
