"""What columns mean is said once, of every column, and the docs say the same."""

from pathlib import Path

import pandas as pd
from three_sites import LOG, SCENARIO

from trunkline.harness.report import columns, outputs

ROOT = Path(__file__).parents[3]


def test_every_column_of_every_table_has_a_meaning() -> None:
    for table in columns.TABLES:
        assert all(meaning for _, meaning in table.columns.values()), table.name


def test_the_tables_of_a_run_are_those_that_are_described(tmp_path: Path) -> None:
    scenario = SCENARIO.read_text() + "outputs: {plots: false}\n"
    scenario += "background: [{src: oslo, dst: rome, rate: 1 Mbit/s}]\n"
    aware = "scheme: {awareness: {}, auxiliary: {}, "
    (tmp_path / "resolved.yaml").write_text(scenario.replace("scheme: {", aware))
    (tmp_path / "events.jsonl").write_text(LOG.read_text())
    outputs.build(tmp_path)
    found = {
        path.stem: list(pd.read_csv(path).columns) for path in (tmp_path / "tables").glob("*.csv")
    }
    # of servers, of workloads in layers, and of programs
    of_programs = (columns.PROGRAMS, columns.TRAFFIC, columns.CALLS)
    others = (columns.UPDATES, columns.SERVERS, columns.BRANCHES, *of_programs)
    tables = [table for table in columns.TABLES if table not in others]
    assert found == {table.name: list(table.columns) for table in tables}


def test_units_are_the_ends_of_names() -> None:
    names = (
        "task_s",
        "rate_mbps",
        "bytes_sent",
        "drops",
        "t_s",
        "loss",
        "error_percent",
        "delay_ms",
    )
    assert list(map(columns.find_unit, names)) == ["s", "Mbit/s", "bytes", "", "s", "", "%", "ms"]


def test_the_docs_are_made_of_it() -> None:
    assert (ROOT / "docs" / "tables.md").read_text() == columns.write_page()
