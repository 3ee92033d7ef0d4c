"""Means, intervals and paired ratios of a comparison's trials, and how they are shown."""

import itertools
import math
import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.markers import CARETDOWN
from rich.console import Console

from trunkline.harness.report.pages.comparison import means_section
from trunkline.harness.report.pages.comparison.means_section import (
    format_interval,
    format_number,
    format_ratio,
)
from trunkline.harness.report.plots import render
from trunkline.harness.study import comparison, comparison_plots, comparison_tables, grid
from trunkline.harness.study.comparison import (
    Interval,
    compute_ratio,
    confidence_interval,
    summarize,
)

KEYS = ("scheme.plan", "scheme.p")


def trial(plan, p, number, task_s, verdict="pass", **others):
    return {
        "scheme.plan": plan,
        "scheme.p": p,
        "trial": number,
        "seed": 7 + number,
        "verdict": verdict,
        "task_s": task_s,
        "estimate_s": 0.75,
        "latency_s": 0.25,
        "rounds": 10 / task_s,
        "run": f"runs/{plan}-{p}-{number}",
        "error": "",
        **others,
    }


@pytest.fixture
def trials():
    return pd.DataFrame(
        [
            trial("crew", "5", 0, 1.0),
            trial("crew", "5", 1, 2.0),
            trial("crew", "10", 0, 3.0),
            trial("crew", "10", 1, 3.0),
            trial("ring", "5", 0, 4.0),
            trial("ring", "5", 1, 8.0),
            trial("ring", "10", 0, 9.0, verdict="fail"),
            trial("ring", "10", 1, 6.0),
        ]
    )


def test_a_scenario_beside_is_compared_with_the_first_cell_that_is_like_it(trials):
    rows = [trial("gloo", "-", number, 5.0) for number in (0, 1)]
    cells = summarize(pd.concat([trials, pd.DataFrame(rows)]), KEYS)
    assert cells["task_s_ratio"].iloc[-1] == pytest.approx(math.sqrt(5.0 * 2.5))


def test_an_interval_is_students_t_of_95_percent():
    found = confidence_interval([1.0, 2.0, 3.0])
    assert found.mean == 2.0
    assert found.high - 2.0 == pytest.approx(4.302653 / math.sqrt(3), rel=1e-6)
    assert 2.0 - found.low == pytest.approx(found.high - 2.0)


def test_one_value_has_no_interval_and_none_has_no_mean():
    one, none = confidence_interval([2.0, math.nan]), confidence_interval([])
    assert (one.mean, math.isnan(one.low), math.isnan(one.high)) == (2.0, True, True)
    assert math.isnan(none.mean)


def test_the_interval_holds_the_true_mean_in_95_of_100_cases():
    rng = np.random.default_rng(1)
    found = [confidence_interval(list(rng.normal(5, 2, 4))) for _ in range(400)]
    assert sum(each.low <= 5 <= each.high for each in found) == pytest.approx(380, abs=13)


def test_a_ratio_is_taken_at_the_same_seed():
    found = compute_ratio({1: 2.0, 2: 30.0, 4: 5.0}, {1: 1.0, 2: 10.0, 3: 1.0})
    assert found.mean == pytest.approx(math.sqrt(6))
    assert found.low < 2.0
    assert found.high > 3.0


def test_what_is_the_same_multiple_in_every_trial_has_no_spread():
    assert compute_ratio({1: 2.0, 2: 20.0}, {1: 1.0, 2: 10.0}) == Interval(
        *(pytest.approx(2.0) for _ in range(3))
    )


@given(st.dictionaries(st.integers(), st.floats(0.01, 100), min_size=2))
def test_a_ratio_is_the_inverse_of_the_ratio_the_other_way(values):
    ones = dict.fromkeys(values, 1.0)
    there, back = compute_ratio(values, ones), compute_ratio(ones, values)
    assert there.mean == pytest.approx(1 / back.mean)
    assert there.low == pytest.approx(1 / back.high)


def test_cells_stay_in_order_and_have_ratios_to_the_first_value_of_the_first_key(trials):
    cells = summarize(trials, KEYS)
    assert list(zip(cells["scheme.plan"], cells["scheme.p"], cells["task_s"], strict=True)) == [
        ("crew", "5", 1.5),
        ("crew", "10", 3.0),
        ("ring", "5", 6.0),
        ("ring", "10", 6.0),
    ]
    assert list(cells["task_s_ratio"]) == [1.0, 1.0, pytest.approx(4.0), pytest.approx(2.0)]


def test_a_trial_that_did_not_pass_is_counted_and_not_averaged(trials):
    last = summarize(trials, KEYS).iloc[3]
    assert (last["trials"], last["pass"], last["fail"]) == (2, 1, 1)
    assert last["task_s"] == 6.0
    assert list(comparison.list_problems(trials, KEYS)) == [
        "fail: scheme.plan=ring scheme.p=10 seed 7: runs/ring-10-0"
    ]
    trials.loc[trials["verdict"] == "fail", "error"] = "bytes: few\narrived"
    assert list(comparison.list_problems(trials, KEYS, "out/three")) == [
        "fail: scheme.plan=ring scheme.p=10 seed 7: bytes: few arrived: out/three/runs/ring-10-0"
    ]


def test_trials_that_came_out_alike_are_named(trials):
    assert list(comparison.list_identical(trials, KEYS)) == [
        "scheme.plan=crew scheme.p=10: its 2 trials have identical results: "
        "nothing in it depends on the seed"
    ]
    trials.loc[3, "verdict"] = "fail"
    assert list(comparison.list_identical(trials, KEYS)) == []
    assert list(comparison.list_identical(trials[:1], KEYS)) == []


@pytest.mark.parametrize(
    ("verdicts", "worst"),
    [
        (["pass", "pass"], "pass"),
        (["pass", "unknown"], "unknown"),
        (["fail", "unknown"], "fail"),
        (["error", "fail"], "error"),
    ],
)
def test_the_worst_verdict_speaks_for_all(verdicts, worst):
    assert comparison.find_worst(pd.DataFrame({"verdict": verdicts})) == worst


def shown(trials, keys):
    console = Console(width=160, record=True, force_terminal=False)
    with console.capture() as capture:
        console.print(comparison_tables.draw_table(summarize(trials, keys), keys))
    return [line.rstrip() for line in capture.get().splitlines()]


def test_the_table_shows_means_with_intervals_and_verdicts_that_did_not_pass(trials):
    lines = [" ".join(line.split()) for line in shown(trials, KEYS)]
    assert lines == [
        "plan p trials task time, s ratio of task times rounds per worker ratio of rounds",
        "crew 5 2 1.5 ± 6.4 1 (ref) 8 ± 32 1 (ref)",
        "crew 10 2 3 1 (ref) 3.33 1 (ref)",
        "ring 5 2 6 ± 25 4 1.9 ± 7.9 0.25",
        "ring 10 2: 1 pass, 1 fail 6 (1 trial) 2 1.67 (1 trial) 0.5",
        "the same in all: expected task time, s: 1",
        "ratios are taken trial by trial; 1 is plan crew with the same group size p",
    ]


@pytest.mark.parametrize("width", [40, 60, 80])
def test_a_table_that_is_wider_than_the_terminal_is_cut_into_several(trials, width):
    console = Console(width=width, force_terminal=False)
    with console.capture() as capture:
        console.print(comparison_tables.draw_table(summarize(trials, KEYS), KEYS))
    text = capture.get()
    assert "…" not in text
    parts = text.split("the same in all")[0].split("\n\n")
    assert len(parts) > 1
    for whole in ("1.5 ± 6.4", "1 (ref)", "2: 1 pass, 1 fail", "1.9 ± 7.9"):
        assert whole in text
    for part in parts:
        lines = [line.split() for line in part.splitlines() if line.strip()]
        assert [line[:2] for line in lines[-4:]] == [
            ["crew", "5"], ["crew", "10"], ["ring", "5"], ["ring", "10"]
        ]  # fmt: skip
        assert any(line[:2] == ["plan", "p"] for line in lines)


def test_columns_of_keys_have_short_heads_that_tell_them_apart():
    assert comparison.name_keys(KEYS) == ["plan", "p"]
    assert comparison.name_keys(["topology.rates", "workload.rates", "scheme"]) == [
        "topology.rates", "workload.rates", "scheme"
    ]  # fmt: skip
    assert comparison.name_keys(["timeline[0].do", "timeline[1].at", "a.trials"]) == [
        "fault", "timeline[1].at", "a.trials"
    ]  # fmt: skip


def test_the_cell_whose_ratio_is_1_is_said_in_words(trials):
    def describe(some, keys=KEYS, labels=()):
        shown = comparison.name_variants(some, summarize(some, keys), keys, labels, "three")
        return comparison.describe_reference(*shown[1:])

    assert list(summarize(trials, KEYS)[comparison.REFERENCE]) == [0, 1, 0, 1]
    assert describe(trials) == "plan crew with the same group size p"
    assert describe(trials[trials["scheme.p"] == "5"]) == "crew"
    assert describe(trials, labels=("A", "B", "C", "D")) == '"A" for "C"; "B" for "D"'
    assert describe(trials[trials["scheme.plan"] == "crew"]) == "5"
    assert describe(trials[:2]) == ""


def test_the_chart_of_means_has_the_ratios_of_the_table(trials):
    cells = summarize(trials, KEYS)
    metrics = comparison.list_metrics(trials, cells, KEYS, comparison.name_cells(cells, KEYS))
    ratios = {metric.label: [each.ratio for each in metric.means] for metric in metrics}
    assert ratios["task time (s)"] == ["1", "1", "4", "2"]
    one = trials[(trials["scheme.plan"] == "crew") & (trials["scheme.p"] == "5")]
    found = comparison.list_metrics(one, summarize(one, KEYS), KEYS, ["crew"])
    assert {each.ratio for metric in found for each in metric.means} == {""}


def test_a_variant_has_the_colour_of_the_page_in_figures_of_two_keys(trials):
    cells = summarize(trials, KEYS)
    figure = comparison_plots.draw(trials, cells, KEYS, "task_s", "task time (s)")
    drawn = {}
    for bars in figure.axes[0].containers:
        line = bars.lines[0]
        drawn[round(float(line.get_ydata()[0]), 9)] = line.get_color()
    assert drawn == dict(zip(cells["task_s"].round(9), comparison_plots.COLOURS, strict=False))


def test_texts_promise_no_intervals_of_single_trials(trials):
    def describe(some):
        made = comparison_tables.make_cells("t", KEYS, "", some, summarize(some, KEYS), KEYS)
        return re.sub("</?span[^>]*>", "", str(means_section.write_section(made.metrics)))

    assert "mean of the trials that passed, with its 95 % interval" in describe(trials)
    single = describe(trials[trials["trial"] == 0])
    assert "mean of the trials that passed (no intervals: they need two trials)<" in single


def test_only_keys_and_numbers_that_tell_something_have_columns(trials):
    """Programs that report no rounds, and a key with one value, which may be the first one."""
    trials = trials.assign(timeline="[]", rounds=0)
    keys = ("timeline", *KEYS)
    _, cells, left = comparison.name_variants(trials, summarize(trials, keys), keys, (), "three")
    assert left == KEYS
    console = Console(width=120, force_terminal=False)
    with console.capture() as capture:
        console.print(comparison_tables.draw_table(cells, left))
    lines = [" ".join(line.split()) for line in capture.get().splitlines()]
    assert lines[0] == "plan p trials task time, s ratio of task times"
    assert lines[3:] == [
        "ring 5 2 6 ± 25 4",
        "ring 10 2: 1 pass, 1 fail 6 (1 trial) 2",
        "the same in all: timeline: []; expected task time, s: 1",
        "ratios are taken trial by trial; 1 is plan crew with the same group size p",
    ]
    assert comparison.name_variants(trials[:2], cells[:1], keys, (), "three")[2] == keys


def test_a_ratio_that_no_cell_has_is_left_out(trials):
    trials.loc[trials["scheme.p"] == "5", "rounds"] = 0.0
    trials.loc[trials["scheme.p"] == "10", "verdict"] = "unknown"
    heads, _ = comparison_tables.format_cells(summarize(trials.assign(task_s=np.nan), KEYS), KEYS)
    assert "ratio of rounds" not in heads
    assert "ratio of task times" not in heads


def test_ratios_of_1_in_all_rows_are_left_out(trials):
    cells = summarize(trials.assign(rounds=7.0), KEYS)
    heads, _ = comparison_tables.format_cells(cells, KEYS)
    assert "ratio of rounds" not in heads
    assert {"rounds per worker", "ratio of task times"} < {*heads}
    assert "ratio of rounds" in comparison_tables.format_cells(summarize(trials, KEYS), KEYS)[0]


def test_the_time_to_the_best_accuracy_is_of_the_trials_that_converged():
    def converged(plan, number, after_s):
        found = {"best_accuracy_percent": 80.0, "converged_s": after_s}
        return trial(plan, "5", number, 1.0, converged=int(after_s > 0), **found)

    rows = [converged("a2a", number, after_s) for number, after_s in enumerate((4.0, 4.0))]
    rows += [converged("crew", number, after_s) for number, after_s in enumerate((2.0, math.nan))]
    rows += [converged("ring", number, math.nan) for number in (0, 1)]
    heads, cells = comparison_tables.format_cells(summarize(pd.DataFrame(rows), KEYS), KEYS)
    table = [dict(zip(heads, row, strict=True)) for row in cells]
    assert [row["time to the best, s"] for row in table] == [
        "4",
        "2 in 1 of 2",
        "still making progress",
    ]
    assert table[1]["ratio of times to the best"].startswith("0.5")
    assert {row["best accuracy, %"] for row in table} == {"80"}


def test_a_comparison_of_one_thing_has_no_ratios(trials):
    lines = shown(trials[:2].drop(columns=list(KEYS)), ())
    assert " ".join(lines[0].split()) == (
        "trials task time, s expected task time, s rounds per worker"
    )


def test_labels_take_the_place_of_keys_in_tables_figures_and_remarks(trials):
    labels = ["CREW 5", "CREW, 10", "ring 5", "ring 10"]
    named, cells, keys = comparison.name_variants(
        trials, summarize(trials, KEYS), KEYS, labels, "three"
    )
    assert keys == ("variant",)
    assert [row[0] for row in comparison_tables.format_cells(cells, keys)[1]] == labels
    assert list(comparison.list_problems(named, keys)) == [
        "fail: variant=ring 10 seed 7: runs/ring-10-0"
    ]
    figure = comparison_plots.draw(named, cells, keys, "task_s", "task time (s)")
    assert [tick.get_text() for tick in figure.axes[0].get_xticklabels()] == [
        label.replace(", ", ",\n") for label in labels
    ]
    assert figure.axes[0].get_ylim()[1] > 1.05 * named["task_s"].max()  # no marker at the frame


def test_the_only_variant_has_the_name_of_its_scenario(trials):
    alone = trials[:2].drop(columns=list(KEYS))
    named, cells, keys = comparison.name_variants(alone, summarize(alone, ()), (), (), "three")
    assert comparison.name_cells(cells, keys) == ["three"]
    figure = comparison_plots.draw(named, cells, keys, "task_s", "task time (s)")
    assert [tick.get_text() for tick in figure.axes[0].get_xticklabels()] == ["three"]


def test_an_interval_without_a_width_is_not_drawn(trials):
    figure = comparison_plots.draw(trials, summarize(trials, KEYS), KEYS, "task_s", "task time (s)")
    crew = figure.axes[0].containers[:2]
    paths = [path for drawn in crew for bars in drawn.lines[2] for path in bars.get_paths()]
    assert [len(path.vertices) > 0 and not np.isnan(path.vertices).any()
            for path in paths] == [True, False]  # fmt: skip


def test_a_cell_without_a_passed_trial_has_no_numbers(trials):
    trials.loc[2:3, "verdict"] = "unknown"
    assert shown(trials, KEYS)[2].split() == [
        "crew", "10", "2:", "2", "unknown", "-", "-", "-", "-", "-"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("texts", "short"),
    [
        (["10 Mbit/s", "20 Mbit/s"], ["10 Mbit/s", "20 Mbit/s"]),
        (
            [f"'churn outages=20ms lasting=100s total={n} among=a,b'" for n in (0, 1)],
            ["total=0", "total=1"],
        ),
        ([f"{'a' * 40} b c d", f"{'a' * 40} b d"], ["c d", "d"]),
        (["{a: b, " + "c" * 50 + ": d}", "{a: b}"], ["{a: b, " + "c" * 50 + ": d}", "{a: b}"]),
        (["a" * 50, "b" * 50], ["a" * 50, "b" * 50]),
        (["a" * 50 + " b"] * 2, ["a" * 50 + " b"] * 2),
        ([], []),
    ],
)
def test_of_long_values_only_what_tells_them_apart_is_shown(texts, short):
    assert [grid.shorten(texts)[text] for text in texts] == short


@pytest.mark.parametrize("keys", [KEYS, KEYS[:1], (), (*KEYS, "seed")])
def test_a_figure_is_drawn_for_any_number_of_keys(trials, keys):
    trials = trials if keys else trials.drop(columns=list(KEYS))
    cells = summarize(trials, keys)
    figure = comparison_plots.draw(trials, cells, keys, "task_s", "task time (s)")
    assert render(figure, "png").startswith(b"\x89PNG")
    drawn = sum(len(axes.containers) for axes in figure.axes)
    assert drawn == len(cells)  # a mean for each


def test_an_interval_that_the_axis_of_a_figure_cuts_ends_in_an_arrow(trials):
    cells = summarize(trials, KEYS[:1])
    cells["task_s"], cells["task_s_high"] = [1.0, 2.0], [4.0, 3.0]
    axes = comparison_plots.draw(trials, cells, KEYS[:1], "task_s", "task time (s)").axes[0]
    arrows = [line for line in axes.lines if line.get_marker() == CARETDOWN]
    assert [[*map(float, line.get_xdata())] for line in arrows] == [[0.0]]
    assert axes.get_ylim()[0] == 0.0


def test_a_long_label_beside_the_axis_of_a_figure_has_two_lines(trials):
    label = comparison.METRICS["computing_percent"]
    figure = comparison_plots.draw(trials, summarize(trials, KEYS), KEYS, "rounds", label)
    assert figure.axes[0].get_ylabel() == "time that sites computed\n(% of the run)"


def test_equal_trials_are_seen_beside_each_other(trials):
    trials["task_s"] = 1.0
    for keys, shown in ((KEYS[:1], trials[trials["scheme.p"] == "5"]), (KEYS, trials)):
        figure = comparison_plots.draw(shown, summarize(shown, keys), keys, "task_s", "s")
        dots, mean = figure.axes[0].lines[:2]
        assert [*dots.get_ydata()] == [1.0] * 2
        assert len({*dots.get_xdata()}) == len(dots.get_xdata())
        assert max(dots.get_xdata()[:2]) < min(mean.get_xdata())  # beside the mean, not on it


def test_the_figure_of_task_times_marks_what_is_expected_and_the_bound(trials):
    cells = summarize(trials, KEYS[:1]).assign(estimate_s=0.5, latency_s=0.1, bound_s=0.25)
    figure = comparison_plots.draw(trials, cells, KEYS[:1], "task_s", "task time (s)")
    marks = {line.get_label(): [*line.get_ydata()] for line in figure.axes[0].lines}
    assert (marks["expected"], marks["lower bound"]) == ([0.6], [0.25])
    places = {line.get_label(): line.get_xdata() for line in figure.axes[0].lines}
    assert places["expected"][0] > places["lower bound"][0]  # beside the mean
    (legend,) = figure.legends
    words = [text.get_text() for text in legend.get_texts()]
    assert words == ["a trial", "expected", "lower bound"]
    figure = comparison_plots.draw(trials, cells, KEYS[:1], "rounds", "rounds per worker")
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["a trial"]


@pytest.mark.parametrize(("asked_in", "turned"), [(None, False), (3.4, True), (6.0, False)])
def test_a_figure_has_the_width_that_is_asked_for(trials, asked_in, turned):
    names = {
        "crew": "the plan of CREW, as it was published",
        "ring": "ring all-reduce of everything",
    }
    trials["scheme.plan"] = trials["scheme.plan"].map(names)
    trials = pd.concat(
        [trials, trials.assign(**{"scheme.plan": trials["scheme.plan"] + " (reimplemented)"})]
    )
    cells = summarize(trials, KEYS[:1])
    figure = comparison_plots.draw(trials, cells, KEYS[:1], "task_s", "s", asked_in)
    assert figure.get_figwidth() == pytest.approx(asked_in or comparison_plots.MAX_PANEL_IN)
    ticks = figure.axes[0].get_xticklabels()
    assert {tick.get_rotation() for tick in ticks} == {comparison_plots.TURN if turned else 0}
    figure.draw_without_rendering()
    boxes = [tick.get_window_extent() for tick in ticks]
    assert min(box.x0 for box in boxes) >= 0
    assert max(box.x1 for box in boxes) <= figure.bbox.x1
    if not turned and asked_in:
        assert not any(a.overlaps(b) for a, b in itertools.pairwise(boxes))


def test_marks_of_a_figure_have_room_below_the_end_of_the_axis(trials):
    alike = trials.assign(task_s=[0.95 + 0.001 * n for n in range(len(trials))])
    cells = summarize(alike, KEYS[:1])
    axes = comparison_plots.draw(alike, cells, KEYS[:1], "task_s", "task time (s)").axes[0]
    highest = max(alike["task_s"].max(), axes.dataLim.ymax)
    assert axes.get_ylim() == (0, pytest.approx(1.1 * highest, rel=0.02))


def test_a_marker_at_0_has_room_above_the_axis_and_a_short_interval_shows_beside_it(trials):
    rho = [0.0, 0.0, 0.5, 0.501, 0.7, 0.8, 0.6, 0.6]
    some = trials.assign(rho=rho)
    axes = comparison_plots.draw(some, summarize(some, KEYS), KEYS, "rho", "rho").axes[0]
    low, high = axes.get_ylim()
    assert low == pytest.approx(-comparison_plots.NEAR_ZERO * high)
    bars = [container for container in axes.containers if container.has_yerr]
    caps = [cap.get_markersize() for bar in bars for cap in bar.lines[1]]
    assert min(caps) > bars[0].lines[0].get_markersize() + 3


def test_a_logarithmic_axis_of_a_figure_says_so(trials):
    cells = summarize(trials, KEYS[:1])
    for means, scale, label in (
        ([1.0, 2.0], "linear", "task time (s)"),
        ([1.0, 20.0], "log", "task time (s)\n(logarithmic axis)"),
    ):
        cells["task_s"] = means
        axes = comparison_plots.draw(trials, cells, KEYS[:1], "task_s", "task time (s)").axes[0]
        assert (axes.get_yscale(), axes.get_ylabel()) == (scale, label)


def test_cells_have_names_in_words_and_means_of_what_differs(trials):
    cells = summarize(trials, KEYS)
    names = comparison.name_cells(cells, KEYS)
    assert names[:2] == ["plan crew, group size p 5", "plan crew, group size p 10"]
    assert comparison.name_cells(summarize(trials, KEYS[:1]), KEYS[:1]) == ["crew", "ring"]
    trials["step_s"] = 1.0
    times, rounds = comparison.list_metrics(trials, summarize(trials, KEYS), KEYS, names)
    assert (times.label, rounds.label) == ("task time (s)", "rounds per worker")
    assert [mean.mean for mean in times.means] == [1.5, 3.0, 6.0, 6.0]
    assert [mean.trials for mean in times.means] == [(1.0, 2.0), (3.0, 3.0), (4.0, 8.0), (6.0,)]


def test_a_figure_names_values_as_a_reader_would(trials):
    trials["scheme.plan"] = ["{plan: crew, split: even}", "{plan: ring}"] * 4
    cells = summarize(trials, KEYS[:1]).assign(fluid_task_s=1.0)
    figure = comparison_plots.draw(trials, cells, KEYS[:1], "task_s", "task time (s)")
    assert [tick.get_text() for tick in figure.axes[0].get_xticklabels()] == [
        "crew,\nsplit: even", "ring"
    ]  # fmt: skip
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["a trial", "predicted"]
    cells = summarize(trials, KEYS).assign(fluid_task_s=1.0)
    figure = comparison_plots.draw(trials, cells, KEYS, "task_s", "task time (s)")
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        "crew, split: even", "ring", "a trial", "predicted"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("mean", "half", "text"),
    [
        (0.233917, 0.000709, "0.23392 ± 0.00071"),
        (0.75, 0.021, "0.750 ± 0.021"),
        (7.5, 32.0, "8 ± 32"),
        (1.72, 1.2, "1.7 ± 1.2"),
        (3.0, 1.2, "3.0 ± 1.2"),
        (199.3, 47.2, "199 ± 47"),
        (17.123, 3.64, "17.1 ± 3.6"),
        (2.93267, 9.4e-05, "2.9327 ± 0.0001"),
        (2.93267, 9.4e-06, "2.93"),
        (61123.4, 0.7, "61123 ± 1"),
        (1234.5, 47.0, "1234 ± 47"),
        (1234.5, 123.0, "1234 ± 123"),
        (0.0, 0.5, "0.00 ± 0.50"),
    ],
)
def test_a_mean_has_all_digits_that_its_interval_has_up_to_five(mean, half, text):
    assert format_interval(mean, half) == text


CUT = {"x": 5.0, "x_high": math.nan, "pass": 1, "missing": 3}


def test_an_interval_of_fewer_trials_than_planned_says_of_how_many_it_is():
    """The column of trials tells the number otherwise."""
    assert format_interval(5.0, 16.0, 2, planned=2) == "5 ± 16"
    assert format_interval(5.0, math.nan, 1) == "5"
    assert format_interval(5.0, math.nan, 1, planned=4) == "5 (1 trial)"
    assert format_interval(5.0, 16.0, 2, planned=4) == "5 ± 16 (2 trials)"
    assert comparison_tables.make_mean_formatter("x")(CUT | {"trials": 4}) == "5 (1 trial)"
    assert comparison_tables.make_mean_formatter("x")(CUT | {"trials": 1}) == "5"
    assert format_ratio(1.3, 0.2, 9.1, 2, planned=2) == "1.30 (0.20 to 9.10)"
    assert format_ratio(1.3, 0.2, 9.1, 2, planned=3) == "1.30 (0.20 to 9.10; 2 trials)"
    assert format_ratio(1.0, 1.0, 1.0, 2, planned=3) == "1"
    assert format_ratio(1.5, math.nan, math.nan, 1) == "1.5"


@pytest.mark.parametrize(
    ("ratio", "text"),
    [
        ((1.27, 1.24, 1.3), "1.27 (1.24 to 1.30)"),
        ((9.873, 9.5, 10.24), "9.9 (9.5 to 10.2)"),
        ((0.0213, 0.01, 0.05), "0.0213 (0.0100 to 0.0500)"),
        ((1234.5, 1200.0, 1300.0), "1234 (1200 to 1300)"),
        ((1.0, 1.0, 1.0), "1"),
        ((1.5, math.nan, math.nan), "1.5"),
    ],
)
def test_a_ratio_and_its_interval_have_equally_many_decimals(ratio, text):
    assert format_ratio(*ratio) == text


def test_what_passes_without_task_times_beside_others_is_explained_once(trials):
    assert not list(comparison.list_lacks(summarize(trials, KEYS), ["a", "b", "c", "d"]))
    trials.loc[2:3, "task_s"] = math.nan
    trials.loc[4:5, "task_s"] = math.nan
    (said,) = comparison.list_lacks(summarize(trials, KEYS), ["a", "b", "c", "d"])
    assert said.startswith("no task times: b, c: a program has task times and rounds only if it ")
    trials["task_s"] = math.nan
    assert not list(comparison.list_lacks(summarize(trials, KEYS), ["a", "b", "c", "d"]))
    cells = summarize(trials, KEYS)
    (rounds,) = comparison.list_metrics(trials, cells, KEYS, ["a", "b", "c", "d"])
    assert [mean.passed for mean in rounds.means] == [2, 2, 2, 1]


def test_a_number_has_three_digits_and_no_exponent_from_a_thousand_on() -> None:
    written = {
        value: format_number(value) for value in (2.65, 99.95, 999.4, 999.6, 1307.2, 12345.6)
    }
    assert [*written.values()] == ["2.65", "100", "999", "1000", "1307", "12346"]


STOP, OUTAGE = "{at: 2 s, do: pause n3 for 2 s}", "{at: 5 s, do: outage n1 n2 for 1 s}"


@pytest.mark.parametrize(
    ("texts", "names"),
    [
        (
            ("[]", f"[{STOP}]", f"[{STOP}, {OUTAGE}]"),
            [
                "empty",
                "pause n3 for 2 s at 2 s",
                "pause n3 for 2 s at 2 s; outage n1 n2 for 1 s at 5 s",
            ],
        ),
        ((f"[{STOP}]", f"[{STOP} ]"), [f"[{STOP}]", f"[{STOP} ]"]),
        (("[]",), ["[]"]),
        (("[]", "nothing"), ["[]", "nothing"]),
        (("[]", "[pause]"), ["[]", "[pause]"]),
    ],
)
def test_timelines_are_named_by_their_faults(texts: tuple[str, ...], names: list[str]) -> None:
    cells = pd.DataFrame({"timeline": texts})
    assert comparison.name_cells(cells, ["timeline"]) == names
    both = cells.assign(**{"scheme.plan": "crew"})
    assert comparison.format_keys(both, ["scheme.plan", "timeline"]) == [["crew", n] for n in names]


def test_long_values_of_several_keys_are_cut_if_that_tells_them_apart() -> None:
    long = "abcdefghij" * 4
    cells = pd.DataFrame({"x": [long, "b"], "scheme.plan": ["crew", "ring"]})
    assert comparison.name_cells(cells, ["x", "scheme.plan"]) == [
        f"x {long[:17]}…, plan crew",
        "x b, plan ring",
    ]
    alike = cells.assign(x=[long, f"{long}k"])
    assert comparison.name_cells(alike, ["x", "scheme.plan"])[0] == f"x {long}, plan crew"
    assert comparison.name_cells(cells[["x"]], ["x"]) == [long, "b"]
