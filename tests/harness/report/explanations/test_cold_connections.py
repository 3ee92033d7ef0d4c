"""How long a connection may have been cold, by what it had carried."""

from __future__ import annotations

import pytest

from trunkline.agents.events.task_events import Sent, TaskStarted
from trunkline.harness.record.history import History
from trunkline.harness.record.transfers import Transfer
from trunkline.harness.report.explanations.critical_path import PathStep
from trunkline.harness.report.explanations.links.cold_connections import COLD_TRIPS, ColdConnections
from trunkline.topologies.links import Link
from trunkline.topologies.model import Site, Topology

MS = 1_000_000
ENDS = "a", "b"
TRIP_S = 0.1
TOPOLOGY = Topology(
    "two", (Site("a"), Site("b")), (Link("a", "b", 40.0, 50.0), Link("b", "a", 40.0, 50.0))
)
"""The links carry 500 kB in a round trip."""

Sizes = tuple[int, int, int]
"""The kB of a transfer, and when it starts and ends in ms."""


def find_cold_s(*transfers: Sizes, start_ms: int = 0, size_kb: int = 0) -> float:
    """How long a connection may have been cold in a step that ends after 10 s."""
    weights = {"a": 1.0, "b": 1.0}
    plan = {"contributors": [], "receivers": [], "chunk_count": 1, "blocks": []}
    started = TaskStarted(0, "controller", 0, "", "", ENDS, weights, 0.5, 1, 1, (), plan)
    times = [(kb * 1000, start * MS, end * MS) for kb, start, end in transfers]
    sent = [Sent(end, "a", 0, "b", "in", size, 1, start, end) for size, start, end in times]
    made = [Transfer(0, *ENDS, "in", size, start, end) for size, start, end in times]
    connections = ColdConnections(
        History.of([started, *sent]), TOPOLOGY, made, lambda ends, span: False
    )
    step = PathStep("transfer", start_ms * MS, 10_000 * MS, "b", "a", size_kb * 1000)
    return connections.find_cold_s(ENDS, step)


def test_without_a_long_transfer_a_connection_may_be_cold_for_as_long_as_any() -> None:
    assert find_cold_s((500, 0, 9000)) == COLD_TRIPS * TRIP_S


def test_a_connection_is_cold_no_longer_than_its_long_transfer_took_beyond_its_bytes() -> None:
    """6 MB need 1.2 s: 0.1 s more, and less than a round trip until the window is whole."""
    assert find_cold_s((6000, 0, 1300)) == pytest.approx(0.1, abs=TRIP_S)
    assert find_cold_s((6000, 1000, 2300)) == pytest.approx(0.1, abs=TRIP_S)
    assert find_cold_s((6000, 0, 1300), start_ms=1300) < TRIP_S


def test_after_a_slow_transfer_a_connection_may_be_cold_for_many_round_trips() -> None:
    """2 MB in 4 s are a tenth of the rate: 3.6 s, and 56 round trips until the window is whole."""
    assert find_cold_s((2000, 0, 4000)) == pytest.approx(3.6 + 56 * TRIP_S, abs=TRIP_S)


def test_a_connection_is_no_colder_than_for_as_many_bytes_before() -> None:
    """0.5 MB need 0.1 s, and took 0.15 s; they say nothing of 0.6 MB."""
    assert find_cold_s((500, 0, 150), start_ms=9000, size_kb=500) == pytest.approx(0.05)
    assert find_cold_s((500, 0, 150), start_ms=9000, size_kb=600) == COLD_TRIPS * TRIP_S
    assert find_cold_s((500, 9000, 9150), start_ms=9000, size_kb=500) == COLD_TRIPS * TRIP_S
