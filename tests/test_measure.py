"""The fidelity self-check: what it sends, and how it judges what came out."""

from dataclasses import replace
from datetime import datetime

import numpy as np
import pytest

from harness.measure import fidelity
from harness.measure.judge import judge, verdict
from harness.measure.networks import grid, small
from harness.measure.observation import Arrivals, Moved, Observation
from harness.measure.plan import EFFORTS, plan
from harness.network import NetworkError, NetworkOptions
from harness.ownership import Owner
from harness.scenario import parse
from harness.store import RunFolder
from topologies.model import Link, Site, Topology

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
    return {row.quantity: row.outcome for row in rows}, verdict(rows).outcome


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
    )
    assert Arrivals.of(np.zeros((0, 3), np.int64), 2, 0).missing == (0, 1)


def test_an_observation_survives_its_way_through_json():
    observed = Observation("a", "b", seen().trains, flow=Moved(1, 2.0))
    assert Observation.from_json(observed.to_json()) == observed


def test_tcp_is_not_asked_to_fill_what_it_cannot():
    (planned,) = plan(PAIR, OPTIONS, EFFORTS["virtual"])
    assert set(planned.flows) == {("b", "a")}
    assert planned.skipped == {(("a", "b"), "goodput"): "random loss slows TCP down"}


def test_the_built_in_networks_are_scenarios():
    assert len(parse(small(), "small").topology.links) == 12
    assert len(parse(grid(), "grid").topology.links) == 144


def test_while_it_measures_its_folder_is_an_unfinished_run_of_this_process(tmp_path, monkeypatch):
    folder = RunFolder.create(tmp_path, "small.bench", datetime(2026, 1, 1))
    owners = []

    def killed(*_):
        owners.append(Owner.of_run(folder.path))
        return 137

    monkeypatch.setattr(fidelity, "carry", killed)
    with pytest.raises(NetworkError, match="the measurements ended with code 137"):
        fidelity.check(parse(small(), "small"), folder, lambda *_: None, with_foreign=False)
    assert owners == [Owner.me()]
    assert not (folder.path / "verdict.json").exists()
