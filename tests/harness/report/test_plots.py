"""The figures show what the tables and the log say, and come out the same every time."""

import itertools
import re
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from three_sites import SITES, TOPOLOGY, added, altered, history, without

from trunkline.harness.record.history import History
from trunkline.harness.record.targets import NO_TARGET, Target
from trunkline.harness.report import activity, plots, task_plots
from trunkline.harness.report.faults import fault_bands, fault_layout
from trunkline.harness.report.parts.accuracy_part import AccuracyRow, tabulate_accuracy
from trunkline.harness.report.tables.forecasts import Forecast
from trunkline.harness.report.tables.link_table import LinkRow, tabulate_links
from trunkline.harness.report.tables.task_tables import TaskRow, tabulate_tasks
from trunkline.harness.scenario.settings import Stop
from trunkline.topologies.links import Link
from trunkline.topologies.model import Site, Topology


def bars(axes: Axes, name: str) -> list[tuple[float, float, int]]:
    """(start, end, row) of every bar with this label."""
    found = [c for c in axes.collections if c.get_label() == name]
    assert len(found) == 1
    assert isinstance(found[0], PolyCollection)
    corners = [path.vertices for path in found[0].get_paths()]
    return [(float(v[0, 0]), float(v[1, 0]), round(float(v[0, 1]))) for v in corners]


def texts(axes: Axes) -> list[str]:
    return [text.get_text() for text in axes.texts]


def labels(figure: Figure) -> list[str]:
    return [text.get_text() for legend in figure.legends for text in legend.get_texts()]


def tasks() -> pd.DataFrame:
    return TaskRow.frame(tabulate_tasks(history(), lambda started: Forecast(1.0, 0.5, 0.1)))


def test_the_gantt_chart_has_a_row_per_site_and_a_bar_per_phase() -> None:
    figure = plots.draw_gantt(history(), SITES)
    (axes,) = figure.axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["oslo", "rome", "kyiv"]
    assert axes.get_xlabel() == "virtual time (s)"
    assert axes.get_xlim() == (0.0, 4.6)
    assert bars(axes, "compute") == [
        (0.0, 0.1, 0), (1.48, 1.58, 0),
        (0.0, 0.2, 1), (1.22, 1.5, 1), (2.29, 2.39, 1),
        (0.0, 0.9, 2), (2.29, 2.39, 2),
    ]  # fmt: skip
    assert sorted(bars(axes, "in a task")) == [
        (0.21, 1.48, 0), (0.22, 1.22, 1), (1.52, 2.29, 1), (1.52, 2.29, 2),
        (2.4, 4.4, 0), (2.41, 4.41, 1),
    ]  # fmt: skip
    assert len(bars(axes, "wait for a group")) == 9


def test_the_gantt_chart_shows_when_contributions_and_results_moved() -> None:
    (axes,) = plots.draw_gantt(history(), SITES).axes
    assert sorted(bars(axes, "scatter and reduce"))[:2] == [(0.21, 1.15, 0), (0.47, 1.22, 1)]
    assert sorted(bars(axes, "multicast"))[:2] == [(0.47, 1.42, 1), (0.73, 1.48, 0)]


def test_the_gantt_chart_has_another_background_in_the_warm_up() -> None:
    figure = plots.draw_gantt(history(), SITES, warm_up_s=1.51)
    (axes,) = figure.axes
    assert max(patch.get_extents().x1 for patch in axes.patches) == pytest.approx(
        axes.transData.transform((1.51, 0))[0]
    )
    assert labels(figure)[-1] == "warm-up, not in the numbers"


def test_help_with_a_task_that_a_site_is_no_member_of_is_a_line_of_its_own() -> None:
    (axes,) = plots.draw_gantt(history(), SITES).axes
    assert bars(axes, "help with other tasks") == [(1.78, 2.23, 0)]


def test_members_bars_carry_the_tasks_number() -> None:
    (axes,) = plots.draw_gantt(history(), SITES).axes
    assert texts(axes) == ["0", "2", "0", "1", "2", "1"]


def test_a_window_cuts_bars_at_its_edges_and_leaves_out_the_rest() -> None:
    (axes,) = plots.draw_gantt(history(), SITES, (1.0, 2.0)).axes
    assert axes.get_xlim() == (1.0, 2.0)
    assert bars(axes, "compute") == [(1.48, 1.58, 0), (1.22, 1.5, 1)]
    assert (1.0, 1.48, 0) in bars(axes, "in a task")


def test_bars_too_short_for_their_numbers_have_none() -> None:
    long = history(added(10**6, "runner", "network_ready"))
    (axes,) = plots.draw_gantt(long, SITES).axes
    assert len(bars(axes, "in a task")) == 6
    assert texts(axes) == []


def test_agents_that_exit_late_do_not_take_the_time_axis() -> None:
    late = history(altered("run_finished", {"t_ns": 9 * 10**9}))
    (axes,) = plots.draw_gantt(late, SITES).axes
    assert axes.get_xlim() == (0.0, late.active_end_ns / 1e9)
    assert 4.4 <= late.active_end_ns / 1e9 < 5
    assert history().active_end_ns == history().end_ns


def test_task_times_stand_beside_estimate_and_bound() -> None:
    figure = task_plots.draw_task_times(tasks())
    upper, lower = figure.axes
    assert upper.get_ylabel() == "task time (s)"
    assert lower.get_xlabel() == "number of the task, in order of start"
    lines = {line.get_label(): list(line.get_ydata()) for line in upper.lines}
    assert lines == {
        "lower bound": [0.5, 0.5, 0.5],
        "expected": [1.1, 1.1, 1.1],
        "measured": [1.27, 0.78],
        "until abandoned": [2.0],
    }
    assert labels(figure) == list(lines)
    predicted = task_plots.draw_task_times(tasks(), took="predicted")
    assert labels(predicted)[2] == "predicted"
    assert predicted.axes[1].get_title(loc="left").startswith("predicted /")
    assert list(lower.lines[-1].get_ydata()) == pytest.approx([1.27 / 1.1, 0.78 / 1.1])
    assert lower.get_title(loc="left") == ("measured / expected: median 0.932, 0 of 2 within ±15 %")


def test_the_title_of_task_times_leaves_out_the_warm_up_which_has_another_background() -> None:
    found = tasks().assign(warm_up=[True, False, False])
    figure = task_plots.draw_task_times(found)
    upper, lower = figure.axes
    assert lower.get_title(loc="left") == "measured / expected: median 0.709, 0 of 1 within ±15 %"
    assert labels(figure)[-1] == "warm-up, not in the numbers"
    for axes in (upper, lower):
        (band,) = (
            patch for patch in axes.patches if patch.get_facecolor() == to_rgba(plots.VIOLET)
        )
        assert band.get_extents().transformed(axes.transData.inverted()).intervalx == (
            pytest.approx([-0.5, 0.5])
        )
    all_cold = task_plots.draw_task_times(found.assign(warm_up=True))
    assert all_cold.axes[1].get_title(loc="left") == "measured / expected: no task counts"
    assert "warm-up, not in the numbers" not in labels(task_plots.draw_task_times(tasks()))


def test_tasks_of_programs_have_no_panel_of_ratios_and_no_estimate_in_the_legend() -> None:
    found = tasks().assign(estimate_s=np.nan, latency_s=np.nan)
    figure = task_plots.draw_task_times(found, FAULTY.faults[:1])
    strip, times = figure.axes
    assert texts(strip) == [" 0 "]
    assert times.get_xlabel() == "number of the task, in order of start"
    assert "expected" not in labels(figure)
    assert len(task_plots.draw_task_times(found).axes) == 1


def test_the_mark_of_an_abandoned_task_is_a_cross_also_among_many() -> None:
    many = pd.concat([tasks()] * 60, ignore_index=True)
    upper = task_plots.draw_task_times(many, width_in=3.4).axes[0]
    sizes = {line.get_label(): line.get_markersize() for line in upper.lines}
    assert sizes["until abandoned"] == task_plots.LEAST_CROSS
    assert sizes["measured"] < task_plots.LEAST_CROSS


def test_a_number_that_is_not_0_is_not_written_as_0() -> None:
    table = LinkRow.frame(tabulate_links(history(), TOPOLOGY))
    table.loc[0, "utilisation_percent"] = 0.01
    assert "<0.1" in texts(plots.draw_links(table, SITES).axes[0])


def test_tasks_far_slower_than_expected_have_a_logarithmic_ratio() -> None:
    slow = TaskRow.frame(tabulate_tasks(history(), lambda started: Forecast(0.1, 0.1, 0.0)))
    ratios = task_plots.draw_task_times(slow).axes[1]
    assert (ratios.get_yscale(), ratios.get_ylabel()) == ("log", "ratio\n(log. axis)")
    assert task_plots.draw_task_times(tasks()).axes[1].get_yscale() == "linear"


def test_a_mesh_is_a_matrix_of_goodput_and_payload() -> None:
    figure = plots.draw_links(LinkRow.frame(tabulate_links(history(), TOPOLOGY)), SITES)
    goodput, payload, *_ = figure.axes
    assert goodput.get_title(loc="left") == "goodput while busy, % of link rate"
    assert payload.get_title(loc="left") == "payload, MB"
    for axes in (goodput, payload):
        assert (axes.get_xlabel(), axes.get_ylabel()) == ("to", "from")
        assert [label.get_text() for label in axes.get_xticklabels()] == list(SITES)
    np.testing.assert_allclose(
        np.ma.filled(payload.images[1].get_array(), np.nan),
        [[np.nan, 1.75, 0.5], [1.5, np.nan, 0.5], [0.5, 0.5, np.nan]],
    )
    assert texts(goodput) == ["100"] * 6


def test_a_matrix_tells_links_that_carried_nothing_from_links_that_do_not_exist() -> None:
    unused = history(
        without("sent", site="kyiv", dst="rome"), without("received", site="rome", src="kyiv")
    )
    goodput = plots.draw_links(LinkRow.frame(tabulate_links(unused, TOPOLOGY)), SITES).axes[0]
    assert goodput.get_title(loc="left").endswith("; grey: not used")
    np.testing.assert_allclose(
        np.ma.filled(goodput.images[0].get_array(), np.nan) > 0, ~np.eye(3, dtype=bool)
    )
    assert texts(goodput) == ["100"] * 5


def test_a_small_sparse_overlay_is_a_bar_per_link() -> None:
    links = tuple(link for link in TOPOLOGY.links if {link.src, link.dst} != {"oslo", "kyiv"})
    sparse = Topology("line", TOPOLOGY.sites, links)
    figure = plots.draw_links(LinkRow.frame(tabulate_links(history(), sparse)), SITES)
    (axes,) = figure.axes
    assert [label.get_text() for label in axes.get_yticklabels()] == [
        "oslo → rome", "rome → oslo", "rome → kyiv", "kyiv → rome",
    ]  # fmt: skip
    assert axes.get_xlabel() == "Mbit/s"
    assert texts(axes) == ["100 %, 1.8 MB", "100 %, 1.5 MB", "100 %, 0.5 MB", "100 %, 0.5 MB"]


def test_links_that_carried_nothing_say_so() -> None:
    links = (Link("oslo", "rome", 8.0), Link("rome", "oslo", 8.0))
    links += (Link("rome", "kyiv", 8.0), Link("kyiv", "rome", 8.0))
    table = LinkRow.frame(tabulate_links(History.of([]), Topology("t", TOPOLOGY.sites, links)))
    (axes,) = plots.draw_links(table, SITES).axes
    assert texts(axes) == ["not used"] * 4


def test_accuracy_and_loss_are_drawn_with_their_target() -> None:
    table = AccuracyRow.frame(tabulate_accuracy(history()))
    stop = Stop(accuracy_percent=80.0)
    figure = plots.draw_accuracy(table, Target(stop, 2.9), "virtual")
    upper, lower = figure.axes
    assert lower.get_xlabel() == "virtual time (s)"
    assert upper.get_ylabel() == "test accuracy (%)"
    assert list(upper.lines[0].get_ydata()) == [41.5, 81.5, 81.5]
    assert list(lower.lines[0].get_ydata()) == [1.625, 0.5, 0.5]
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == [
        "one evaluation", "target 80 %, held from 2.9 s on",
    ]  # fmt: skip
    (missed,) = plots.draw_accuracy(table, Target(Stop(loss=0.25))).legends
    assert missed.get_texts()[-1].get_text() == "target 0.25, not reached"
    reported = table.assign(of="task")
    assert plots.draw_accuracy(reported).axes[0].lines[0].get_linestyle() == "None"


FAULTY = history(
    added(500, "runner", "fault_started", fault=0, verb="outage", text="outage oslo rome",
          targets=["oslo -> rome", "rome -> oslo"]),
    added(1000, "runner", "fault_started", fault=1, verb="kill", text="kill kyiv for 500 ms",
          targets=["kyiv"]),
    added(1500, "runner", "fault_ended", fault=1),
    added(2500, "runner", "fault_ended", fault=0),
    added(4500, "runner", "fault_started", fault=2, verb="pause", text="pause controller",
          targets=["controller"]),
)  # fmt: skip


def patches(axes: Axes) -> list[tuple[float, float, float, str | None]]:
    """(start, end, top, hatch) of every rectangle that is no bar."""
    found = [p for p in axes.patches if isinstance(p, Rectangle)]
    return [
        (p.get_x(), p.get_x() + p.get_width(), round(p.get_y(), 2), p.get_hatch()) for p in found
    ]


def test_faults_have_a_strip_above_the_gantt_chart_and_bands_in_it() -> None:
    strip, axes = plots.draw_gantt(FAULTY, SITES).axes
    assert texts(strip) == [
        " 0: outage oslo rome ", " ← 1: kill kyiv for 500 ms ", " 2: pause controller → ",
    ]  # fmt: skip
    assert patches(strip) == [
        (0.5, 2.5, -0.42, None), (1.0, 1.5, 0.58, None), (4.5, 4.6, -0.42, None),
    ]  # fmt: skip
    behind, hatched = patches(axes)[:3], patches(axes)[3:]
    assert [(start, end) for start, end, _, _ in behind] == [(0.5, 2.5), (1.0, 1.5), (4.5, 4.6)]
    assert hatched == [(1.0, 1.5, 1.68, "xxxx")]  # as high as the bars of the row
    assert axes.patches[-1].get_height() == activity.HEIGHT
    lines = [c.get_segments()[0] for c in axes.collections if isinstance(c, LineCollection)]
    spans = {(float(line[0][0]), float(line[1][0]), round(float(line[0][1]), 2)) for line in lines}
    assert spans == {(0.5, 2.5, -0.39), (0.5, 2.5, 0.61)}


def test_the_legend_of_the_gantt_chart_has_what_marks_faults() -> None:
    def list_marks(faulty: History) -> list[str]:
        (legend,) = plots.draw_gantt(faulty, SITES).legends
        marks = ("during a fault", "a link disturbed", "killed by a fault", "paused by a fault")
        return [text.get_text() for text in legend.get_texts() if text.get_text() in marks]

    assert list_marks(FAULTY) == ["during a fault", "a link disturbed", "killed by a fault"]
    pause = {"fault": 0, "verb": "pause", "text": "pause kyiv", "targets": ["kyiv"]}
    paused = history(added(1000, "runner", "fault_started", **pause))
    assert list_marks(paused) == ["during a fault", "paused by a fault"]
    assert list_marks(history()) == []


def test_tasks_and_evaluations_during_a_fault_have_its_band() -> None:
    strip, upper, lower = task_plots.draw_task_times(tasks(), FAULTY.faults[:1]).axes
    assert (texts(strip), patches(strip)) == ([" 0 "], [(-0.5, 2.5, -0.42, None)])
    assert [label.get_text() for label in strip.get_yticklabels()] == ["fault"]
    assert [band[:2] for band in patches(upper)] == [(-0.5, 0.5), (0.5, 1.5), (1.5, 2.5)]
    assert [band[:2] for band in patches(lower)][1:] == [band[:2] for band in patches(upper)]
    for axes in plots.draw_accuracy(
        AccuracyRow.frame(tabulate_accuracy(history())), faults=FAULTY.faults[:2]
    ).axes:
        assert [band[:2] for band in patches(axes)] == [(0.5, 2.5), (1.0, 1.5)]


def test_the_first_band_behind_tasks_is_explained_in_the_legend() -> None:
    for faults, explained in ((FAULTY.faults[:1], 1), ((), 0)):
        (legend,) = task_plots.draw_task_times(tasks(), faults).legends
        labels = [text.get_text() for text in legend.get_texts()]
        assert labels.count("during a fault") == explained


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("kill oslo for 188.57639880149 s", "kill oslo for 188.6 s"),
        ("rate oslo -> rome 12345.67891 Mbit/s", "rate oslo -> rome 12346 Mbit/s"),
        ("loss 0.00123456 %", "loss 0.001235 %"),
        ("outage 10.0.0.1 for 1.25 s", "outage 10.0.0.1 for 1.25 s"),
    ],
)
def test_a_drawn_number_in_a_fault_s_text_is_rounded(text: str, shown: str) -> None:
    kill = replace(FAULTY.faults[0], started=replace(FAULTY.faults[0].started, text=text))
    assert [lane.text for lane in fault_layout.lay_out([kill], (0.0, 10.0), 160)] == [f"0: {shown}"]


ROUNDED_S = 1e-9
"""What the sums of a text's begin and length may be off."""


@given(
    st.lists(st.tuples(st.floats(0, 10), st.floats(0, 10), st.integers(1, 99)), max_size=12),
    st.floats(40, 160),
)
@example([(7.537930623327909, 0.0, 35)], 114.0)
def test_texts_of_faults_neither_overlap_nor_leave_the_chart(
    spans: list[tuple[float, float, int]], room: float
) -> None:
    kill = FAULTY.faults[0]
    faults = [
        replace(
            kill,
            started=replace(kill.started, t_ns=round(start_s * 1e9), text="x" * letters),
            end_ns=round((start_s + length_s) * 1e9),
        )
        for start_s, length_s, letters in sorted(spans)
    ]
    lanes: dict[int, list[tuple[float, float]]] = {}
    for lane in fault_layout.lay_out(faults, (0.0, 10.0), room):
        text_s = len(lane.text) * 10 / room
        first_s = lane.text_s - text_s if lane.text_ends else lane.text_s
        text, bar = (first_s, first_s + text_s), (lane.start_s, lane.end_s)
        assert text[0] >= -ROUNDED_S
        assert text[1] <= 10 + ROUNDED_S
        inside = bar[0] - ROUNDED_S <= text[0] and text[1] <= bar[1] + ROUNDED_S
        if lane.text_lane == lane.number:  # the text does not cross the edge of the bar
            assert inside or text[1] <= bar[0] + ROUNDED_S or bar[1] <= text[0] + ROUNDED_S
            lanes.setdefault(lane.number, []).append((min(*text, *bar), max(*text, *bar)))
        else:
            assert lane.text_lane == lane.number + 1
            lanes.setdefault(lane.number, []).append(bar)
            lanes.setdefault(lane.text_lane, []).append(text)
    for found in lanes.values():
        assert all(one[1] <= two[0] + ROUNDED_S for one, two in itertools.pairwise(sorted(found)))


@pytest.mark.parametrize(
    ("start_s", "end_s", "place"),
    [
        (15, 20, (7, False, 1)),
        (1, 4, (4, False, 0)),
        (1, 53, (1, False, 0)),
        (48, 52, (48, True, 0)),
    ],
)
def test_a_narrow_figure_has_the_whole_text_of_a_fault_in_its_bar_beside_it_or_below(
    start_s: float, end_s: float, place: tuple[float, bool, int]
) -> None:
    text = "setlink madrid lisbon both rate=2Mbit/s"
    kill = FAULTY.faults[0]
    started = replace(kill.started, t_ns=round(start_s * 1e9), text=text)
    fault = replace(kill, started=started, end_ns=round(end_s * 1e9))
    (lane,) = fault_layout.lay_out([fault], (0.0, 53.0), 53)
    assert (lane.number, lane.text) == (0, f"0: {text}")
    assert (round(lane.text_s), lane.text_ends, lane.text_lane) == place


def test_numbers_of_faults_stand_above_the_tasks_that_ran_during_them() -> None:
    late = replace(FAULTY.faults[1], end_ns=None)
    lanes = fault_layout.lay_out_numbers([late, *FAULTY.faults[:1]], tasks(), 60)
    assert [(lane.text, lane.start_s, lane.end_s, lane.number) for lane in lanes] == [
        ("1", -0.5, 2.5, 0), ("0", -0.5, 2.5, 1),
    ]  # fmt: skip


def test_long_names_of_sites_leave_less_room_for_faults() -> None:
    started = replace(FAULTY.faults[0].started, text="x" * 50)
    fault = replace(FAULTY.faults[0], started=started)
    shown = []
    for names in (("rome",), ("the third data centre of Rome",)):
        figure, _ = fault_bands.create_axes((3.4, 2.0), [fault], (0.0, 10.0), names)
        shown.append(figure.axes[0].texts[0].get_text())
    assert shown[0].strip() == f"↑ 0: {'x' * 50}"
    assert shown[1].strip().endswith("x…")


def test_a_text_that_would_leave_the_chart_ends_before_its_fault() -> None:
    strip, _ = plots.draw_gantt(FAULTY, SITES).axes
    assert [text.get_horizontalalignment() for text in strip.texts] == ["left", "left", "right"]
    assert strip.texts[2].get_position() == (4.5, 0)


@pytest.mark.parametrize(
    ("kind", "begin"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")]
)
def test_the_same_run_gives_the_same_bytes(kind: Any, begin: bytes) -> None:
    first, second = (plots.render(plots.draw_gantt(history(), SITES), kind) for _ in range(2))
    assert first == second
    assert first.startswith(begin)


def test_a_run_in_which_nothing_happened_can_be_drawn() -> None:
    empty = History.of([])
    table = TaskRow.frame(tabulate_tasks(empty, lambda started: Forecast(1.0, 1.0, 0.0)))
    for figure in (plots.draw_gantt(empty, SITES), task_plots.draw_task_times(table)):
        assert plots.render(figure, "png")


def test_figures_for_one_column_have_its_width() -> None:
    table = tasks()
    links = LinkRow.frame(tabulate_links(history(), TOPOLOGY))
    for figure in (
        plots.draw_gantt(FAULTY, SITES, width_in=3.4),
        task_plots.draw_task_times(table, FAULTY.faults, width_in=3.4),
        plots.draw_links(links, SITES, width_in=3.4),
        plots.draw_accuracy(
            AccuracyRow.frame(tabulate_accuracy(history())), NO_TARGET, "virtual", width_in=3.4
        ),
    ):
        svg = plots.render(figure, "svg").decode()
        width_pt = float(re.search(r'width="([\d.]+)pt"', svg)[1])  # type: ignore[index]
        assert 3.2 < width_pt / 72 < 3.6


def test_sixty_sites_have_their_names_and_no_numbers_in_cells() -> None:
    sites = tuple(f"site-{number:02d}" for number in range(60))
    links = tuple(Link(a, b, 8.0) for a in sites for b in sites if a != b)
    topology = Topology("sixty", tuple(map(Site, sites)), links)
    table = LinkRow.frame(tabulate_links(History.of([]), topology))
    axes = plots.draw_links(table, sites).axes[0]
    assert [label.get_text() for label in axes.get_xticklabels()] == list(sites[::2])
    assert texts(axes) == []
    (rows,) = plots.draw_gantt(History.of([]), sites).axes
    assert [label.get_text() for label in rows.get_yticklabels()] == list(sites)


def test_the_text_of_a_fault_is_no_command_to_a_terminal_and_no_formula() -> None:
    """matplotlib writes the characters that its font lacks to standard error."""
    text = "kill \x1b]0;x\x07\n$\\nothing$"
    said = added(100, "runner", "fault_started", fault=9, verb="kill", text=text, targets=["oslo"])
    figure = plots.draw_gantt(history(said), SITES)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plots.render(figure, "png")
    assert r" 9: kill \x1b]0;x\x07 $\nothing$ " in texts(figure.axes[0])
