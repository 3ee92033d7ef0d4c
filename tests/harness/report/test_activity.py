"""The bars of a Gantt chart: when sites had no controller, and when they had done their rounds."""

from __future__ import annotations

import numpy as np
import pytest
from three_sites import added, history

from trunkline.harness.report import activity
from trunkline.harness.report.activity import Bar
from trunkline.harness.report.overlay.link_load import Loads

WINDOW_S = (0.0, 4.0)


def find_spans(bars: dict[str, list[Bar]], kind: str) -> list[tuple[float, float]]:
    return [(start_s, end_s) for start_s, end_s, _, _ in bars[kind]]


def test_the_times_without_a_controller_are_drawn() -> None:
    found = history(
        added(500, "rome", "controller_lost", reason="silent"),
        added(1_000, "rome", "controller_lost", reason="backup closed the connection"),
        added(1_500, "rome", "controller_found", controller="backup"),
        added(3_000, "rome", "controller_lost", reason="silent"),
    )
    bars = activity.list_bars(found, {"rome": 0}, WINDOW_S)
    assert find_spans(bars, "without a controller") == [(0.5, 1.5), (3.0, WINDOW_S[1])]
    assert activity.list_bars(history(), {"rome": 0}, WINDOW_S)["without a controller"] == []


def test_a_site_that_has_done_its_rounds_before_the_run_stops_is_marked() -> None:
    found = history(added(2_000, "kyiv", "worker_finished", rounds=1))
    bars = activity.list_bars(found, {"kyiv": 0}, WINDOW_S)
    assert find_spans(bars, "its rounds are done") == [(2.0, WINDOW_S[1])]


def test_the_mean_load_counts_only_steps_in_which_a_link_was_used() -> None:
    share = np.array([[0.0, 0.004], [0.5, 0.0], [0.25, 0.0]])
    loads = Loads(1.0, (("a", "b"), ("b", "a")), share, *np.zeros((2, 3, 2), bool))
    assert loads.find_mean_when_used(0.005) == pytest.approx([0.375, 0.0])
