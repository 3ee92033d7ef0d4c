"""Tables and figures of what sites measured, from a few events written down by hand."""

from __future__ import annotations

import json

import pytest

from trunkline.agents.events import event_reading
from trunkline.harness.record.history import History
from trunkline.harness.record.link_history import Conditions
from trunkline.harness.report import awareness_plots
from trunkline.harness.report.awareness_tables import (
    ClockRow,
    ProbeRow,
    tabulate_clocks,
    tabulate_probes,
)
from trunkline.harness.scenario.loading import parse

SCENARIO = """
topology: {builder: full_mesh, sites: 3, rates: 80 Mbit/s, delays: 30 ms}
network: {mtu: 1500}
workload: {kind: synthetic, model: 8 MB}
scheme: {policy: bsp, plan: ps, chunk: 2 MB, rates: measured, awareness: {estimator: ESTIMATOR}}
clocks: {n1: {offset: 5 ms}, n2: {offset: 15 ms, drift: 100 ppm}}
stop: {rounds: 1}
"""
S = 10**9


def line(t_s, site, event, **fields):
    return json.dumps({"t_ns": int(t_s * S), "site": site, "event": event, **fields})


def measured(t_s, src, dst, rate_mbps):
    fields = {"chunks": 4, "bytes": 8_000_000, "least_delay_ms": 30.0}
    return line(t_s, dst, "rate_measured", src=src, dst=dst, rate_mbps=rate_mbps, **fields)


LOG = [
    line(
        1, "n2", "clock_synchronized", server="n1", delay_ms=60.0, before_ns=None, correction_ns=-S,
    ),
    measured(2, "n1", "n2", 72.0),
    line(
        3, "runner", "link_changed", src="n1", dst="n2", rate_mbps=40.0, delay_ms=30.0,
        jitter_ms=0.0, loss_percent=0.0, cuts=[],
    ),
    measured(4, "n1", "n2", 50.0),
    line(
        10, "n2", "clock_synchronized", server="n1", delay_ms=60.0, before_ns=-10_000_000,
        correction_ns=-11_000_000,
    ),
]  # fmt: skip


def given(estimator="one_way_min_delay"):
    history = History.of(event_reading.read(LOG))
    return history, parse(SCENARIO.replace("ESTIMATOR", estimator), "three.yaml")


def test_estimates_stand_beside_the_rates_that_links_were_set_to_then():
    found = ProbeRow.frame(tabulate_probes(*given()))
    assert list(found["rate_mbps"]) == [80.0, 40.0]
    assert list(found["error_percent"]) == pytest.approx([-10.0, 25.0])
    assert list(found["formula_mbps"]) == pytest.approx([80.0, 40.0])


def test_over_routers_the_slowest_hop_sets_the_rate_and_all_hops_the_delay():
    access = ", access: [{up: 60 Mbit/s, down: 90 Mbit/s, delay: 5 ms}]}\nnetwork"
    text = SCENARIO.replace("}\nnetwork", access).replace("ESTIMATOR", "one_way")
    scenario = parse(text, "three.yaml")
    history = History.of(event_reading.read([measured(2, "n1", "n2", 60.0)]))
    found = ProbeRow.frame(tabulate_probes(history, scenario))
    size_mbit = 2 * 8 * 1514 / 1448
    assert list(found["rate_mbps"]) == [60.0]
    assert found["formula_mbps"][0] == pytest.approx(size_mbit / (size_mbit / 60.0 + 0.040))
    conditions = Conditions.of(history, scenario.topology)
    figure = awareness_plots.draw_estimates(found, conditions, scenario.topology, 12.0)
    truth = figure.axes[0].get_lines()[0]
    assert list(truth.get_ydata()) == [60.0, 60.0]


@pytest.mark.parametrize(("estimator", "extra_s"), [("one_way", 0.030), ("round_trip", 0.045)])
def test_the_formula_says_by_how_much_propagation_makes_an_estimate_low(estimator, extra_s):
    found = ProbeRow.frame(tabulate_probes(*given(estimator)))
    size_mbit = 2 * 8 * 1514 / 1448
    assert found["formula_mbps"][0] == pytest.approx(size_mbit / (size_mbit / 80.0 + extra_s))


def test_clocks_are_compared_with_that_of_the_controllers_site():
    found = ClockRow.frame(tabulate_clocks(*given()))
    assert list(found["ahead_ms"]) == pytest.approx([10.1, 11.0])
    assert found["before_ms"].isna()[0]
    assert found["before_ms"][1] == pytest.approx(1.0)
    assert found["error_ms"][1] == pytest.approx(0.0)


def test_the_figure_has_a_panel_for_every_link_that_was_measured():
    history, scenario = given()
    conditions = Conditions.of(history, scenario.topology)
    figure = awareness_plots.draw_estimates(
        ProbeRow.frame(tabulate_probes(history, scenario)), conditions, scenario.topology, 12.0
    )
    shown = [axes for axes in figure.axes if axes.get_visible()]
    assert [axes.get_title("left") for axes in shown] == ["n1 → n2"]
    truth, formula, estimate = shown[0].get_lines()
    assert list(estimate.get_ydata()) == [72.0, 50.0]
    assert list(formula.get_xdata()) == [2.0, 4.0]
    steps = list(zip(truth.get_xdata(), truth.get_ydata(), strict=True))
    assert steps == [(0.0, 80.0), (3.0, 40.0), (12.0, 40.0)]
