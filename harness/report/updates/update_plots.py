"""The figure of the updates that servers got: distributions of gaps, pulls and staleness (pure)."""

from __future__ import annotations

import matplotlib as mpl
import pandas as pd
from matplotlib.figure import Figure

from trunkline.harness.report.fault_layout import WIDTH_IN
from trunkline.harness.report.plots import BLUE, NARROW_IN, STYLE
from trunkline.harness.report.updates.update_tables import MEASURES, distribute


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
