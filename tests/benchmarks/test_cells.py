"""The cells of a benchmark's comparison, and how their numbers are written."""

from math import nan
from pathlib import Path

import pandas as pd
import pytest
from cells import Cell, group, write, write_table


def test_each_cell_has_its_own_runs_in_order() -> None:
    rows = [("crew", "3", "a"), ("crew", "5", "b"), ("crew", "3", "c")]
    trials = pd.DataFrame(rows, columns=["scheme.plan", "scheme.p", "run"])
    assert group(trials, ["scheme.plan", "scheme.p"], Path("out")) == [
        Cell(("crew", "3"), (Path("out/a"), Path("out/c"))),
        Cell(("crew", "5"), (Path("out/b"),)),
    ]


def test_without_a_varied_key_all_runs_are_one_cell() -> None:
    trials = pd.DataFrame({"run": ["a", "b"]})
    assert group(trials, [], Path("out")) == [Cell((), (Path("out/a"), Path("out/b")))]


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ([2.0], "2.00"),
        ([1.5, 1.5], "1.50"),
        ([1.0, 2.0, 3.0], "2.00 ± 2.48"),
        ([1.0, nan, 2.0, 3.0], "2.00 ± 2.48"),
        ([nan], ""),
        ([], ""),
    ],
)
def test_a_number_has_its_interval_if_values_differ(values: list[float], text: str) -> None:
    assert write(values) == text


def test_a_table_is_markdown() -> None:
    assert write_table(["", "a"], [["x", "1"]]) == "|  | a |\n| --- | --- |\n| x | 1 |\n"
