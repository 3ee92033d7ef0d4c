"""The fidelity self-check: what it sends, and how it judges what came out."""

import socket
import sys
from dataclasses import replace
from datetime import datetime

import numpy as np
import pytest

from trunkline.harness.measure import impaired, self_check
from trunkline.harness.measure.effort import EFFORTS
from trunkline.harness.measure.judge import judge
from trunkline.harness.measure.measurement_plan import Train, plan
from trunkline.harness.measure.networks import write_grid, write_small
from trunkline.harness.measure.observation import Arrivals, Moved, Observation
from trunkline.harness.measure.pair import pace, sort_arrivals
from trunkline.harness.measure.readings import list_unjudged, make_verdict
from trunkline.harness.network.interface import NetworkError, NetworkOptions
from trunkline.harness.processes.ownership import Owner
from trunkline.harness.record.run_folder import RunFolder
from trunkline.harness.scenario.loading import parse
from trunkline.topologies.links import Link
from trunkline.topologies.model import Site, Topology

PAIR = Topology(
    "pair",
    (Site("a"), Site("b")),
    (
        Link("a", "b", 100.0, delay_ms=10.0, loss_percent=1.0, queue_bytes=151_400),
        Link("b", "a", 50.0, delay_ms=10.0),
    ),
)
OPTIONS = NetworkOptions()
SENDING_NS = round((64 + 42) * 8e3 / 100)


def seen(**trains):
    """a -> b as it should be, but for these trains."""
    good = {
        "delay": Arrivals(20, 0, 20, delays_ns=(10_000_000 + SENDING_NS,) * 20),
        "queue": Arrivals(130, 0, 99),
        "load": Arrivals(400, 0, 300, counted=100, counted_ns=100 * 1514 * 80),
        "loss": Arrivals(10_000, 0, 9_900),
    }
    return Observation("a", "b", {**good, **trains})


def outcomes(observed, clock="virtual"):
    plans = plan(PAIR, OPTIONS, EFFORTS[clock])
    rows = judge(PAIR, OPTIONS, plans, [observed], clock)
    return {row.quantity: row.outcome for row in rows}, make_verdict(rows).outcome


def test_a_link_that_is_as_set_passes():
    assert outcomes(seen()) == (
        {
            "goodput": None,
            "rate": "pass",
            "delay": "pass",
            "jitter": "pass",
            "order": "pass",
            "loss": "pass",
            "queue": "pass",
        },
        "pass",
    )


@pytest.mark.parametrize(
    ("quantity", "train", "arrivals"),
    [
        ("rate", "load", Arrivals(400, 0, 300, counted=102, counted_ns=100 * 1514 * 80)),
        ("delay", "delay", Arrivals(20, 0, 20, delays_ns=(10_150_000 + SENDING_NS,) * 20)),
        ("order", "loss", Arrivals(10_000, 0, 9_900, disordered=1)),
        ("loss", "loss", Arrivals(10_000, 0, 9_860)),
        ("loss", "loss", Arrivals(10_000, 0, 9_940)),
        ("queue", "queue", Arrivals(130, 0, 106)),
        ("delay", "delay", Arrivals(20, 0, 0)),
    ],
)
def test_a_link_that_is_not_as_set_fails_in_that_quantity(quantity, train, arrivals):
    by_quantity, overall = outcomes(seen(**{train: arrivals}))
    assert by_quantity[quantity] == overall == "fail"


def test_late_timers_make_every_measurement_unknown():
    late = Observation("a", "b", seen().trains, late=0.2)
    by_quantity, overall = outcomes(late, "real")
    assert set(by_quantity.values()) == {None, "unknown"}
    assert overall == "unknown"


def test_slightly_late_timers_excuse_a_bar_that_does_not_hold():
    missed = seen(queue=Arrivals(130, 0, 30))
    for late, outcome in ((0.0, "fail"), (0.05, "unknown")):
        by_quantity, overall = outcomes(replace(missed, late=late), "real")
        assert by_quantity["queue"] == overall == outcome
        assert by_quantity["delay"] == "pass"


def test_a_random_loss_is_no_error_of_a_short_queue():
    one_lost = Topology(
        "pair",
        PAIR.sites,
        (replace(PAIR.links[0], loss_percent=0.02, queue_bytes=65536), PAIR.links[1]),
    )
    plans = plan(one_lost, OPTIONS, EFFORTS["virtual"])
    for arrived, outcome in ((43, "pass"), (42, "pass"), (40, "fail")):
        observed = seen(queue=Arrivals(68, 0, arrived))
        rows = judge(one_lost, OPTIONS, plans, [observed], "virtual")
        assert next(row.outcome for row in rows if row.quantity == "queue") == outcome


def test_goodput_is_judged_against_the_rate_minus_headers():
    plans = plan(PAIR, OPTIONS, EFFORTS["virtual"])
    trains = seen().trains
    for mbps, outcome in ((47.8, "pass"), (50.0, "fail")):
        observed = Observation("b", "a", trains, flow=Moved(round(mbps * 125_000), 1.0))
        rows = judge(PAIR, OPTIONS, plans, [observed], "virtual")
        assert next(row.outcome for row in rows if row.quantity == "goodput") == outcome


def test_jitter_at_both_ends_of_a_flow_is_no_error_of_its_goodput():
    jittery = Topology("pair", PAIR.sites, (PAIR.links[0], replace(PAIR.links[1], jitter_ms=5.0)))
    plans = plan(jittery, OPTIONS, EFFORTS["virtual"])
    assert plans[0].flows["b", "a"].counted_bytes == round(2.0 * 50.0 * 125_000 * 1448 / 1514)
    for mbps, outcome in ((47.2, "pass"), (46.8, "fail")):
        flow = Moved(round(2 * mbps * 125_000), 2.0)
        observed = Observation("b", "a", seen().trains, flow=flow)
        rows = judge(jittery, OPTIONS, plans, [observed], "virtual")
        assert next(row.outcome for row in rows if row.quantity == "goodput") == outcome


def test_arrivals_count_what_is_missing_and_what_came_too_late():
    rows = np.array([(0, 5, 10), (2, 5, 11), (1, 6, 13), (4, 6, 17)])
    assert Arrivals.of(rows, 5, 7) == Arrivals(
        sent=5,
        sent_ns=7,
        arrived=4,
        disordered=1,
        counted=1,
        counted_ns=4,
        delays_ns=(5, 6, 7, 11),
        missing=(3,),
        bursts=1,
        overtook=1,
    )
    gone = np.array([(number, 0, 1) for number in (0, 3, 4, 6)])
    assert Arrivals.of(gone, 9, 7).bursts == 3
    assert Arrivals.of(np.zeros((0, 3), np.int64), 2, 0).missing == (0, 1)


def test_an_observation_survives_its_way_through_json():
    observed = Observation("a", "b", seen().trains, flow=Moved(1, 2.0))
    assert Observation.from_json(observed.to_json()) == observed


def both_ways(**values):
    """What measures a pair of such links of 10 Mbit/s and 1 ms, and why something does not."""
    link = Link("a", "b", **{"rate_mbps": 10.0, "delay_ms": 1.0, **values})
    back = replace(link, src="b", dst="a")
    pair = Topology("pair", (Site("a"), Site("b")), (link, back))
    (planned,) = plan(pair, OPTIONS, EFFORTS["virtual"])
    trains = {stage.name: stage.trains["a", "b"] for stage in planned.stages}
    return (
        planned,
        trains,
        {name: why for (at, name), why in planned.skipped.items() if at[0] == "a"},
    )


def test_tcp_is_not_asked_to_fill_what_it_cannot():
    (planned,) = plan(PAIR, OPTIONS, EFFORTS["virtual"])
    assert set(planned.flows) == {("b", "a")}
    reason = "random loss slows TCP down"
    assert planned.skipped == {(("a", "b"), "goodput"): reason, (("a", "b"), "iperf3"): reason}


@pytest.mark.parametrize(
    ("values", "skipped"),
    [
        ({}, {}),
        ({"rate_mbps": 0.1}, {}),
        ({"rate_mbps": 0.01}, {"iperf3": "too few packets pass in 60 s"}),
        (
            {"rate_mbps": 0.001},
            dict.fromkeys(
                ("goodput", "iperf3"), "a round trip of 129 s is too long for TCP's timers"
            ),
        ),
        (
            {"rate_mbps": 1e6, "queue_bytes": 10_000_000},
            {
                "rate": "1e+06 Mbit/s are too fast for the clock",
                "goodput": "1e+06 Mbit/s are too fast for TCP in the kernel's clock",
                "iperf3": "1e+06 Mbit/s are too fast for TCP in the kernel's clock",
            },
        ),
        (
            {"queue_bytes": 1514},
            {
                "rate": "a queue of 1514 bytes is empty before the next packet fits",
                "goodput": "a queue of 1514 bytes is too short for TCP",
                "iperf3": "a queue of 1514 bytes is too short for TCP",
            },
        ),
        (
            {"loss_percent": 99.9},
            {
                "rate": "too few of the packets that 65536 bytes hold would arrive",
                "delay": "too few of 1000 packets would arrive",
                "jitter": "too few of 1000 packets would arrive",
                "queue": "too few of the packets that 65536 bytes hold would arrive",
                "goodput": "random loss slows TCP down",
                "iperf3": "random loss slows TCP down",
            },
        ),
    ],
)
def test_what_a_link_cannot_show_is_skipped_with_the_reason(values, skipped):
    assert both_ways(**values)[2] == skipped


def test_corrupted_packets_take_their_time_and_are_no_error_of_the_rate():
    sending_ns = 1514 * 80
    numbers = np.array([0, 1, 2, 3, 4, 5, 7, 8, 10, 11])  # 6 and 9 do not arrive
    rows = np.stack([numbers, 0 * numbers, numbers * sending_ns], axis=1)
    came = Arrivals.of(rows, 12, 0)
    assert (came.pairs, came.pairs_ns) == (2, 2 * sending_ns)
    there, back = PAIR.links
    for jitter_ms, outcome in ((0.0, "pass"), (2.0, None)):
        link = replace(there, loss_percent=0.0, corrupt_percent=10.0, jitter_ms=jitter_ms)
        pair = replace(PAIR, links=(link, back))
        plans = plan(pair, OPTIONS, EFFORTS["virtual"])
        rows = judge(pair, OPTIONS, plans, [seen(load=came)], "virtual")
        assert [row.outcome for row in rows if row.quantity == "rate"] == [outcome]


def test_a_link_with_loss_gets_what_its_queue_holds_at_once():
    _, trains, skipped = both_ways(loss_percent=25.0)
    assert trains["load"] == Train(43, 1472, 43, 0.0)
    assert skipped.keys() == {"goodput", "iperf3"}
    assert trains["delay"].packets == 27


def test_tcp_may_stand_still_for_longer_on_a_slow_link():
    stall_s = [both_ways(rate_mbps=mbps)[0].flows["a", "b"].stall_s for mbps in (10, 0.01)]
    assert stall_s == [121, 645]


def test_what_could_not_be_measured_is_no_failure_and_says_why():
    stuck = replace(seen(), src="b", dst="a", failed={"goodput": "TCP stood still for 121 s"})
    plans = plan(PAIR, OPTIONS, EFFORTS["virtual"])
    rows = judge(PAIR, OPTIONS, plans, [stuck], "virtual")
    assert {row.outcome for row in rows if row.quantity == "goodput"} == {None}
    assert list(list_unjudged(rows)) == ["goodput: b -> a not judged: TCP stood still for 121 s"]
    two = [replace(row, src=src) for row in rows for src in ("b", "c")]
    assert list(list_unjudged(two)) == [
        "goodput: b -> a and 1 more not judged: TCP stood still for 121 s"
    ]


def test_random_losses_widen_the_bar_of_a_queue_by_what_they_may_hide():
    half = Topology("pair", PAIR.sites, (replace(PAIR.links[0], loss_percent=50), PAIR.links[1]))
    plans = plan(half, OPTIONS, EFFORTS["virtual"])
    for arrived, outcome in ((50, "pass"), (37, "pass"), (30, "fail")):
        rows = judge(half, OPTIONS, plans, [seen(queue=Arrivals(130, 0, arrived))], "virtual")
        assert next(row.outcome for row in rows if row.quantity == "queue") == outcome


def test_packets_that_arrive_before_their_stage_begins_are_counted():
    planned, trains, _ = both_ways()
    early = [(number, 0, 5, 10 + number) for number in (3, 2, 1, 0)]
    seen_of = sort_arrivals(planned, ("a", "b"), np.array(early, np.int64))
    assert {name: train["arrived"] for name, train in seen_of.items()} == dict.fromkeys(trains, 1)


def test_a_connection_s_pace_may_be_more_than_a_32_bit_number():
    with socket.socket() as connection:
        pace(connection, 5_000_000_000)
        held = connection.getsockopt(socket.SOL_SOCKET, 47, 8)
        assert int.from_bytes(held, sys.byteorder) == 5_000_000_000


def test_the_built_in_networks_are_scenarios():
    assert len(parse(write_small(), "small").topology.links) == 16
    assert len(parse(write_grid(), "grid").topology.links) == 144


def test_while_it_measures_its_folder_is_an_unfinished_run_of_this_process(tmp_path, monkeypatch):
    folder = RunFolder.create(tmp_path, "small.bench", datetime(2026, 1, 1))
    owners = []

    def killed(*_):
        owners.append(Owner.of_run(folder.path))
        return 137

    monkeypatch.setattr(self_check, "run_command", killed)
    with pytest.raises(NetworkError, match="the measurements ended with code 137"):
        self_check.check(parse(write_small(), "small"), folder, lambda *_: None, with_foreign=False)
    assert owners == [Owner.me()]
    assert not (folder.path / "verdict.json").exists()


def test_arrivals_count_packets_that_came_twice_or_overtook_others():
    rows = np.array([(0, 0, 1), (2, 0, 2), (1, 0, 3), (1, 0, 3), (4, 0, 4), (3, 0, 5)])
    came = Arrivals.of(rows, 5, 7)
    assert (came.arrived, came.copies, came.overtook, came.disordered) == (5, 1, 2, 2)
    assert len(came.delays_ns) == 5


@pytest.mark.parametrize(
    ("values", "shares"),
    [
        ({}, (0.0, 0.0, 0.0)),
        ({"reorder_percent": 10.0}, (0.0, 0.0, 0.1)),
        ({"corrupt_percent": 10.0}, (0.1, 0.0, 0.0)),
        ({"duplicate_percent": 10.0}, (0.0, 0.1, 0.0)),
        # The original of a packet that is there twice is lost, or its copy, which may not both be.
        ({"duplicate_percent": 100.0, "loss_percent": 10.0}, (0.0, 0.81, 0.0)),
        ({"duplicate_percent": 100.0, "corrupt_percent": 10.0}, (0.01, 0.81, 0.0)),
    ],
)
def test_shares_of_packets_that_a_link_has_to_show(values, shares):
    found = impaired.Shares.of(Link("a", "b", 1.0, 10.0, **values))
    assert (found.missing, found.twice, found.overtaking) == pytest.approx(shares)


def test_the_spread_of_delays_follows_their_distribution():
    link = Link("a", "b", 1.0, 100.0, 10.0)
    assert impaired.Spread.of(link).deviation_ms == pytest.approx(10 / 3**0.5)
    normal = replace(link, distribution="normal")
    assert impaired.Spread.of(normal).deviation_ms == pytest.approx(10.0, rel=0.01)
    assert impaired.Spread.of(normal).kurtosis == pytest.approx(3.0, rel=0.02)
    assert impaired.find_percentile(normal, 84.13) == pytest.approx(110.0, abs=0.05)
    half = impaired.sum_delays([replace(link, reorder_percent=50.0)])
    assert half == pytest.approx((50.0, 0.5 * (100 / 3 + 100**2) - 50**2))
