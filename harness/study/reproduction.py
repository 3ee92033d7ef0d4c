"""Reproduce a figure of a paper: predict every trial by the fluid model, beside measurements."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import partial
from typing import Any

import pandas as pd
from matplotlib.figure import Figure
from rich.table import Table

from trunkline.harness.processes.worker_processes import worker_processes
from trunkline.harness.scenario.settings import Scenario
from trunkline.harness.study import comparison, comparison_plots, comparison_tables
from trunkline.harness.study.comparison_runs import Comparison, Trial
from trunkline.harness.study.prediction import fluid_counts, fluid_run

METRICS = tuple(field.name for field in fields(fluid_counts.Expectation))
"""The columns of a comparison's trials that the fluid model predicts."""


def predict(
    spec: Comparison,
    at_once: int,
    on_progress: Callable[[int, int], None],
    model: Callable[[Scenario], Mapping[str, float]] | None = None,
) -> pd.DataFrame:
    """Predict every trial, `at_once` in parallel; return a table like that of measured trials.

    `on_progress` gets the number of finished trials, and of all. The fluid model predicts, or
    `model` if it is given. Values that the model cannot predict are NaN.
    """
    rows = []
    with worker_processes(at_once) as processes:
        for row in processes.map(partial(_predict_trial, model), spec.trials):
            rows.append(row)
            on_progress(len(rows), len(spec.trials))
    return pd.DataFrame(rows)


def draw_table(
    measured: pd.DataFrame | None,
    fluid: pd.DataFrame,
    keys: Sequence[str],
    metric: str,
    model: str = "fluid",
) -> Table:
    """A table of a metric and its ratio to the first cell, measured and predicted if known.

    `model` names what predicted it.
    """
    shown = Table(*keys, box=None, padding=(0, 2, 0, 0))
    sides = {} if measured is None else {"measured": measured}
    sides |= {model: fluid} if is_known(fluid, metric) else {}
    for name in sides:
        shown.add_column(f"{name} {comparison.METRICS[metric]}", justify="right")
        shown.add_column("ratio", justify="right")
    records = (cells.to_dict("records") for cells in sides.values())
    for texts, *rows in zip(comparison.format_keys(fluid, keys), *records, strict=True):
        for row in rows:
            texts += [
                comparison_tables.make_mean_formatter(metric)(row),
                comparison_tables.make_ratio_formatter(metric)(row),
            ]
        shown.add_row(*(text.replace("[", r"\[") for text in texts))
    return shown


def draw(
    trials: pd.DataFrame,
    measured: pd.DataFrame,
    fluid: pd.DataFrame,
    keys: Sequence[str],
    metric: str,
) -> Figure:
    """The comparison's figure, with a mark for the fluid model's prediction of each cell."""
    known = {f"fluid_{metric}": fluid[metric]} if is_known(fluid, metric) else {}
    cells = measured.assign(**known)
    return comparison_plots.draw(trials, cells, keys, metric, comparison.METRICS[metric])


def is_known(fluid: pd.DataFrame, metric: str) -> bool:
    """Whether the fluid model predicts this metric for any cell."""
    return metric in fluid and bool(fluid[metric].notna().any())


def _predict_trial(
    model: Callable[[Scenario], Mapping[str, float]] | None, trial: Trial
) -> dict[str, Any]:
    job = trial.job
    scenario = job.load()
    row: dict[str, Any] = {**dict(trial.cell.values), "trial": trial.number, "seed": job.seed}
    if model:
        row |= model(scenario)
    else:
        found = fluid_run.predict(scenario)
        row |= {name: getattr(found, name) if found else math.nan for name in METRICS}
    return row | {"verdict": "pass", "run": "", "error": ""}
