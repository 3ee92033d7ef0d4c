"""The figure of measured link rates beside the rates that were set (pure)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import matplotlib as mpl
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from trunkline.agents.planning.plan import Directed
from trunkline.harness.record.link_history import Conditions
from trunkline.harness.report.plots import BLACK, BLUE, ORANGE, STYLE
from trunkline.topologies.model import Topology

PANELS, COLUMNS = 32, 4
"""The number of panels, for the links that were measured most often; panels in a row."""

WIDE_IN = 8.5
"""The default width of the figure in inches."""


def draw_estimates(
    probes: pd.DataFrame,
    conditions: Conditions,
    topology: Topology,
    end_s: float,
    width_in: float = WIDE_IN,
) -> Figure:
    """Draw every measurement and the set rate over time, one panel per link of the overlay.

    `probes` is the table of that name, `end_s` the end of the run in seconds. The set rate is that
    of the slowest hop of the link's way.
    """
    counts = Counter(zip(probes["src"], probes["dst"], strict=True))
    chosen = {link for link, _ in counts.most_common(PANELS)}
    links = [link for link in topology.overlay.rates_mbps() if link in chosen]
    with mpl.rc_context(STYLE):
        columns = max(1, round(COLUMNS * width_in / WIDE_IN))
        rows = -(-len(links) // columns)
        figure = Figure(figsize=(width_in, 0.8 + 1.25 * rows), layout="constrained")
        grid = list(figure.subplots(rows, columns, sharex=True, squeeze=False).flat)
        for axes, link in zip(grid, links, strict=False):
            found = probes[(probes["src"] == link[0]) & (probes["dst"] == link[1])]
            hops = tuple(pairwise(topology.path(*link)))
            _draw_panel(axes, found, _list_rates(conditions, hops), end_s)
            axes.set_title(" → ".join(link), fontsize=7)
        for axes in grid[len(links) :]:
            axes.set_visible(False)
        first = figure.axes[0]
        handles, labels = first.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper left", ncols=3)
        some = f", {len(links)} of {len(counts)} measured links" if len(links) < len(counts) else ""
        figure.supxlabel(f"time (s){some}", fontsize=8)
        figure.supylabel("Mbit/s", fontsize=8)
    return figure


def _list_rates(conditions: Conditions, hops: Sequence[Directed]) -> list[tuple[float, float]]:
    """The rate of the slowest of these hops over time, as (since in s, Mbit/s)."""
    starts_ns = sorted({spell.start_ns for hop in hops for spell in conditions.spells[hop]})
    return [
        (start_ns / 1e9, min(conditions.at(hop, start_ns).rate_mbps for hop in hops))
        for start_ns in starts_ns
    ]


def _draw_panel(
    axes: Axes, found: pd.DataFrame, set_mbps: Sequence[tuple[float, float]], end_s: float
) -> None:
    starts, rates = zip(*set_mbps, strict=True)
    axes.step([*starts, end_s], [*rates, rates[-1]], where="post", color=BLACK, lw=1, label="rate")
    times, estimated = found["t_s"], found["estimate_mbps"]
    axes.plot(times, found["formula_mbps"], "_", color=ORANGE, ms=5, label="formula")
    axes.plot(times, estimated, "o", color=BLUE, ms=2.4, mew=0, label="estimate")
    axes.set(xlim=(0, end_s), ylim=(0, 1.15 * max(*rates, estimated.max())))
    axes.tick_params(labelsize=6)
    axes.grid()
