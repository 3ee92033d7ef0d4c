"""The figures of updates at servers, and of the use of the servers' links (pure)."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib as mpl
import pandas as pd
from matplotlib.figure import Figure

from trunkline.harness.record.history import Disturbance
from trunkline.harness.report.faults import fault_bands
from trunkline.harness.report.faults.fault_layout import WIDTH_IN
from trunkline.harness.report.plots import (
    BLUE,
    NARROW_IN,
    ORANGE,
    STYLE,
    count_columns,
    draw_warm_up,
)
from trunkline.harness.report.updates.server_rates import DIRECTIONS, STEP_S
from trunkline.harness.report.updates.update_tables import MEASURES, distribute

LINES = ((BLUE, "-"), (ORANGE, "--"))
"""Colour and dashes of each direction."""


def draw_updates(updates: pd.DataFrame, width_in: float = WIDTH_IN) -> Figure:
    """Draw the share of updates up to each value: beside each other, or below in a narrow figure.

    `updates` is the table of that name.
    """
    shape = (1, len(MEASURES)) if width_in > NARROW_IN else (len(MEASURES), 1)
    with mpl.rc_context(STYLE):
        size = (width_in, 2.2 * shape[0])
        figure = Figure(figsize=size, layout="constrained")
        grid = figure.subplots(*shape, sharey=True)
        for axes, (column, label) in zip(grid, MEASURES.items(), strict=True):
            values, shares = distribute(updates[column])
            axes.step(values, shares, where="post", color=BLUE, lw=1.2)
            axes.set(xlabel=label, ylim=(0, 102))
            axes.set_xlim(left=0)
            axes.grid()
        figure.supylabel("updates (%)", fontsize=8)
    return figure


def draw_servers(
    servers: pd.DataFrame,
    clock: str,
    faults: Sequence[Disturbance],
    warm_up_s: float = 0.0,
    width_in: float = WIDTH_IN,
) -> Figure:
    """Draw the rates into and out of servers over time, the mean over the servers.

    `servers` is the table of that name. The warm-up has another background.
    """
    means = servers.groupby("t_s")[[f"{each}_mbps" for each in DIRECTIONS]].mean()
    starts_s = means.index.to_numpy()
    step_s = starts_s[1] - starts_s[0] if len(starts_s) > 1 else STEP_S
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(width_in, min(2.6, 0.7 * width_in)), layout="constrained")
        axes = figure.add_subplot()
        for (direction, label), (colour, dashes) in zip(DIRECTIONS.items(), LINES, strict=True):
            values = means[f"{direction}_mbps"].to_numpy()
            edges = [*starts_s, starts_s[-1] + step_s]
            axes.stairs(values, edges, color=colour, ls=dashes, lw=1.1, label=label)
        axes.set(xlabel=f"{clock} time (s)", ylabel="Mbit/s per server", xlim=(0, edges[-1]))
        axes.set_ylim(bottom=0)
        axes.grid()
        fault_bands.draw_bands(axes, faults)
        draw_warm_up([axes], warm_up_s, label="warm-up")
        figure.legend(loc="outside upper left", ncols=count_columns(width_in, 1.6))
    return figure
