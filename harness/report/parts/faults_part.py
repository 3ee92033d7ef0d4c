"""Faults in a report (pure)."""

from __future__ import annotations

from collections.abc import Iterator

from trunkline.harness.report.faults.fault_table import FaultRow, tabulate_faults
from trunkline.harness.report.pages import faults_section
from trunkline.harness.report.pages.frame import Section
from trunkline.harness.report.parts.part import Part
from trunkline.harness.report.run_data import RunData


def _write_sections(data: RunData) -> Iterator[Section]:
    content = faults_section.write_faults(data.tables["faults"], data.scenario.begin)
    yield Section("faults", "Faults", content)


PART = Part(
    tables=lambda scenario, history: {FaultRow: tabulate_faults(history, scenario.timeline)},
    sections=_write_sections,
)
