"""Models in layers, whose branches are computed while they arrive, in a report (pure)."""

from __future__ import annotations

from collections.abc import Iterator

from trunkline.harness.record.history import History
from trunkline.harness.report.branches import branches_section
from trunkline.harness.report.branches.branch_tables import BranchRow, tabulate_branches
from trunkline.harness.report.pages.frame import Section
from trunkline.harness.report.parts.part import Part, Tables
from trunkline.harness.report.run_data import RunData
from trunkline.harness.scenario.settings import Scenario


def _tabulate(scenario: Scenario, history: History) -> Tables:
    assert scenario.layers is not None
    return {BranchRow: tabulate_branches(history, scenario.layers)}


def _write_sections(data: RunData) -> Iterator[Section]:
    content = branches_section.write_section(data.tables["branches"], data.tables["run"])
    yield Section("branches", "Branches", content)


PART = Part(
    applies=lambda scenario, history: bool(scenario.layers),
    tables=_tabulate,
    sections=_write_sections,
)
