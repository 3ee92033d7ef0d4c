"""The figure of measured link rates beside the rates that were set (pure)."""

from __future__ import annotations

from collections import Counter

import matplotlib as mpl
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from trunkline.harness.record.link_history import Conditions
from trunkline.harness.report.plots import BLACK, BLUE, ORANGE, STYLE

PANELS, COLUMNS = 32, 4
"""The number of panels, for the links that were measured most often; panels in a row."""

WIDE_IN = 8.5
"""The default width of the figure in inches."""


def draw_estimates(
    probes: pd.DataFrame, conditions: Conditions, end_s: float, width_in: float = WIDE_IN
) -> Figure:
    """Draw every measurement and the set rate over time, one panel per link.

    `probes` is the table of that name, `end_s` the end of the run in seconds.
    """
    counts = Counter(zip(probes["src"], probes["dst"], strict=True))
    chosen = {link for link, _ in counts.most_common(PANELS)}
    links = [link for link in conditions.spells if link in chosen]
    with mpl.rc_context(STYLE):
        columns = max(1, round(COLUMNS * width_in / WIDE_IN))
        rows = -(-len(links) // columns)
        figure = Figure(figsize=(width_in, 0.8 + 1.25 * rows), layout="constrained")
        grid = list(figure.subplots(rows, columns, sharex=True, squeeze=False).flat)
        for axes, link in zip(grid, links, strict=False):
            found = probes[(probes["src"] == link[0]) & (probes["dst"] == link[1])]
            _draw_panel(axes, found, conditions, link, end_s)
        for axes in grid[len(links) :]:
            axes.set_visible(False)
        first = figure.axes[0]
        handles, labels = first.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper left", ncols=3)
        some = f", {len(links)} of {len(counts)} measured links" if len(links) < len(counts) else ""
        figure.supxlabel(f"time (s){some}", fontsize=8)
        figure.supylabel("Mbit/s", fontsize=8)
    return figure


def _draw_panel(
    axes: Axes, found: pd.DataFrame, conditions: Conditions, link: tuple[str, str], end_s: float
) -> None:
    spells = conditions.spells[link]
    starts = [spell.start_ns / 1e9 for spell in spells]
    rates = [spell.link.rate_mbps for spell in spells]
    axes.step([*starts, end_s], [*rates, rates[-1]], where="post", color=BLACK, lw=1, label="rate")
    times, estimated = found["t_s"], found["estimate_mbps"]
    axes.plot(times, found["formula_mbps"], "_", color=ORANGE, ms=5, label="formula")
    axes.plot(times, estimated, "o", color=BLUE, ms=2.4, mew=0, label="estimate")
    axes.set_title(f"{link[0]} → {link[1]}", fontsize=7)
    axes.set(xlim=(0, end_s), ylim=(0, 1.15 * max(*rates, estimated.max())))
    axes.tick_params(labelsize=6)
    axes.grid()
