"""The section on the use of servers' links over time (pure)."""

from __future__ import annotations

import pandas as pd

from trunkline.harness.record.warm_up import WHOLE, Counted
from trunkline.harness.report.pages import charts
from trunkline.harness.report.pages.charts import WIDTH, Frame, Scale
from trunkline.harness.report.pages.markup import Child, Html, make_table
from trunkline.harness.report.updates.server_rates import DIRECTIONS, STEP_S

MAX_SERVERS = 4
"""The most servers that have a panel; the table has all."""

MAX_POINTS = 600
"""The most points of a line; of more steps, a point is the mean of several."""

PANEL = 190.0
"""The height of a panel, in units of the view box."""

LINES = {"in": "stroke-blue", "out": "stroke-orange"}


def write_section(servers: pd.DataFrame, clock: str, counted: Counted = WHOLE) -> list[Child]:
    """Rates over time, and in numbers those that count; `servers` is the table of that name."""
    names = list(dict.fromkeys(servers["server"]))
    shown = names[:MAX_SERVERS]
    most = max(float(servers[f"{each}_mbps"].max()) for each in DIRECTIONS) * 1.05 or 1.0
    panels = [
        _draw_panel(
            servers[servers["server"] == name], (name, clock), most, number * PANEL, counted.begin_s
        )
        for number, name in enumerate(shown)
    ]
    words = (
        f"Payload over the servers' links in steps of {1e3 * _step_s(servers):.0f} ms. Its share "
        "of what the rates let pass is in the table; headers take about 4 % more."
    )
    if len(shown) < len(names):
        words += f" Shown are {len(shown)} of {len(names)} servers; tables/servers.csv has all."
    label = f"Rates of {len(shown)} servers over time; the table below has means and peaks"
    picture = charts.draw_picture(PANEL * len(shown), label, *panels)
    entries = [(LINES[each], words) for each, words in DIRECTIONS.items()]
    entries += [("fill-warm-up", charts.WARM_UP)] if counted.begin_ns else []
    legend = charts.make_legend(entries, "line", bars={"fill-warm-up"})
    later = counted.select(servers)
    numbers = _write_numbers(later, names) if len(later) else None
    return [charts.make_figure(picture, words, legend), numbers]


def _draw_panel(
    rows: pd.DataFrame, names: tuple[str, str], most: float, top: float, warm_up_s: float
) -> list[Html]:
    """The rates of the server and over the clock with these names."""
    name, clock = names
    every = -(-len(rows) // MAX_POINTS)
    merged = rows.groupby([number // every for number in range(len(rows))]).mean(numeric_only=True)
    starts_s = rows["t_s"].to_numpy()[::every]
    end_s = float(rows["t_s"].max()) + _step_s(rows)
    x, y = Scale(0.0, end_s, 64, WIDTH - 8), Scale(0.0, most, top + PANEL - 46, top + 24)
    frame = Frame(x, y)
    lines = []
    for direction, stroke in LINES.items():
        values = merged[f"{direction}_mbps"].tolist()
        points = zip([*starts_s, end_s], [*values, values[-1]], strict=True)
        shown = ((x(t), y(value)) for t, value in points)
        lines.append(charts.draw_line(shown, f"line {stroke}", steps=True))
    behind = charts.draw_warm_up(x, warm_up_s, y.start, y.end)
    axes = frame.draw_axes(f"{clock} time (s)", f"{name} (Mbit/s)")
    return [axes, *lines] if behind is None else [behind, axes, *lines]


def _write_numbers(servers: pd.DataFrame, names: list[str]) -> Html:
    heads = ["server"]
    for words in DIRECTIONS.values():
        heads += [f"{words}: mean (Mbit/s)", "peak (Mbit/s)", "mean (%)", "peak (%)"]
    rows = []
    for name in names:
        found = servers[servers["server"] == name]
        cells = [name]
        for direction in DIRECTIONS:
            for unit in ("mbps", "percent"):
                values = found[f"{direction}_{unit}"]
                cells += [f"{values.mean():.1f}", f"{values.max():.1f}"]
        rows.append(cells)
    return make_table(heads, rows, "servers", range(1, len(heads)))


def _step_s(servers: pd.DataFrame) -> float:
    starts_s = servers["t_s"].drop_duplicates().to_numpy()
    return float(starts_s[1] - starts_s[0]) if len(starts_s) > 1 else STEP_S
