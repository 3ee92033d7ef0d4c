"""The section on the updates that servers got (pure)."""

from __future__ import annotations

import pandas as pd

from trunkline.harness.config.units import count_of
from trunkline.harness.fluid.fluid_counts import ZERO_SHARE
from trunkline.harness.record.warm_up import WHOLE, Counted
from trunkline.harness.report.pages import charts
from trunkline.harness.report.pages.charts import WIDTH, Frame, Scale
from trunkline.harness.report.pages.markup import Child, Html, tag
from trunkline.harness.report.updates.update_tables import (
    MEASURES,
    distribute,
    summarize,
)

MAX_POINTS = 400
"""The most points of a curve; of more values, every second, third, ... is drawn."""

PANEL = 190.0
"""The height of a panel, in units of the view box."""


def write_section(every: pd.DataFrame, counted: Counted = WHOLE) -> list[Child]:
    """The distributions of gaps, pull times and staleness that count.

    `every` is the table `updates`.
    """
    updates = counted.select(every)
    found = summarize(updates)
    if found is None:
        return []
    words = (
        f"{len(updates)} updates of workers. {found.zero_gaps_percent:.1f} % of the gaps are "
        f"shorter than {ZERO_SHARE:g} of the mean gap. Staleness is {found.staleness:.2f} on "
        f"average, and {found.staleness_most:.0f} at most."
    )
    if first := len(every) - len(updates):
        words += f" Left out: {count_of(first, 'update')} of the warm-up."
    panels = [
        _draw_panel(updates[column], label, number * PANEL)
        for number, (column, label) in enumerate(MEASURES.items())
    ]
    height = PANEL * len(panels)
    picture = charts.draw_picture(height, f"Distributions over the updates. {words}", *panels)
    caption = "How many of the updates have at most this gap, pull time or staleness."
    return [tag("p", words), charts.make_figure(picture, caption)]


def _draw_panel(values: pd.Series, label: str, top: float) -> list[Html]:
    known, shares = distribute(values)
    if not len(known):
        return []
    most = float(known[-1]) * 1.05 or 1.0
    frame = Frame(Scale(0.0, most, 64, WIDTH - 8), Scale(0.0, 100.0, top + PANEL - 46, top + 24))
    every = -(-len(known) // MAX_POINTS)
    chosen = [*range(0, len(known) - 1, every), len(known) - 1]
    points = [(0.0, 0.0), *((known[n], shares[n]) for n in chosen), (most, 100.0)]
    shown = ((frame.x(value), frame.y(share)) for value, share in points)
    line = charts.draw_line(shown, "line stroke-blue", steps=True)
    return [frame.draw_axes(label, "updates (%)"), line]
