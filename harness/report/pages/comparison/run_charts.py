"""Pictures of several runs in one: their task times, and their progress (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from trunkline.harness.report.faults.fault_layout import clip_s
from trunkline.harness.report.pages import accuracy_section, charts
from trunkline.harness.report.pages.charts import WIDTH, Frame, Scale
from trunkline.harness.report.pages.comparison import common_faults
from trunkline.harness.report.pages.fault_strip import Numbers
from trunkline.harness.report.pages.markup import Html
from trunkline.harness.report.run_data import RunData

POINTS = 400
"""The approximate number of points that are drawn of a longer line."""


def draw_times(runs: Mapping[str, RunData], classes: Mapping[str, str]) -> Html | None:
    """Draw each run's distribution of task times: the share of completed tasks within a time.

    Tasks of the warm-up do not count.
    """
    values = {name: np.sort(data.completed["duration_s"]) for name, data in runs.items()}
    known = {name: found for name, found in values.items() if len(found)}
    if not known:
        return None
    x = charts.fit_scale(np.concatenate(list(known.values())), 64, WIDTH - 8)
    frame_ = Frame(x, Scale(0, 100, 330, 24))
    lines = []
    for name, found in known.items():
        shares = 100 * np.arange(1, len(found) + 1) / len(found)
        start = (x(float(found[0])), frame_.y(0))
        points = [start, *((x(t), frame_.y(s)) for t, s in _thin(found, shares))]
        lines.append(charts.draw_line(points, f"line {classes[name]}", steps=True))
    picture = charts.draw_picture(
        378,
        "The distribution of task times of every run; the table of runs has the means",
        frame_.draw_axes("task time (s)", "tasks within this time (%)"),
        lines,
        fits=True,
    )
    words = "A line further left means faster tasks; a steeper line means more uniform tasks."
    if has_warm_up(runs.values()):
        words += " Tasks of the warm-up are left out."
    return charts.make_figure(picture, words, _make_legend(known, classes))


def draw_progress(runs: Mapping[str, RunData], classes: Mapping[str, str]) -> Html | None:
    """Draw the completed tasks of every run over time, and the faults that all have in common.

    The line of a run is thin in its warm-up.
    """
    ends = {name: np.sort(_list_ends_s(data)) for name, data in runs.items()}
    known = {name: found for name, found in ends.items() if len(found)}
    if not known:
        return None
    x = charts.fit_scale([0.0, *(float(found[-1]) for found in known.values())], 64, WIDTH - 8)
    faults = common_faults.find([data.history for data in runs.values()])
    strip = Numbers.in_time(faults, x)
    above = strip.height
    most = [0.0, *(float(len(found)) for found in known.values())]
    y = charts.fit_scale(most, 330 + above, 24 + above)
    bands = [(x(a), x(b)) for a, b in (clip_s(fault, (x.low, x.high)) for fault in faults)
             if a < x.high]  # fmt: skip
    lines = []
    for name, found in known.items():
        begin_s = runs[name].counted.begin_s
        at_begin = (begin_s, float(np.searchsorted(found, begin_s, "right")))
        points = [(0.0, 0.0), *_thin(found, np.arange(1.0, len(found) + 1))]
        points = sorted([*points, at_begin]) if begin_s else points
        for some, class_ in accuracy_section.split_line(points, begin_s):
            shown = ((x(t), y(n)) for t, n in some)
            lines.append(charts.draw_line(shown, f"line{class_} {classes[name]}", steps=True))
    picture = charts.draw_picture(
        378 + above,
        "Completed tasks of every run over time",
        charts.draw_bands(bands, y.end, y.start),
        Frame(x, y).draw_axes("time (s)", "completed tasks", whole_y=True, above=above),
        strip.draw(24 + above),
        lines,
        fits=True,
    )
    words = "Each run has its own clock."
    if bands:
        words += " Bands mark the times of the faults that all runs have in common."
    return charts.make_figure(
        picture, words, _make_legend(known, classes, has_warm_up(runs.values()))
    )


def draw_accuracy(runs: Mapping[str, RunData], classes: Mapping[str, str]) -> Html | None:
    """Draw the accuracy of every run over time, if any has one; lines are thin in the warm-up."""
    found = {name: data.tables["accuracy"] for name, data in runs.items()}
    if not any(map(len, found.values())):
        return None
    begins_s = {name: data.counted.begin_s for name, data in runs.items()}
    return accuracy_section.draw_runs(found, classes, begins_s)


def has_warm_up(runs: Iterable[RunData]) -> bool:
    """Whether any run has a warm-up."""
    return any(data.counted.begin_ns for data in runs)


def _list_ends_s(data: RunData) -> pd.Series[float]:
    """When tasks were completed, in the warm-up, too."""
    tasks = data.tables["tasks"]
    return tasks[tasks["outcome"] == "completed"]["end_s"].dropna()


def _make_legend(names: Iterable[str], classes: Mapping[str, str], warm_up: bool = False) -> Html:
    entries = [(f"line {classes[name]}", name) for name in names]
    entries += [(accuracy_section.THIN, charts.WARM_UP)] * warm_up
    return charts.make_legend(entries, "line")


def _thin(x: Any, y: Any) -> Iterator[tuple[float, float]]:
    """About POINTS points of a line, evenly spaced, and its last."""
    step = -(-len(x) // POINTS)
    chosen = sorted({*range(0, len(x), step), len(x) - 1})
    return ((float(x[n]), float(y[n])) for n in chosen)
