"""The figures of a comparison: every trial as a dot, and means with intervals (pure).

A single trial is its mean, and has no dot. The dots of a cell stand beside its mean, in the order
of the trials, so that equal values are seen.

Every variant has the colour that it has on the page. The marker shows the first varied key, the
horizontal axis shows the second, and every combination of the other keys has its own panel.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from textwrap import fill

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.legend_handler import HandlerTuple
from matplotlib.lines import Line2D
from matplotlib.markers import CARETDOWN
from numpy.typing import NDArray

from trunkline.harness.report.faults.fault_layout import WIDTH_IN
from trunkline.harness.report.plots import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PINK,
    RED,
    SKY,
    STYLE,
    add_legend,
)
from trunkline.harness.study.comparison import VARIANT as LABELS
from trunkline.harness.study.comparison import describe_key
from trunkline.harness.study.grid import shorten

COLOURS = (BLUE, ORANGE, GREEN, RED, SKY, PINK, GREY, BLACK)
"""The colours of variants, in the order of the page's."""

MARKERS = "osD^v<>pPX*"

LOGARITHMIC = 10.0
"""Means with a larger ratio of largest to smallest get a logarithmic axis."""

HANDLE_IN, LEAST_LETTERS = 0.7, 12
"""The room of a mark in a legend in inches, and the least letters of a line beside it."""

LETTER_INCH = 0.07
"""The width of a letter under an axis, in inches."""

LABEL = 26
"""The most letters of a line beside the vertical axis."""

LINE_IN = 0.14
"""The height of a line under an axis, in inches."""

TURN, TURNED = 40, 24
"""The angle of names that have no room beside each other, and the most letters of their lines."""

BESIDE_IN = 0.8
"""The width in inches of the vertical axis and its label, and of margins."""

NARROW_IN = 5.0
"""A narrower figure is one for one column of a page, and its panels are lower."""

COLUMNS = 3
"""The most panels in a row."""

COLUMN_IN = 3.4
"""The width in inches of a figure for one column of a paper's page; `WIDTH_IN` is for both."""

MAX_PANEL_IN = 9.0
"""The largest width in inches of a panel with many names."""

GROUP = 0.7
"""The share of the distance between two places on the axis that the series at a place take."""

FLUID = "predicted"

TRIAL = "a trial"
"""The dots, where a variant has several trials."""

MOST_COLOURS = 4
"""The most variants whose colours a line of the legend has."""

VARIANT = "_variant"
"""The column with the place of a row's variant among the cells."""

EXPECTED, BOUND = "expected", "lower bound"
"""The marks of a task's time, as in the figure of a run's tasks."""

CAP = 4.5
"""Half the width of the ends of an interval, in points."""

NEAR_ZERO = 0.04
"""A mean below this share of the axis needs so much room below 0."""

DOTS, SPREAD = 0.34, 0.2
"""The distance of trials from their mean, and how far they are spread: shares of a series' room."""

MOST_DOTS, MOST_SPREAD = 0.17, 0.12
"""The most of both, in places of the axis."""


def draw(
    trials: pd.DataFrame,
    cells: pd.DataFrame,
    keys: Sequence[str],
    metric: str,
    label: str,
    asked_in: float | None = None,
) -> Figure:
    """Draw one metric of a comparison; `label` is the axis label with the unit.

    The figure is `asked_in` inches wide; without it, as wide as the names under its axes need.
    `trials` and `cells` are the tables of `harness.study.comparison`, `keys` the varied keys. Dots
    are trials that passed; bars are 95 % intervals of their mean, with an arrow where they go on
    below the axis. A horizontal mark shows the column `fluid_<metric>` of the cells, if any. The
    time of tasks also has marks for the expected time and the bound.
    """
    first, second, others = list(keys[:1]), list(keys[1:2]), list(keys[2:])
    places = _list_texts(cells, second or first)
    panels = _list_texts(cells, others)
    with mpl.rc_context(STYLE):
        names = shorten_names(places)
        panel_in = BESIDE_IN + max(0.25 * len(cells) / len(panels), _compute_width_in(names))
        columns, width_in = _choose_grid(len(panels), panel_in, asked_in)
        rows = -(-len(panels) // columns)
        names, turn, more_in = _fit_names(names, width_in / columns - BESIDE_IN)
        height_in = ((2.0 if width_in < NARROW_IN else 2.6) + more_in) * rows + 0.5
        figure = Figure(figsize=(width_in, height_in), layout="constrained")
        grid = figure.subplots(rows, columns, sharey=True, squeeze=False).ravel()
        numbers = {text: n for n, text in enumerate(_format_keys(cells, keys))}
        trials = trials.assign(**{VARIANT: _format_keys(trials, keys).map(numbers)})
        cells = cells.assign(**{VARIANT: range(len(cells))})
        for axes, panel in zip(grid, panels, strict=False):
            of_panel = (
                trials[_format_keys(trials, others) == panel],
                cells[_format_keys(cells, others) == panel],
            )
            _draw_series(axes, *of_panel, (first, second or first), places, metric)
            axes.set(title=shorten(panels)[panel], xlabel=_name_axis(second or first))
            axes.set_xticks(range(len(places)), names)
            if turn:
                axes.tick_params(axis="x", labelrotation=turn, labelrotation_mode="xtick")
            axes.grid(axis="y")
        _set_scale(grid[0], cells[metric], label)
        for axes in grid[len(panels) :]:
            axes.set_axis_off()
        known = dict(zip(*reversed(grid[0].get_legend_handles_labels()), strict=True))
        marks = {name: known.pop(name) for name in (FLUID, EXPECTED, BOUND) if name in known}
        if _has_several(trials):
            trial = Line2D([], [], marker="o", color=GREY, ms=2.5, ls="")
            marks = {TRIAL: trial, **marks}
        series = _list_keys(cells, first) if second else {}  # else the axis has the values' names
        if known := {**series, **marks}:
            letters = max(LEAST_LETTERS, int((width_in - HANDLE_IN) / LETTER_INCH))
            add_legend(
                figure,
                max(1, int(width_in / 1.6)),
                handles=known.values(),
                labels=[fill(name, letters) for name in known],
                title=describe_key(first[0]) if second else None,
                alignment="left",
                handler_map={tuple: HandlerTuple(ndivide=None, pad=0.3)},
                handlelength=2 + max(0, 0.8 * (_count_colours(series) - 2)),
            )
    return figure


def _name_axis(keys: Sequence[str]) -> str:
    """The title of the axis with these keys; labels say themselves what they are."""
    return ", ".join(map(describe_key, keys)) if [*keys] != [LABELS] else ""


def _has_several(trials: pd.DataFrame) -> bool:
    """Whether some variant has several trials that passed: a single one equals its mean."""
    passed = trials[trials["verdict"] == "pass"]
    return bool(passed[VARIANT].duplicated().any())


def _list_keys(cells: pd.DataFrame, first: Sequence[str]) -> dict[str, tuple[Line2D, ...]]:
    """The series in the legend: the marker of each in the colours of its variants."""
    texts, names = _format_keys(cells, first), _list_texts(cells, first)
    found = {}
    for number, (name, label) in enumerate(zip(names, shorten_names(names), strict=True)):
        marker = MARKERS[number % len(MARKERS)]
        found[label] = tuple(
            Line2D([], [], marker=marker, color=colour, mfc=inside, ms=5, ls="")
            for colour, inside in dict.fromkeys(
                map(_choose_colours, map(int, cells[VARIANT][texts == name]))
            )
        )[:MOST_COLOURS]
    return found


def _count_colours(series: Mapping[str, Sequence[Line2D]]) -> int:
    return max(map(len, series.values()), default=0)


def _choose_grid(panels: int, panel_in: float, asked_in: float | None) -> tuple[int, float]:
    """The number of panels in a row, and the width of the figure in inches.

    The width is `asked_in`. Without it, it is that of one column of a page or of both, unless a
    single panel needs more.
    """
    if asked_in is not None:
        return max(1, min(panels, COLUMNS, int(asked_in / panel_in))), asked_in
    for columns in range(min(panels, COLUMNS), 0, -1):
        for width_in in (COLUMN_IN, WIDTH_IN):
            if columns * panel_in <= width_in:
                return columns, width_in
    return 1, min(panel_in, MAX_PANEL_IN)


def _draw_series(
    axes: Axes,
    trials: pd.DataFrame,
    cells: pd.DataFrame,
    keys: tuple[list[str], list[str]],
    places: Sequence[str],
    metric: str,
) -> None:
    names = _list_texts(cells, keys[0])
    alone = keys[0] == keys[1]
    for number, name in enumerate(names):
        offset = 0.0 if alone else GROUP * ((number + 0.5) / len(names) - 0.5)
        room = GROUP if alone else GROUP / len(names)
        marker = MARKERS[number % len(MARKERS)]
        passed = trials[(_format_keys(trials, keys[0]) == name) & (trials["verdict"] == "pass")]
        means = cells[_format_keys(cells, keys[0]) == name]
        half = means[f"{metric}_high"] - means[metric]
        half = half.where(half > 1e-9 * means[metric].abs())  # a width of zero would be a dash
        at = np.array([places.index(text) for text in _format_keys(means, keys[1])]) + offset
        for place, (_, row), width in zip(at, means.iterrows(), half, strict=True):
            variant = int(row[VARIANT])
            own = passed[passed[VARIANT] == variant]
            if len(own) > 1:
                dots = place + _spread_dots(own, room), own[metric]
                axes.plot(*dots, "o", color=choose_colour(variant), ms=2.5, alpha=0.5, mew=0)
            _draw_mean(axes, (place, row[metric]), width, marker, variant)
        beside = min(DOTS * room, MOST_DOTS)
        for label, values, shape, colour, size in _list_marks(means, metric):
            place = at + beside * (label == EXPECTED)  # it would cover a mean that is as expected
            order = 1.5 if label == BOUND else 3.0  # a bound would cover the foot of an interval
            (mark,) = axes.plot(place, values, shape, color=colour, ms=size, mew=1.5, zorder=order)
            mark.set_label("_" if number else label)
    axes.set_xlim(-0.6, len(places) - 0.4)


def _draw_mean(
    axes: Axes, mean: tuple[float, float], half: float, marker: str, variant: int
) -> None:
    """Draw a mean with its interval; it is hollow if other variants have had its colour."""
    (colour, inside), (at, value) = _choose_colours(variant), mean
    # The caps are wider than the marker: else it would hide a short interval.
    axes.errorbar(at, value, half, fmt=marker, color=colour, mfc=inside, ms=5, capsize=CAP, lw=1)
    if half > value:  # the axis begins at about 0, or above
        foot = axes.get_xaxis_transform()
        axes.plot(at, 0, ls="", marker=CARETDOWN, color=colour, ms=5, transform=foot)


def choose_colour(variant: int) -> str:
    """The colour of the variant with this number, from 0."""
    return COLOURS[variant % len(COLOURS)]


def _choose_colours(variant: int) -> tuple[str, str]:
    """The colours of a variant's line and of the inside of its marker."""
    colour = choose_colour(variant)
    return colour, colour if variant < len(COLOURS) else "white"


def _spread_dots(trials: pd.DataFrame, room: float) -> NDArray[np.float64]:
    """The distance of each trial from its mean on the axis; `room` is the series' share of it."""
    order = trials["trial"].to_numpy(float)
    share = (order - order.min()) / max(1.0, np.ptp(order)) - 0.5 if len(order) else order
    return share * min(SPREAD * room, MOST_SPREAD) - min(DOTS * room, MOST_DOTS)


def _list_marks(
    cells: pd.DataFrame, metric: str
) -> Iterator[tuple[str, pd.Series[float], str, str, float]]:
    """The marks beside the means: name, values, shape, colour and size."""
    if f"fluid_{metric}" in cells:
        yield FLUID, cells[f"fluid_{metric}"], "_", BLACK, 16
    if metric == "task_s" and {"estimate_s", "latency_s", "bound_s"} <= {*cells}:
        yield EXPECTED, cells["estimate_s"] + cells["latency_s"], "x", BLACK, 5
        yield BOUND, cells["bound_s"], "_", GREY, 12


def _set_scale(axes: Axes, means: pd.Series[float], label: str) -> None:
    """Make the vertical axis logarithmic if the means need it, else start it at zero.

    A label that is longer than the axis has several lines: it would run into the legend.
    """
    label = fill(label, LABEL)
    axes.set_ylabel(label)
    positive = means[means > 0]
    if len(positive) and positive.max() > LOGARITHMIC * positive.min():
        axes.set_yscale("log")
        axes.set_ylabel(f"{label}\n(logarithmic axis)")
        axes.yaxis.set_major_formatter("{x:g}")
    else:
        axes.margins(y=0)
        top = 1.1 * axes.get_ylim()[1]  # room for the marks above the largest value
        is_low = (means < NEAR_ZERO * top).any()
        axes.set_ylim(-NEAR_ZERO * top if is_low else 0, top)  # the axis would hide half a marker


def shorten_names(places: Sequence[str]) -> list[str]:
    """Shorten values: mappings lose their braces, and their first key if all have the same.

    `{plan: crew, split: even}` becomes `crew, split: even` if all values begin with `plan`.
    """
    places = list(shorten(places).values())
    inner = [text[1:-1] if text.startswith("{") else text for text in places]
    begun = {text.partition(": ")[0] for text in inner}
    if len(begun) == 1 and all(text.startswith("{") for text in places):
        return [text.partition(": ")[2] for text in inner]
    return inner


def _compute_width_in(names: Sequence[str]) -> float:
    """The width in inches that names need under an axis, with a line for each of their parts."""
    longest = [max(map(len, name.split(", "))) for name in names]
    beside = max((sum(pair) / 2 for pair in itertools.pairwise(longest)), default=0)
    return LETTER_INCH * (beside + 1) * len(names)


def _fit_names(names: Sequence[str], room_in: float) -> tuple[list[str], int, float]:
    """Names in lines that fit beside each other in this room, their angle, and the added height.

    Names that do not fit so are turned.
    """
    parts = [name.replace(", ", ",\n") for name in names]
    if _compute_width_in(names) <= room_in:
        return parts, 0, 0.0
    letters = int(room_in / len(names) / LETTER_INCH) - 1
    if letters >= max(len(word) for name in names for word in name.split()):
        parts = [fill(name, letters) for name in names]
        return parts, 0, LINE_IN * max(part.count("\n") for part in parts)
    parts = [fill(name, TURNED) for name in names]
    longest = max(len(line) for part in parts for line in part.splitlines())
    return parts, TURN, LETTER_INCH * longest * math.sin(math.radians(TURN))


def _list_texts(table: pd.DataFrame, keys: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(_format_keys(table, keys)))


def _format_keys(table: pd.DataFrame, keys: Sequence[str]) -> pd.Series[str]:
    """The values of the keys as one text per row; with a single key just its value."""
    columns = [map(str, table[key]) for key in keys]
    rows = zip(*columns, strict=True) if keys else [()] * len(table)
    texts = (row[0] if len(row) == 1 else _format_pairs(keys, row) for row in rows)
    return pd.Series(list(texts), index=table.index, dtype="object")


def _format_pairs(keys: Sequence[str], values: Sequence[str]) -> str:
    return ", ".join(
        f"{describe_key(key)} {value}" for key, value in zip(keys, values, strict=True)
    )
