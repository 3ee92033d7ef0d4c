"""The timed calls of programs in a report (pure)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from trunkline.agents.events.call_events import CallStarted, TimingStopped
from trunkline.harness.record.history import History
from trunkline.harness.report.calls import calls_section
from trunkline.harness.report.calls.call_tables import CallRow, tabulate_calls
from trunkline.harness.report.calls.calls_in_faults import find_calls_in_faults
from trunkline.harness.report.calls.pace import tell_pace
from trunkline.harness.report.calls.program_explanation import divide_time
from trunkline.harness.report.calls.steps.step_tables import StepRow, tabulate_steps
from trunkline.harness.report.calls.steps.steps_section import write_steps
from trunkline.harness.report.pages.frame import Section
from trunkline.harness.report.parts.part import Part, Width
from trunkline.harness.report.run_data import RunData
from trunkline.harness.scenario.settings import Scenario

if TYPE_CHECKING:  # matplotlib takes a second to load
    from matplotlib.figure import Figure


def _has_calls(scenario: Scenario, history: History) -> bool:
    wanted = scenario.workload.options.get("time_calls") or history.all(CallStarted)
    return scenario.runs_programs and bool(wanted)


def _write_sections(data: RunData) -> Iterator[Section]:
    found, sites = data.tables["calls"], data.scenario.topology.site_names
    stopped, end_s = data.history.all(TimingStopped), data.history.active_end_ns / 1e9
    clock, faults = data.scenario.clock, data.history.faults
    in_faults = find_calls_in_faults(data.history, data.scenario.programs, 1)
    idle = {each.fault.started.fault for each in in_faults if not each.calls}
    content = calls_section.write_section(found, stopped, sites, end_s, clock, faults, idle)
    yield Section("calls", "Calls", content)
    if len(found):
        steps = data.tables["steps"]
        pace = tell_pace(
            steps.to_dict("records"),
            found.to_dict("records"),
            data.tables["programs"].to_dict("records"),
        )
        said = (f"{name.capitalize()}: {text}." for name, text in pace)
        before, each_fault, after = divide_time(data)
        content = write_steps(steps, before, each_fault, [*after, *said])
        yield Section("steps", "Where the time went", content)


def _draw_figures(data: RunData, width: Width) -> Iterator[tuple[str, Figure]]:
    from trunkline.harness.report.calls import call_plots

    found, steps = data.tables["calls"], data.tables["steps"]
    if len(found):
        sites, end_s = data.scenario.topology.site_names, data.history.active_end_ns / 1e9
        clock, faults = data.scenario.clock, data.history.faults
        yield "calls", call_plots.draw_calls(found, sites, end_s, clock, faults, **width)
        yield "steps", call_plots.draw_steps(steps, **width)


PART = Part(
    applies=_has_calls,
    tables=lambda scenario, history: {
        CallRow: tabulate_calls(history),
        StepRow: tabulate_steps(history, scenario.programs),
    },
    sections=_write_sections,
    figures=_draw_figures,
)
