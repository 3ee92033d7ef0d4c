"""The results of evaluations, in a report (pure)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from trunkline.agents.events.evaluation_events import ModelEvaluated
from trunkline.agents.events.task_events import Evaluated
from trunkline.harness.record.history import History
from trunkline.harness.record.targets import Target, find_converged_ns, find_reached_ns
from trunkline.harness.report.faults.fault_table import find_timeline_start_ns
from trunkline.harness.report.pages import accuracy_section
from trunkline.harness.report.pages.frame import Section
from trunkline.harness.report.parts.part import Part, Width
from trunkline.harness.report.run_data import RunData
from trunkline.harness.report.tables.row import Row, column, to_s

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class AccuracyRow(Row, table="accuracy"):
    """One row per evaluation, in order of time."""

    t_s: float = column("when it was")
    of: str = column(
        "what was evaluated: `average`, `server` or `member`; of programs, `task`: its result"
    )
    number: int = column("which evaluation it was, from 1 on; of programs, which task, from 0 on")
    site: str = column(
        "the site whose model it was, or the program's site; empty if it was of several sites"
    )
    sites: int = column("of how many sites")
    accuracy_percent: float = column("accuracy on held-out samples")
    loss: float = column("mean loss of these samples")
    samples: int = column("number of these samples")


def tabulate_accuracy(history: History) -> Iterator[AccuracyRow]:
    """One row per evaluation, in order of time."""
    for event in history.all(Evaluated, ModelEvaluated):
        if isinstance(event, ModelEvaluated):
            number, of, sites = event.number, str(event.of), [e.site for e in event.models]
        else:
            number, of, sites = event.task, "task", [event.site]
        yield AccuracyRow(
            t_s=event.t_ns / 1e9,
            of=of,
            number=number,
            site=sites[0] if len(sites) == 1 else "",
            sites=len(sites),
            accuracy_percent=event.accuracy_percent,
            loss=event.loss,
            samples=event.samples,
        )


def _write_sections(data: RunData) -> Iterator[Section]:
    found, scenario = data.tables["accuracy"], data.scenario
    if len(found):
        zero_ns = find_timeline_start_ns(data.history) if len(data.tables["faults"]) else None
        times = to_s(zero_ns), scenario.begin, data.counted.begin_s
        drawn = accuracy_section.draw_run(found, _find_target(data), scenario.clock, *times)
        yield Section("accuracy", "Accuracy", [drawn])


def _draw_figures(data: RunData, width: Width) -> Iterator[tuple[str, Figure]]:
    from trunkline.harness.report.plots import draw_accuracy

    found, clock, faults = data.tables["accuracy"], data.scenario.clock, data.history.faults
    if len(found):
        target, begin_s = _find_target(data), data.counted.begin_s
        yield "accuracy", draw_accuracy(found, target, clock, faults, begin_s, **width)


def _find_target(data: RunData) -> Target:
    """The target of the scenario, and when the run reached it."""
    evaluated, stop = data.history.all(ModelEvaluated), data.scenario.stop
    reached_ns, converged_ns = find_reached_ns(evaluated, stop), find_converged_ns(evaluated, stop)
    return Target(stop, to_s(reached_ns), to_s(converged_ns))


PART = Part(
    tables=lambda scenario, history: {AccuracyRow: tabulate_accuracy(history)},
    sections=_write_sections,
    figures=_draw_figures,
)
