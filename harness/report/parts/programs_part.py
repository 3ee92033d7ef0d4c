"""The programs of a run, and what their links carried, in a report (pure)."""

from __future__ import annotations

from collections.abc import Iterator

from trunkline.harness.record.history import History
from trunkline.harness.report.pages import programs_section
from trunkline.harness.report.pages.frame import Section
from trunkline.harness.report.parts.part import Part, Tables
from trunkline.harness.report.program_tables import (
    ProgramRow,
    SiteRow,
    TrafficRow,
    tabulate_programs,
    tabulate_sites,
    tabulate_traffic,
)
from trunkline.harness.report.run_data import RunData
from trunkline.harness.scenario.settings import Scenario


def _tabulate(scenario: Scenario, history: History) -> Tables:
    programs = scenario.programs
    return {
        ProgramRow: tabulate_programs(history, programs),
        SiteRow: tabulate_sites(history, scenario.topology.site_names, programs),
        TrafficRow: tabulate_traffic(history),
    }


def _write_sections(data: RunData) -> Iterator[Section]:
    found = data.tables["programs"]
    if len(found):
        regions = {site.name: site.region for site in data.scenario.topology.sites}
        content = programs_section.write_section(found, data.tables["sites"], regions, data.outputs)
        yield Section("programs", "Programs", content)


PART = Part(
    applies=lambda scenario, history: scenario.runs_programs,
    tables=_tabulate,
    sections=_write_sections,
)
