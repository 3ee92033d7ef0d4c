"""The accuracy of all variants over time: means over trials, as long as all of them go on."""

from __future__ import annotations

import re

import pandas as pd
import pytest
from matplotlib.collections import PolyCollection

from trunkline.harness.report.pages import accuracy_section
from trunkline.harness.report.plots import render
from trunkline.harness.study import accuracy_curves


def table(*values: float, of: str = "average", every_s: float = 2.0) -> pd.DataFrame:
    """The table `accuracy` of a run that was evaluated every two seconds."""
    numbers = range(1, len(values) + 1)
    return pd.DataFrame(
        {
            "t_s": [every_s * n for n in numbers],
            "of": of,
            "number": list(numbers),
            "accuracy_percent": list(values),
        }
    )


TABLES = {
    "fast": [table(20.0, 60.0, 80.0), table(30.0, 80.0), table(25.0, 70.0, 70.0, 75.0)],
    "slow": [
        table(10.0, 20.0, 30.0, 80.0),
        table(20.0, 30.0, 40.0, 80.0),
        table(15.0, 25.0, 35.0, 80.0),
    ],
    "twice": [table(10.0, 20.0), table(20.0, 30.0)],
    "alone": [table(15.0, 25.0)],
    "programs": [table(1.0, 2.0, of="task")],
    "none passed": [],
}


def test_a_mean_is_of_the_same_evaluations_of_all_trials_until_the_first_of_them_ends() -> None:
    fast, slow, twice, alone = accuracy_curves.make_curves(TABLES)
    assert (fast.name, slow.name, twice.name, alone.name) == ("fast", "slow", "twice", "alone")
    assert fast.mean == ((2.0, 25.0), (4.0, 70.0))
    assert fast.trials[:2] == (
        ((2.0, 20.0), (4.0, 60.0), (6.0, 80.0)), ((2.0, 30.0), (4.0, 80.0)),
    )  # fmt: skip
    # Student's t of two degrees of freedom: 4.303 times the standard error.
    assert fast.low[0] == (2.0, pytest.approx(25 - 4.3027 * 5 / 3**0.5, rel=1e-4))
    assert fast.high[1] == (4.0, pytest.approx(70 + 4.3027 * 10 / 3**0.5, rel=1e-4))
    assert [t for t, _ in slow.mean] == [2.0, 4.0, 6.0, 8.0]
    assert slow.high[-1] == (8.0, 80.0)
    assert (alone.low, alone.high, twice.low, twice.high) == ((), (), (), ())


def test_only_trials_that_count_are_read_by_their_variants(tmp_path) -> None:
    rows = []
    for scheme, trial, verdict in (
        ("a", 0, "pass"), ("a", 1, "fail"), ("b", 0, "pass"), ("b", 1, "missing"),
    ):  # fmt: skip
        run = f"runs/{scheme}{trial}" if verdict != "missing" else ""
        if run:
            (tmp_path / run / "tables").mkdir(parents=True)
            file = tmp_path / run / "tables" / "accuracy.csv"
            table(10.0 + trial, 20.0).to_csv(file, index=False)
        rows.append({"scheme": scheme, "trial": trial, "verdict": verdict, "run": run})
    cells = pd.DataFrame({"scheme": ["a", "b"]})
    targets = (80.0, None)
    found = accuracy_curves.read(tmp_path, pd.DataFrame(rows), cells, ("scheme",), targets)
    assert [(curve.of, curve.target_percent) for curve in found] == [
        (("average",), 80.0), (("average",), None),
    ]  # fmt: skip
    assert [(curve.name, len(curve.trials)) for curve in found] == [("a", 1), ("b", 1)]
    assert found[0].mean == ((2.0, 10.0), (4.0, 20.0))


def test_all_variants_are_in_one_picture_with_means_bands_and_trials() -> None:
    figure = accuracy_curves.draw(accuracy_curves.make_curves(TABLES))
    (axes,) = figure.axes
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("time (s)", "test accuracy (%)")
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["fast", "slow", "twice", "alone"]
    assert axes.get_ylim() == (pytest.approx(6.5), pytest.approx(83.5))  # of the trials
    assert sum(isinstance(each, PolyCollection) for each in axes.collections) == 2
    named = [line for line in axes.lines if not str(line.get_label()).startswith("_")]
    assert list(named[0].get_ydata()) == [25.0, 70.0]
    ends = [line for line in axes.lines if line.get_marker() == "o"]
    assert [line.get_xdata()[0] for line in ends] == [6.0, 4.0, 8.0, 8.0, 8.0, 8.0, 4.0, 4.0, 4.0]
    for kind in ("png", "pdf", "svg"):
        assert render(figure, kind)
    page = str(accuracy_section.draw_curves(accuracy_curves.make_curves(TABLES)))
    assert page.count('class="band') == 2
    assert all(name in page for name in ("fast", "slow", "alone"))


def test_bands_on_the_page_are_in_the_colours_of_their_lines_and_cut_at_the_axes() -> None:
    curves = accuracy_curves.make_curves(TABLES)
    page = str(accuracy_section.draw_curves(curves))
    assert re.findall(r'class="band ([\w-]+)"', page) == ["fill-blue", "fill-orange"]
    clipped = re.search(
        r'<clipPath id="([\w-]+)"><rect x="64" y="24" width="888" height="306"></rect></clipPath>'
        r'<g clip-path="url\(#([\w-]+)\)">(.*?)</g>',
        page,
    )
    assert clipped is not None and clipped[1] == clipped[2]
    bands = [
        [float(y) for y in re.findall(r" (-?[\d.]+)(?=L|$)", path)]
        for path in re.findall(r'd="(M[^"]*)"', clipped[3])
    ]
    heights = [[*curve.low, *reversed(curve.high)] for curve in curves[:2]]
    per_percent = 306 / (84.2 - 5.8)  # the trials are from 10 to 80 %
    for shown, points in zip(bands, heights, strict=True):
        assert shown == [pytest.approx(330 - (v - 5.8) * per_percent, abs=0.01) for _, v in points]
    assert max(map(max, bands)) > 330.0 > 24.0 > min(map(min, bands))  # beyond both ends
    alone = accuracy_curves.make_curves({"alone": [table(15.0, 25.0)]})
    assert "clip" not in str(accuracy_section.draw_curves(alone))


def test_names_of_variants_are_as_short_as_in_other_figures() -> None:
    tables = {"{name: a}": [table(10.0, 20.0)], "{name: b, p: 2}": [table(20.0, 30.0)]}
    (legend,) = accuracy_curves.draw(accuracy_curves.make_curves(tables)).legends
    assert [text.get_text() for text in legend.get_texts()] == ["a", "b, p: 2"]


def test_more_variants_than_colours_have_other_dashes() -> None:
    many = {f"v{number:02}": [table(10.0, 20.0)] for number in range(18)}
    axes = accuracy_curves.draw(accuracy_curves.make_curves(many)).axes[0]
    named = [line for line in axes.lines if str(line.get_label()).startswith("v")]
    assert [named[n].get_color() == named[0].get_color() for n in (8, 16, 17)] == [
        True, True, False,
    ]  # fmt: skip
    assert [named[n].is_dashed() for n in (0, 7, 8, 15, 16)] == [False, False, True, True, True]


def test_targets_are_drawn_and_named_once_each() -> None:
    tables = {"a": [table(10.0, 20.0)], "b": [table(20.0, 30.0)], "c": [table(5.0, 8.0)]}
    curves = accuracy_curves.make_curves(tables, {"a": 80.0, "b": 80.0, "c": None})
    figure = accuracy_curves.draw(curves)
    (axes,), (legend,) = figure.axes, figure.legends
    assert [t.get_text() for t in legend.get_texts()] == ["a", "b", "c", "target 80 %"]
    (line,) = [each for each in axes.lines if each.get_label() == "target 80 %"]
    assert list(line.get_ydata()) == [80.0, 80.0]
    assert axes.get_ylim()[1] > 80.0
    page = str(accuracy_section.draw_curves(curves))
    assert page.count("dashed stroke-ink") == 2  # the line, and its entry in the legend
    assert page.count(">target <") == page.count(">80 %<") == 1
    several = accuracy_curves.make_curves(tables, {"a": 80.0, "b": 70.0})
    (legend,) = accuracy_curves.draw(several).legends
    assert [t.get_text() for t in legend.get_texts()] == ["a", "b", "c", "targets 70 %, 80 %"]
    assert "target" not in str(accuracy_section.draw_curves(accuracy_curves.make_curves(tables)))


def test_the_model_is_named_in_the_legend_if_variants_have_different_ones() -> None:
    alike = accuracy_curves.make_curves({"a": [table(10.0)], "b": [table(20.0)]})
    page = str(accuracy_section.draw_curves(alike))
    assert "Evaluated: the average of the workers" in page
    assert "a (average)" not in page
    mixed = {"a": [table(10.0, of="server")], "b": [table(20.0)]}
    curves = accuracy_curves.make_curves(mixed)
    (legend,) = accuracy_curves.draw(curves).legends
    assert [t.get_text() for t in legend.get_texts()] == ["a (server)", "b (average)"]
    page = str(accuracy_section.draw_curves(curves))
    assert "a (server)" in page and "b (average)" in page
    assert "Evaluated: server, the servers" in page


def test_curves_have_another_background_until_the_last_warm_up_has_ended() -> None:
    curves = accuracy_curves.make_curves(TABLES, warm_ups_s={"fast": 1.5, "slow": 2.5})
    assert [curve.warm_up_s for curve in curves] == [1.5, 2.5, 0.0, 0.0]
    page = str(accuracy_section.draw_curves(curves))
    assert page.count('class="fill-warm-up"') == 2
    assert "until the end of the last warm-up</li>" in page
    (axes,) = accuracy_curves.draw(curves).axes
    assert axes.patches[-1].get_x() + axes.patches[-1].get_width() == 2.5
    plain = accuracy_curves.make_curves(TABLES)
    assert "warm-up" not in str(accuracy_section.draw_curves(plain))
