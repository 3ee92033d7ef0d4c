"""The errors of measured rates and of clocks, from the tables of a run."""

import math

import pandas as pd
import pytest
from estimation_errors import summarize


def probes(*rows: tuple[str, float]) -> pd.DataFrame:
    """Measurements of links from `src` to z with these errors in percent."""
    return pd.DataFrame(
        [(src, "z", error) for src, error in rows], columns=["src", "dst", "error_percent"]
    )


def clocks(*rows: tuple[float, float]) -> pd.DataFrame:
    """Exchanges at these times with these remaining errors."""
    return pd.DataFrame(rows, columns=["t_s", "error_ms"])


def test_the_first_measurement_of_each_link_does_not_count() -> None:
    found = summarize(probes(("a", -50.0), ("a", -4.0), ("b", -60.0), ("b", 6.0)), clocks(), 10)
    assert found["measurements"] == 2
    assert found["median error, %"] == 1
    assert found["within 5 %"] == 50


def test_clocks_count_by_amount_once_they_are_settled() -> None:
    found = summarize(probes(), clocks((9.9, 80.0), (10.0, -0.3), (11.0, 0.1)), 10)
    assert found["clock, median, ms"] == pytest.approx(0.2)
    assert found["clock, most, ms"] == pytest.approx(0.3)


def test_without_measurements_there_are_no_numbers() -> None:
    found = summarize(probes(("a", -50.0)), clocks(), 10)
    assert found.pop("measurements") == 0
    assert all(map(math.isnan, found.values()))
