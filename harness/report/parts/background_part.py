"""Background traffic in a report (pure)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from trunkline.harness.background.flows import list_flows
from trunkline.harness.report.background_tables import (
    BackgroundRow,
    compute_flow_loads,
    tabulate_background,
)
from trunkline.harness.report.overlay import overlay_section
from trunkline.harness.report.pages import charts, frame
from trunkline.harness.report.pages.frame import Section
from trunkline.harness.report.pages.markup import make_table, tag
from trunkline.harness.report.parts.part import Part, Width
from trunkline.harness.report.run_data import RunData

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_FLOWS = 100
"""The most flows that the page lists; the table has all."""


def _write_sections(data: RunData) -> Iterator[Section]:
    found, scenario, history = data.tables["background"], data.scenario, data.history
    flows = list_flows(scenario.background)
    steps = overlay_section.choose_steps(len(flows))
    loads = compute_flow_loads(history, scenario.topology, flows, steps)
    shown = found[:MAX_FLOWS]
    rows = [
        (
            f"{row['src']} → {row['dst']}",
            str(row["kind"]),
            charts.format_value(row["mean_mbps"]),
            charts.format_known(row["goodput_mbps"], ".2f"),
            f"{row['bytes_sent'] / 1e6:.2f}",
            f"{row['bytes_received'] / 1e6:.2f}",
            charts.format_known(row["lost_percent"], ".2f"),
            charts.format_known(row["files"]),
            charts.format_known(row["file_median_s"], ".3f"),
        )
        for row in shown.to_dict("records")
    ]
    heads = ("flow", "kind", "set mean (Mbit/s)", "goodput (Mbit/s)", "sent (MB)",
             "received (MB)", "lost (%)", "files", "median file (s)")  # fmt: skip
    words = "Each row is a flow: its payload as a share of the slowest link on its path."
    content = [
        tag("p", words),
        overlay_section.draw_strip(
            loads,
            found["bytes_received"].tolist(),
            scenario.clock,
            "Between two reports of a receiver, bytes count as received evenly.",
        ),
        frame.fold(
            f"In numbers: {len(shown)} of {len(found)} flows",
            make_table(heads, rows, "background", range(2, 9)),
            file="tables/background.csv",
        ),
    ]
    yield Section("background", "Background traffic", content)


def _draw_figures(data: RunData, width: Width) -> Iterator[tuple[str, Figure]]:
    from trunkline.harness.report.background_plots import draw_background

    flows = list_flows(data.scenario.background)
    yield "background", draw_background(data.history, flows, data.scenario.clock, **width)


PART = Part(
    applies=lambda scenario, history: bool(scenario.background),
    tables=lambda scenario, history: {
        BackgroundRow: tabulate_background(history, list_flows(scenario.background))
    },
    sections=_write_sections,
    figures=_draw_figures,
)
