"""What a log says about plans' knowledge of rates that change."""

import math

import pytest
from plan_knowledge import Change, list_changes, summarize

from trunkline.agents.events.awareness_events import LinkRate, PlansUpdated, RateMeasured
from trunkline.agents.events.fault_events import LinkChanged
from trunkline.agents.events.run_events import Stopping
from trunkline.harness.record.history import History
from trunkline.topologies.model import Link, Site, Topology

S = 1_000_000_000
TOPOLOGY = Topology(
    "pair", (Site("a"), Site("b")), (Link("a", "b", 10.0, 1.0), Link("b", "a", 10.0, 1.0))
)


def change(at_s: int, src: str, dst: str, rate_mbps: float) -> LinkChanged:
    return LinkChanged(at_s * S, "runner", src, dst, rate_mbps, 1.0, 0.0, 0.0, ())


def update(at_s: int, version: int, src: str, dst: str, rate_mbps: float) -> PlansUpdated:
    return PlansUpdated(at_s * S, "a", version, (LinkRate(src, dst, rate_mbps),))


def measure(at_s: int, src: str, dst: str, chunks: int) -> RateMeasured:
    return RateMeasured(at_s * S, dst, src, dst, 5.0, chunks, chunks * 1000, 1.0)


HISTORY = History.of(
    [
        change(100, "a", "b", 5.0),
        change(100, "b", "a", 11.0),
        measure(103, "a", "b", 4),
        measure(107, "a", "b", 4),
        update(108, 1, "a", "b", 5.9),
        change(112, "a", "b", 20.0),
        measure(120, "a", "b", 4),
        measure(125, "a", "b", 4),
        update(127, 2, "a", "b", 17.0),
        Stopping(140 * S, "a", "time"),
    ]
)


def test_a_change_is_known_when_plans_follow_a_rate_at_most_a_fifth_off() -> None:
    assert list(list_changes(HISTORY, TOPOLOGY)) == [
        Change((True, None), True, 8),
        Change((False, True), True, 4),
        Change((True, True), True, 0),
    ]


def test_the_shares_count_changes_that_last_long_enough() -> None:
    assert summarize(HISTORY, TOPOLOGY) == pytest.approx(
        {
            "links of 2 that an update does not know": 0,
            "redrawn links known after 10 s, %": 200 / 3,
            "redrawn links known after 20 s, %": 100,
            "known at the next redraw or the end, %": 100,
            "known of those that 8 chunks crossed in 10 s, %": 100,
            "known of those without a measurement in 10 s, %": 100,
        }
    )


def test_a_rate_that_changes_by_less_than_a_fifth_stays_known_and_no_change_has_no_share() -> None:
    quiet = History.of([update(5, 1, "a", "b", 7.0), Stopping(9 * S, "a", "time")])
    rows = summarize(quiet, TOPOLOGY)
    assert rows.pop("links of 2 that an update does not know") == 1
    assert all(math.isnan(share) for share in rows.values())
