"""The figure of the fidelity benchmark: every error relative to its bar (pure)."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from trunkline.harness.measure.readings import QUANTITIES, Reading
from trunkline.harness.report.plots import BLUE, GREY, ORANGE, PALE, RED, STYLE
from trunkline.topologies.model import Topology

FLOOR = 1e-5
"""The smallest ratio on the axis; smaller errors and zero are drawn here."""

MOST = 90.0
"""The largest ratio that is drawn; larger errors are drawn here."""

COLOURS = {"pass": BLUE, "unknown": ORANGE, "fail": RED}
MARKERS = {"pass": "o", "unknown": "s", "fail": "X"}


def draw(topology: Topology, readings: Sequence[Reading]) -> Figure:
    """Draw a panel per quantity: errors of links as shares of their bars, over the link's rate."""
    judged = [row for row in readings if row.error is not None and row.bar is not None]
    names = [name for name in QUANTITIES if any(row.quantity == name for row in judged)]
    with mpl.rc_context(STYLE):
        lines = -(-max(len(names), 1) // 3)
        figure = Figure(figsize=(10, 0.5 + 2.2 * lines), layout="constrained")
        rates_mbps = [topology.link(row.src, row.dst).rate_mbps for row in judged]
        slowest, fastest = min(rates_mbps, default=1.0), max(rates_mbps, default=1.0)
        panels = figure.subplots(lines, 3, squeeze=False, sharey=True).flat
        for name, axes in zip(names, panels, strict=False):
            rows = [row for row in judged if row.quantity == name]
            axes.axhspan(FLOOR / 2, 1, color=PALE, lw=0)
            axes.axhline(1, color=GREY, lw=1)
            for outcome in COLOURS:
                points = [row for row in rows if row.outcome == outcome]
                axes.plot(
                    [topology.link(row.src, row.dst).rate_mbps for row in points],
                    [min(max(FLOOR, row.share), MOST) for row in points],
                    MARKERS[outcome],
                    color=COLOURS[outcome],
                    ms=4,
                    alpha=0.6,
                    mew=0,
                    label=outcome,
                )
            axes.set(xscale="log", yscale="log", ylim=(FLOOR / 2, 100))
            axes.set_xlim(slowest / 1.5, 1.5 * fastest)
            axes.xaxis.set_minor_formatter(NullFormatter())
            axes.xaxis.set_major_formatter("{x:g}")
            axes.xaxis.set_major_locator(
                LogLocator(subs=(1, 2, 5) if fastest < 1000 * slowest else (1,))
            )
            axes.set_title(f"{name}: {len(rows)} links")
        figure.supylabel(f"error as a share of its bar ({FLOOR:g}: or less)", size=8)
        figure.supxlabel("rate of the link (Mbit/s)", size=8)
        for axes in panels:
            axes.set_visible(False)
    return figure
