"""The section on accuracy and loss over time (pure)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from trunkline.harness.report.pages import charts
from trunkline.harness.report.pages.charts import WIDTH, Frame, Scale
from trunkline.harness.report.pages.markup import Html, tag

MAX_DOTS = 1500
"""The most evaluations that are drawn; of more, every second, third, ... is."""

SERIES = ("blue", "orange", "green", "fault", "sky", "purple", "grey", "ink")
"""The colours of several runs in one picture; the ninth run starts again, dashed."""


def draw_run(table: pd.DataFrame, target_percent: float | None, clock: str) -> Html:
    """Draw every evaluation of one run, and the best accuracy so far; `table` is `accuracy`."""
    until_s = float(table["t_s"].max())
    x = Scale(0.0, until_s * 1.02 or 1.0, 64, WIDTH - 8)
    values = [*table["accuracy_percent"], *([target_percent] if target_percent else [])]
    upper = Frame(x, charts.fit_scale(values, 270, 24, zero=False))
    lower = Frame(x, charts.fit_scale(table["loss"], 420, 312))
    shown = table.iloc[:: -(-len(table) // MAX_DOTS)]
    best = table["accuracy_percent"].cummax()
    rises = table[best.diff().fillna(1) > 0]
    steps = [*zip(rises["t_s"], best[rises.index], strict=True), (until_s, best.iloc[-1])]
    parts = [
        upper.draw_axes("", "test accuracy (%)"),
        lower.draw_axes(f"{clock} time (s)", "test loss"),
        _draw_dots(shown, "accuracy_percent", upper, "small stroke-sky"),
        charts.draw_line(((x(t), upper.y(v)) for t, v in steps), "line stroke-blue", steps=True),
        _draw_dots(shown, "loss", lower, "small stroke-orange"),
    ]
    words = f"The best of {len(table)} evaluations: {best.iloc[-1]:.1f} %."
    entries = [("stroke-sky", "one evaluation"), ("stroke-blue", "best so far")]
    if target_percent is not None:
        reached = table[table["accuracy_percent"] >= target_percent]
        when = f"after {reached['t_s'].iloc[0]:.2f} s" if len(reached) else "not reached"
        words += f" Target {target_percent:g} %: {when}."
        y = upper.y(target_percent)
        parts.append(tag("path", d=f"M64 {y:.2f}H{x.end:.2f}", class_="line dashed stroke-fault"))
        entries.append(("stroke-fault", "target"))
    if len(shown) < len(table):
        words += f" Dots: one of {-(-len(table) // MAX_DOTS)} evaluations."
    picture = charts.draw_picture(462, f"Accuracy and loss over time. {words}", *parts)
    return charts.make_figure(picture, words, charts.make_legend(entries, "dot"))


def draw_runs(tables: Mapping[str, pd.DataFrame]) -> Html:
    """Draw the best accuracy so far of several runs; `tables` maps run names to `accuracy`."""
    both = pd.concat(list(tables.values()))
    x = Scale(0.0, float(both["t_s"].max()) * 1.02 or 1.0, 64, WIDTH - 8)
    frame = Frame(x, charts.fit_scale(both["accuracy_percent"], 330, 24, zero=False))
    lines, entries = [], []
    for number, (name, table) in enumerate(tables.items()):
        if not len(table):
            continue
        best = table["accuracy_percent"].cummax()
        class_ = choose_class(number)
        ends = [*zip(table["t_s"], best, strict=True)]
        rises = [point for n, point in enumerate(ends) if not n or point[1] > ends[n - 1][1]]
        points = ((x(t), frame.y(v)) for t, v in [*rises, ends[-1]])
        lines.append(charts.draw_line(points, f"line {class_}", steps=True))
        entries.append((f"line {class_}", name))
    picture = charts.draw_picture(
        378,
        "The best accuracy so far of every run over time",
        frame.draw_axes("time (s)", "best test accuracy so far (%)"),
        lines,
    )
    return charts.make_figure(
        picture, "Each run has its own clock.", charts.make_legend(entries, "line")
    )


def choose_class(number: int) -> str:
    """The CSS class of the lines of the run with this number, from 0."""
    dashed = " dashed" if number >= len(SERIES) else ""
    return f"stroke-{SERIES[number % len(SERIES)]}{dashed}"


def _draw_dots(table: pd.DataFrame, column: str, frame: Frame, class_: str) -> Html:
    points = zip(table["t_s"], table[column], strict=True)
    return charts.draw_dots(((frame.x(t), frame.y(v)) for t, v in points if np.isfinite(v)), class_)
