"""The figure of background traffic for print (pure)."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from trunkline.harness.background.flows import Flow
from trunkline.harness.record.history import History
from trunkline.harness.report.background_tables import compute_rates_mbps
from trunkline.harness.report.faults import fault_bands
from trunkline.harness.report.faults.fault_layout import WIDTH_IN
from trunkline.harness.report.plots import BLACK, BLUE, GREEN, GREY, ORANGE, SKY, STYLE

FLOWS = 5
"""The flows with a line of their own, those that carried most; the rest is one line."""

LINES = (
    (BLUE, "-"), (ORANGE, "--"), (GREEN, "-."), (SKY, "-"), (BLACK, ":"), (GREY, "-")
)  # fmt: skip
"""Colour and dashes of each line; the last is that of the rest."""

STEPS = 200


def draw_background(
    history: History, flows: Sequence[Flow], clock: str, width_in: float = WIDTH_IN
) -> Figure:
    """Draw the rate at which the payload of each flow arrived, over time."""
    edges_ns = np.linspace(0.0, max(history.active_end_ns, 1), STEPS + 1)
    rates = compute_rates_mbps(history, flows, edges_ns)
    order = sorted(range(len(flows)), key=lambda n: (-rates[:, n].sum(), n))
    rest = order[FLOWS:]
    lines = [(f"{flows[n].src} → {flows[n].dst}, {flows[n].entry.kind}", rates[:, n])
             for n in order[:FLOWS]]  # fmt: skip
    if rest:
        lines.append((f"{len(rest)} other flows together", rates[:, rest].sum(axis=1)))
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(width_in, min(2.6, 0.7 * width_in)), layout="constrained")
        axes = figure.add_subplot()
        for (label, values), (colour, dashes) in zip(lines, LINES, strict=False):
            axes.stairs(values, edges_ns / 1e9, color=colour, ls=dashes, lw=1.1, label=label)
        axes.set(xlabel=f"{clock} time (s)", ylabel="Mbit/s", xlim=(0, edges_ns[-1] / 1e9))
        axes.set_ylim(bottom=0)
        axes.grid()
        fault_bands.draw_bands(axes, history.faults)
        figure.legend(loc="outside upper left", ncols=2 if width_in > 5 else 1)
    return figure
