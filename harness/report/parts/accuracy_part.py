"""What evaluations found, in a report (pure)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from trunkline.harness.report.pages import accuracy_section
from trunkline.harness.report.pages.frame import Section
from trunkline.harness.report.parts.part import Part, Width
from trunkline.harness.report.run_data import RunData
from trunkline.harness.report.tables import tabulate_accuracy

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def _write_sections(data: RunData) -> Iterator[Section]:
    found, scenario = data.tables["accuracy"], data.scenario
    if len(found):
        target = scenario.stop.accuracy_percent
        drawn = accuracy_section.draw_run(found, target, scenario.clock)
        yield Section("accuracy", "Accuracy", [drawn])


def _draw_figures(data: RunData, width: Width) -> Iterator[tuple[str, Figure]]:
    from trunkline.harness.report.plots import draw_accuracy

    found, scenario, faults = data.tables["accuracy"], data.scenario, data.history.faults
    if len(found):
        target = scenario.stop.accuracy_percent
        yield "accuracy", draw_accuracy(found, target, scenario.clock, faults, **width)


PART = Part(
    tables=lambda scenario, history: {"accuracy": tabulate_accuracy(history)},
    sections=_write_sections,
    figures=_draw_figures,
)
