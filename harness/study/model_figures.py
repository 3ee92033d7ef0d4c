"""Figures that a model of their own predicts, without scenarios: their trials and tables (pure)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from trunkline.harness.config.document import Document, ScenarioErrors
from trunkline.harness.config.options import make_check, make_type
from trunkline.harness.study.grid import Axis, Cell, combine, refuse_conflicts
from trunkline.harness.study.papers import ModelFigure


@dataclass(frozen=True, slots=True)
class ModelTrial:
    """A cell, the number of one of its trials, and the setting of the model."""

    cell: Cell
    number: int
    setting: Any


def plan(
    figure: ModelFigure, axes: Sequence[Axis], trials: int, overrides: Sequence[str] = ()
) -> tuple[ModelTrial, ...]:
    """Plan the trials, cell by cell; the seed of a trial is its number.

    Args:
        figure: the model, and the type of its setting.
        axes: the varied keys and their values.
        trials: the number of trials per cell.
        overrides: `key.path=value` changes for all cells.

    Raises:
        ScenarioErrors: all problems of all cells.
        GridError: a key is set twice.
    """
    cells = combine(axes)
    refuse_conflicts(cells, overrides)
    check = make_check(make_type(figure.setting))
    planned, problems = [], []
    for cell in cells:
        source = Document("", data={})
        for assignment in (*overrides, *cell.overrides):
            source.set(assignment)
        setting, refusals = check(source.data)
        for refusal in refusals:
            source.refuse(refusal.path, refusal.text)
        problems += source.problems
        planned += [ModelTrial(cell, number, setting) for number in range(trials)]
    if problems:
        raise ScenarioErrors(dict.fromkeys(problems))
    return tuple(planned)


def predict(
    figure: ModelFigure, trials: Sequence[ModelTrial], on_progress: Callable[[int, int], None]
) -> pd.DataFrame:
    """Predict every trial; return a table like that of measured trials.

    `on_progress` gets the number of finished trials, and of all.
    """
    rows = []
    for trial in trials:
        row: dict[str, Any] = {**dict(trial.cell.values), "trial": trial.number}
        row |= {"seed": trial.number, **figure.predict(trial.setting, trial.number)}
        rows.append({**row, "verdict": "pass", "run": "", "error": ""})
        on_progress(len(rows), len(trials))
    return pd.DataFrame(rows)
