"""What evaluations found, in a report (pure)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from trunkline.agents.events.task_events import Evaluated
from trunkline.harness.record.history import History
from trunkline.harness.report.pages import accuracy_section
from trunkline.harness.report.pages.frame import Section
from trunkline.harness.report.parts.part import Part, Width
from trunkline.harness.report.run_data import RunData
from trunkline.harness.report.tables.row import Row, column

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class AccuracyRow(Row, table="accuracy"):
    """One row per evaluation, in order of time."""

    t_s: float = column("when it was")
    task: int = column("the task whose result was evaluated")
    site: str = column("the site that evaluated it")
    accuracy_percent: float = column("accuracy on held-out samples")
    loss: float = column("mean loss of these samples")
    samples: int = column("number of these samples")


def tabulate_accuracy(history: History) -> Iterator[AccuracyRow]:
    """One row per evaluation, in order of time."""
    for event in history.all(Evaluated):
        yield AccuracyRow(
            t_s=event.t_ns / 1e9,
            task=event.task,
            site=event.site,
            accuracy_percent=event.accuracy_percent,
            loss=event.loss,
            samples=event.samples,
        )


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
    tables=lambda scenario, history: {AccuracyRow: tabulate_accuracy(history)},
    sections=_write_sections,
    figures=_draw_figures,
)
