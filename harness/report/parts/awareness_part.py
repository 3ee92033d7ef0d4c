"""Measured rates and clocks in a report (pure). The section on rates shows them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from trunkline.harness.record.link_history import Conditions
from trunkline.harness.report.awareness_tables import (
    ClockRow,
    ProbeRow,
    tabulate_clocks,
    tabulate_probes,
)
from trunkline.harness.report.parts.part import Part, Width
from trunkline.harness.report.run_data import RunData

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def _draw_figures(data: RunData, width: Width) -> Iterator[tuple[str, Figure]]:
    from trunkline.harness.report.awareness_plots import draw_estimates

    probes, history, topology = data.tables["probes"], data.history, data.scenario.topology
    if len(probes):
        conditions, end_s = Conditions.of(history, topology), history.active_end_ns / 1e9
        yield "probes", draw_estimates(probes, conditions, topology, end_s, **width)


PART = Part(
    applies=lambda scenario, history: bool(scenario.scheme.awareness),
    tables=lambda scenario, history: {
        ProbeRow: tabulate_probes(history, scenario),
        ClockRow: tabulate_clocks(history, scenario),
    },
    figures=_draw_figures,
)
