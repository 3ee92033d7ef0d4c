"""The paths that sites chose, in a report (pure)."""

from __future__ import annotations

from trunkline.harness.report.parts.part import Part
from trunkline.harness.report.tables import tabulate_paths

PART = Part(
    applies=lambda scenario, history: scenario.scheme.has_paths,
    tables=lambda scenario, history: {"paths": tabulate_paths(history)},
)
