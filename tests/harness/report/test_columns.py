"""Every table of a run is in the docs."""

from trunkline.harness.report.parts.report_parts import TABLES
from trunkline.harness.report.tables.row import Row


def test_the_docs_have_every_table_once() -> None:
    made = [row for row in Row.every.values() if row.__module__.startswith("trunkline.")]
    assert sorted(row.table for row in TABLES) == sorted(row.table for row in made)
