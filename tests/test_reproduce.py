"""Every figure is a sound comparison, and the command shows claim, fluid model and measurement."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from harness import cli, compare, comparison, grid, papers, tables
from harness.commands import compare as comparing

SCENARIOS = Path(__file__).parents[1] / "scenarios"
FIGURES = papers.figures()


@pytest.mark.parametrize("name", FIGURES)
def test_every_cell_of_a_figure_is_a_valid_scenario_and_its_metric_is_measured(name):
    figure = FIGURES[name]
    asked = compare.plan(SCENARIOS / figure.scenario, grid.axes(figure.vary), 1)
    assert len(asked.trials) > 1
    assert figure.metric in tables.RUN


def test_the_list_has_every_figure(capsys):
    assert cli.main(["reproduce", "--list"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(FIGURES)


@pytest.mark.parametrize("figure", [["crew/99"], []])
def test_an_unknown_figure_is_bad_usage(figure, capsys):
    assert cli.main(["reproduce", *figure]) == 64
    assert "allowed is one of crew/4" in capsys.readouterr().err


def test_the_measured_ratio_stands_beside_that_of_the_fluid_model(monkeypatch, capsys):
    def carry_out(asked, folder, arguments):
        rows = []
        for number, trial in enumerate(asked.trials, 1):
            row = {**dict(trial.cell.values), "trial": 0, "seed": 1, "verdict": "pass"}
            row |= {"task_s": 2.0 * number, "estimate_s": 1.0 * number**2, "latency_s": 0.0}
            rows.append({**row, "run": "x", "error": ""})
        return pd.DataFrame(rows)

    monkeypatch.setattr(comparing, "carry_out", carry_out)
    assert cli.main(["reproduce", "crew/4", "--trials", "1"]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert f"claim {FIGURES['crew/4'].claim}" in lines
    assert "{plan: opr} 3 9" in lines


def test_rounds_have_no_fluid_ratio():
    cells = pd.DataFrame(
        [{"k": "a", "estimate_s": 1.0} | dict.fromkeys(
            ("rounds_ratio", "rounds_ratio_low", "rounds_ratio_high"), 1.0)]
    )  # fmt: skip
    table = comparison.against_fluid(cells, "k", "rounds")
    assert [list(column.cells)[0] for column in table.columns] == ["a", "1", "-"]  # noqa: RUF015
