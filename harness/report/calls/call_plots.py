"""The figures of the calls of programs, and of where their time went (pure)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from trunkline.harness.record.history import Disturbance
from trunkline.harness.report.activity import HEIGHT, TOP
from trunkline.harness.report.calls.call_tables import list_kinds
from trunkline.harness.report.calls.steps.step_tables import PARTS, sum_steps
from trunkline.harness.report.faults import fault_bands
from trunkline.harness.report.faults.fault_layout import WIDTH_IN
from trunkline.harness.report.plots import (
    BLUE,
    FEW_SITES,
    GREEN,
    GREY,
    ORANGE,
    PALE,
    PINK,
    RED,
    SKY,
    STYLE,
    VECTORS,
)

COLOURS, OTHERS = (BLUE, ORANGE, GREEN, SKY, PINK), GREY
"""The kinds of calls that took most time have a colour each; all others share OTHERS."""

SHADES = {
    "computing_s": (SKY, ""),
    "waiting_s": (PALE, ""),
    "moving_s": (BLUE, ""),
    "held_s": (RED, ""),
    "stopped_s": ("white", "////"),
    "rest_s": (GREY, ""),
}
"""The colour and the hatching of each part of a step."""

WORDS = {"held_s": "held up by faults", "rest_s": "the rest"}
"""The parts whose name in the table is too short for a legend."""

ENTRY_IN = 1.4
"""The width of an entry of a legend, in inches."""

MAX_PROGRAMS = 60
"""The most programs that have a bar; tables/steps.csv has all."""


def draw_calls(
    calls: pd.DataFrame,
    sites: Sequence[str],
    end_s: float,
    clock: str,
    faults: Sequence[Disturbance] = (),
    width_in: float = WIDTH_IN,
) -> Figure:
    """Draw when each site was in which call: a row per site, and a strip of faults above.

    `calls` is the table of that name. A call that never ended is drawn until `end_s`.
    """
    kinds = list_kinds(calls)
    colours = dict(zip(kinds, COLOURS, strict=False))
    ends_s = (calls["start_s"] + calls["duration_s"]).fillna(end_s)
    window_s = (0.0, max(end_s, float(ends_s.max()), 1e-3))
    few = len(sites) <= FEW_SITES
    with mpl.rc_context(STYLE):
        size_in = width_in, 1.1 + (0.3 if few else 0.16) * len(sites)
        figure, axes = fault_bands.create_axes(size_in, faults, window_s, sites)
        rows = calls["site"].map({site: row for row, site in enumerate(sites)}).to_numpy()
        # Short calls lie on top of long ones, such as a broadcast that waits for an all-reduce.
        for kind in (*colours, None):
            chosen = (calls["call"] == kind if kind else ~calls["call"].isin(colours)).to_numpy()
            spans = zip(rows[chosen], calls["start_s"][chosen], ends_s[chosen], strict=True)
            corners = [[(a, y + TOP), (b, y + TOP), (b, y + TOP + HEIGHT), (a, y + TOP + HEIGHT)]
                       for y, a, b in spans]  # fmt: skip
            colour = colours.get(kind, OTHERS) if kind else OTHERS
            raster = len(calls) > VECTORS
            edge: dict[str, Any] = {"edgecolors": "white", "lw": 0.3}
            axes.add_collection(
                PolyCollection(corners, facecolors=colour, rasterized=raster, **edge)
            )
        axes.set(xlim=window_s, ylim=(len(sites) - 0.45, -0.55), xlabel=f"{clock} time (s)")
        axes.set_yticks(range(len(sites)), sites, fontsize=8 if few else 6.5)
        axes.tick_params(axis="y", length=0)
        axes.grid(axis="x")
        marks = fault_bands.draw(axes, faults, sites)
        handles: list[Artist] = [
            Patch(color=colour, label=kind) for kind, colour in colours.items()
        ]
        handles += [Patch(color=OTHERS, label="other calls")] * (len(kinds) > len(colours))
        _add_legend(figure, [*handles, *marks], width_in)
    return figure


def draw_steps(steps: pd.DataFrame, width_in: float = WIDTH_IN) -> Figure:
    """Draw where the time of each program went: a bar per program, in the parts of its table.

    `steps` is the table of that name.
    """
    sums = sum_steps(steps)[:MAX_PROGRAMS]
    with mpl.rc_context(STYLE):
        height_in = 1.0 + 0.24 * len(sums)
        figure = Figure(figsize=(width_in, height_in), layout="constrained")
        axes = figure.add_subplot()
        _add_legend(figure, list(_stack(axes, sums)), width_in)
        axes.set(xlabel="time (s)", ylim=(len(sums) - 0.45, -0.55))
        axes.set_xlim(left=0)
        axes.set_yticks(range(len(sums)), sums["program"])
        axes.tick_params(axis="y", length=0)
        axes.grid(axis="x")
    return figure


def _stack(axes: Axes, sums: pd.DataFrame) -> Iterator[Patch]:
    """Draw the parts after each other; give the entries of the legend."""
    left = np.zeros(len(sums))
    for part in PARTS:
        took = sums[part].to_numpy()
        if not took.any():
            continue
        colour, hatch = SHADES[part]
        look: dict[str, Any] = {
            "facecolor": colour,
            "hatch": hatch,
            "edgecolor": "#222222",
            "lw": 0.4,
        }
        axes.barh(range(len(sums)), took, left=left, height=0.7, **look)
        left += took
        yield Patch(label=WORDS.get(part, part.removesuffix("_s")), **look)


def _add_legend(figure: Figure, handles: Sequence[Artist], width_in: float) -> None:
    columns = min(len(handles), max(1, int(width_in / ENTRY_IN)))
    figure.legend(handles=handles, loc="outside upper left", ncols=columns, handlelength=1.2)
