"""The figure of the times of a run's tasks, for print (pure)."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

from trunkline.harness.record.history import Disturbance
from trunkline.harness.record.warm_up import select_counted
from trunkline.harness.report.faults import fault_bands
from trunkline.harness.report.faults.fault_layout import WIDTH_IN
from trunkline.harness.report.pages.tasks_section import ORDER, TOLERANCE
from trunkline.harness.report.plots import (
    BLUE,
    GREY,
    NARROW_IN,
    ORANGE,
    PALE,
    RED,
    STYLE,
    count_columns,
    draw_warm_up,
)

LINEAR_RATIO = 3
"""Ratios above this one get a logarithmic axis: the band around 1 stays visible."""

TICK_LETTER_IN = 0.09
"""The width of a letter beside an axis, in inches, with some space."""

LEAST_CROSS = 3.0
"""The least size of the marks of abandoned tasks, in points: a smaller cross looks like a dot."""

STEMS = 100
"""Up to this number of tasks, each has a line from its bound to its measured time."""


def draw_task_times(
    tasks: pd.DataFrame,
    faults: Sequence[Disturbance] = (),
    took: str = "measured",
    width_in: float = WIDTH_IN,
) -> Figure:
    """Draw each task's time, estimate and bound, and below its time over the expected one.

    Tasks that ran during a fault have a band, and those of the warm-up another background: the
    numbers in the title leave them out. `took` says where the times come from: `measured` or
    `predicted`. `width_in` is in inches, here and below.
    """
    with mpl.rc_context(STYLE):
        size_in = width_in, min(4.4, 1.1 * width_in)
        expected = tasks["estimate_s"] + tasks["latency_s"]
        ratio = (tasks["duration_s"] / expected).where(tasks["outcome"] == "completed")
        known = bool(ratio.notna().any())
        figure, grid = fault_bands.create_task_axes(size_in, faults, tasks, known)
        upper, *below = grid
        order = np.arange(len(tasks))
        size = float(np.clip(300 * width_in / WIDTH_IN / max(len(tasks), 1), 1.5, 6))
        if len(tasks) <= STEMS:
            stem = min(1.6, size / 2)
            upper.vlines(order, tasks["bound_s"], tasks["duration_s"], color=PALE, lw=stem)
        upper.plot(order, tasks["bound_s"], "_", color=GREY, ms=size, label="lower bound")
        if expected.notna().any():
            words = "expected"
            upper.plot(order, expected, "D", color=ORANGE, ms=size, mfc="none", label=words)
        for outcome, marker, colour in (("completed", "o", BLUE), ("abandoned", "x", RED)):
            rows = (tasks["outcome"] == outcome).to_numpy()
            if rows.any():
                label = took if outcome == "completed" else "until abandoned"
                upper.plot(
                    order[rows],
                    tasks["duration_s"][rows],
                    marker,
                    color=colour,
                    ms=max(0.7 * size, LEAST_CROSS if marker == "x" else 0.0),
                    ls="",
                    label=label,
                )
        upper.set(ylabel="task time (s)")
        upper.set_ylim(bottom=0)
        upper.grid(axis="y")
        for axes in below:
            _draw_ratios(axes, ratio.dropna(), 0.7 * size)
            title = _summarize(ratio[select_counted(tasks).index].dropna(), took, width_in)
            axes.set_title(title)
        _label_tasks(grid[-1], tasks, width_in)
        for axes in grid:
            fault_bands.draw_task_bands(axes, faults, tasks)
        draw_warm_up(grid, tasks["warm_up"].sum() - 0.5, -0.5)
        legend = figure.legend(
            *upper.get_legend_handles_labels(),
            loc="outside upper left",
            ncols=count_columns(width_in, 1.6),
        )
        for mark in legend.legend_handles:
            if isinstance(mark, Line2D):
                mark.set_markersize(5.0)
    return figure


def _label_tasks(axes: Axes, tasks: pd.DataFrame, width_in: float) -> None:
    """Write the numbers of tasks below their rows, as many as there is room for."""
    names = {float(place): str(number) for place, number in enumerate(tasks["task"])}
    letters = max(map(len, names.values()), default=1)
    most = int(np.clip(width_in / (TICK_LETTER_IN * (letters + 2)), 2, 9))
    axes.set(xlabel=ORDER)
    axes.xaxis.set_major_locator(MaxNLocator(most, integer=True))
    axes.xaxis.set_major_formatter(lambda place, _: names.get(place, ""))


def _draw_ratios(axes: Axes, ratio: pd.Series[float], size: float) -> None:
    """Draw the time of completed tasks over the expected one, and the band of small differences."""
    axes.axhspan(1 - TOLERANCE, 1 + TOLERANCE, color=PALE, lw=0)
    axes.axhline(1, color=GREY, lw=0.8)
    axes.plot(ratio.index, ratio, "o", color=BLUE, ms=size)
    axes.set(ylabel="ratio")
    low, high = min([*ratio, 1 - TOLERANCE]), max([*ratio, 1 + TOLERANCE])
    if high > LINEAR_RATIO:
        axes.set_yscale("log")
        axes.set_ylabel("ratio\n(log. axis)")
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_locator(NullLocator())
    axes.set_ylim(0.95 * low, 1.05 * high if axes.get_yscale() == "linear" else 1.3 * high)


def _summarize(ratio: pd.Series[float], took: str, width_in: float) -> str:
    """The ratios in a title; those that count."""
    if not len(ratio):
        return f"{took} / expected: no task counts"
    inside = int(((ratio - 1).abs() <= TOLERANCE).sum())
    words = f"{inside} of {len(ratio)} within ±{TOLERANCE * 100:.0f} %"
    what, median = f"{took} / expected:", f"median {ratio.median():.3f}, {words}"
    return f"{what}{' ' if width_in > NARROW_IN else chr(10)}{median}"
