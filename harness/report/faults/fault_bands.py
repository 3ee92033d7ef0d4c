"""Faults in figures: named in a strip above, marked at their times and sites (pure).

Every fault has a pale band behind the chart. In a chart with a row per site, dead or stopped agents
are hatched, and a disturbed link is a line above the rows of both its ends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle

from trunkline.harness.record.history import Disturbance
from trunkline.harness.report.activity import HEIGHT, TOP
from trunkline.harness.report.faults.fault_layout import (
    CHARACTERS_PER_IN,
    Lane,
    clip_s,
    find_rows_during,
    lay_out,
    lay_out_numbers,
)

COLOUR = "#d55e00"
LANE_IN = 0.15
"""The height of one lane of the strip, in inches."""

BEHIND = 0.10
"""The opacity of a band: overlapping faults look darker."""

FAULTS, FAULT_NUMBER = "faults", "fault"
"""The names of the strips of faults, and of their numbers."""

NAME_LETTER_IN, MARGIN_IN = 0.065, 0.1
"""The width of a letter of a row's name, and what else is beside a chart, in inches."""

BESIDE_TASKS_IN = 0.6
"""The width of what is beside the chart of task times, in inches."""

MAX_TASK_LANES = 6
"""The most lanes of numbers above the chart of task times."""

HATCHES: Mapping[str, str] = {"kill": "xxxx", "pause": "////"}
STOPPED: Mapping[str, str] = {"kill": "killed by a fault", "pause": "paused by a fault"}
"""The hatching of a site that a fault stopped, and its meaning."""

VEIL = 0.6
"""The opacity of the white below a hatching."""


def create_axes(
    size_in: tuple[float, float],
    faults: Sequence[Disturbance],
    window_s: tuple[float, float],
    names: Sequence[str] = (),
) -> tuple[Figure, Axes]:
    """Create a figure of this width and height, plus a strip of faults if the window has any.

    `names` are those of its rows, which stand beside the strip.
    """
    width_in, height_in = size_in
    beside_in = MARGIN_IN + NAME_LETTER_IN * max(map(len, [FAULTS, *names]))
    shown = lay_out(faults, window_s, CHARACTERS_PER_IN * max(1.0, width_in - beside_in))
    if not shown:
        figure = Figure(figsize=size_in, layout="constrained")
        return figure, figure.add_subplot()
    strip_in = LANE_IN * (2 + max(lane.text_lane for lane in shown))
    figure = Figure(figsize=(width_in, height_in + strip_in), layout="constrained")
    strip, axes = figure.subplots(2, sharex=True, height_ratios=(strip_in, height_in))
    _draw_strip(strip, shown)
    return figure, axes


def create_task_axes(
    size_in: tuple[float, float], faults: Sequence[Disturbance], tasks: pd.DataFrame, ratios: bool
) -> tuple[Figure, list[Axes]]:
    """Create a figure of this size with axes for times, and below for `ratios`; x is the row.

    Above them is a strip with the numbers of faults, if tasks ran during any.
    """
    width_in, height_in = size_in
    lanes = lay_out_numbers(faults, tasks, CHARACTERS_PER_IN * (width_in - BESIDE_TASKS_IN))
    shown = [lane for lane in lanes if lane.text_lane < MAX_TASK_LANES]
    strip_in = LANE_IN * (1.4 + max((lane.text_lane for lane in shown), default=0))
    heights_in = [height_in * share for share in ((0.68, 0.32) if ratios else (0.68,))]
    heights_in = [*[strip_in] * bool(shown), *heights_in]
    figure = Figure(figsize=(width_in, sum(heights_in)), layout="constrained")
    grid = figure.subplots(
        len(heights_in), sharex=True, height_ratios=heights_in, squeeze=False
    ).ravel()
    if shown:
        _draw_strip(grid[0], shown, FAULT_NUMBER)
    return figure, list(grid[bool(shown) :])


def draw_bands(axes: Axes, faults: Sequence[Disturbance]) -> None:
    """Draw a band over the whole height for every fault with a target; x is in seconds."""
    for fault in faults:
        if fault.started.targets:
            axes.axvspan(
                *clip_s(fault, axes.get_xlim()), color=COLOUR, alpha=BEHIND, lw=0, zorder=0
            )


def draw_task_bands(axes: Axes, faults: Sequence[Disturbance], tasks: pd.DataFrame) -> None:
    """Draw a band for every task that ran during a fault with a target; x is the task's row.

    The first band has a label for the legend.
    """
    label = "during a fault"
    for fault in faults:
        for row in find_rows_during(fault, tasks):
            span = (row - 0.5, row + 0.5)
            axes.axvspan(*span, color=COLOUR, alpha=BEHIND, lw=0, zorder=0, label=label)
            label = "_"  # in no legend


def draw(axes: Axes, faults: Sequence[Disturbance], sites: Sequence[str]) -> list[Artist]:
    """Draw a band for every fault, and mark its targets in the rows of their sites.

    Returns the entries of the legend for what was drawn; x is in seconds.
    """
    draw_bands(axes, faults)
    rows = {site: row for row, site in enumerate(sites)}
    shown = [fault for fault in faults if _is_within(fault, axes.get_xlim())]
    kinds = set[str]()
    for fault in shown:
        start_s, end_s = clip_s(fault, axes.get_xlim())
        names = {name for target in fault.started.targets for name in target.split(" -> ")}
        for site in sorted(names & rows.keys()):
            if fault.started.verb in HATCHES:
                kinds.add(fault.started.verb)
                _draw_hatching(axes, start_s, end_s, rows[site], HATCHES[fault.started.verb])
            else:
                kinds.add("link")
                axes.hlines(rows[site] - 0.39, start_s, end_s, color=COLOUR, lw=1.6)
    entries: list[Artist] = []
    if any(fault.started.targets for fault in shown):
        entries.append(Patch(fc=COLOUR, alpha=2 * BEHIND, lw=0, label="during a fault"))
    if "link" in kinds:
        entries.append(Line2D([], [], color=COLOUR, lw=1.6, label="a link disturbed"))
    words = {verb: word for verb, word in STOPPED.items() if verb in kinds}
    return entries + [Patch(label=word, **_style(HATCHES[verb])) for verb, word in words.items()]


def _is_within(fault: Disturbance, window_s: tuple[float, float]) -> bool:
    start_s, end_s = clip_s(fault, window_s)
    return start_s < window_s[1] and end_s > window_s[0]


def _draw_strip(axes: Axes, shown: Sequence[Lane], name: str = FAULTS) -> None:
    """Draw one bar per fault with its text."""
    for lane in shown:
        size = (lane.end_s - lane.start_s, 0.84)
        corner = (lane.start_s, lane.number - 0.42)
        axes.add_patch(Rectangle(corner, *size, fc="#f6d5c2", ec=COLOUR, lw=0.6))
        where, side = (lane.text_s, lane.text_lane), "right" if lane.text_ends else "left"
        axes.text(
            *where, f" {lane.label} ", size=6, va="center_baseline", ha=side, parse_math=False
        )
    axes.set_ylim(max((lane.text_lane for lane in shown), default=0) + 0.6, -0.6)
    axes.set_yticks([0], [name])
    axes.tick_params(length=0, labelbottom=False)
    axes.spines[:].set_visible(False)


def _draw_hatching(axes: Axes, start_s: float, end_s: float, row: int, hatch: str) -> None:
    corner, size = (start_s, row + TOP), (end_s - start_s, HEIGHT)
    axes.add_patch(Rectangle(corner, *size, **_style(hatch)))


def _style(hatch: str) -> dict[str, Any]:
    """Hatched in the colour of faults, over a veil that makes it visible on bars of any colour."""
    return {"fc": (1.0, 1.0, 1.0, VEIL), "ec": COLOUR, "hatch": hatch, "lw": 0}
