"""Reproduce a figure of a paper: predict every trial by the fluid model, beside measurements."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import partial

import pandas as pd
from matplotlib.figure import Figure
from rich.table import Table

from trunkline.harness.fluid import fluid_counts, fluid_run
from trunkline.harness.processes.worker_processes import worker_processes
from trunkline.harness.runs import provenance
from trunkline.harness.scenario.settings import Scenario
from trunkline.harness.study import comparison, comparison_plots, comparison_tables
from trunkline.harness.study.comparison_runs import Comparison, Trial

Model = Callable[[Scenario], Mapping[str, float]]
"""The values of a trial by an analytic model, by the names of columns."""

SHORT = 16
"""Letters of a hash that suffice to tell predictions apart."""

METRICS = tuple(field.name for field in fields(fluid_counts.Expectation))
"""The columns of a comparison's trials that the fluid model predicts."""


def predict(
    spec: Comparison,
    at_once: int,
    on_progress: Callable[[int, int], None],
    model: Model | None = None,
    known: pd.DataFrame | None = None,
) -> pd.DataFrame:
    """Predict every trial, `at_once` in parallel; return a table like that of measured trials.

    The fluid model predicts, or `model` if it is given. Values that the model cannot predict are
    NaN. Trials whose scenario and code are those of a row of `known`, a table of an earlier call,
    have its values. `on_progress` gets the number of the others that are finished, and of all
    others.
    """
    code = provenance.hash_code(((model or fluid_run.predict).__module__,))
    identities = [f"{trial.job.identity[:SHORT]}-{code[:SHORT]}" for trial in spec.trials]
    numbers = _read_numbers(spec, known)
    missing = [pair for pair in zip(identities, spec.trials, strict=True) if pair[0] not in numbers]
    with worker_processes(at_once) as processes:
        found = processes.map(partial(_predict_trial, model), [trial for _, trial in missing])
        for done, ((identity, _), row) in enumerate(zip(missing, found, strict=True), 1):
            numbers[identity] = row
            on_progress(done, len(missing))
    return pd.DataFrame(
        {
            **dict(trial.cell.values),
            "trial": trial.number,
            "seed": trial.job.seed,
            comparison.IDENTITY: identity,
            **numbers[identity],
            "verdict": "pass",
            "run": "",
            "error": "",
        }
        for identity, trial in zip(identities, spec.trials, strict=True)
    )


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


def _read_numbers(spec: Comparison, table: pd.DataFrame | None) -> dict[str, Mapping[str, float]]:
    """The predicted numbers in a table, by the identity of their prediction."""
    if table is None or comparison.IDENTITY not in table:
        return {}
    others = {*spec.keys, *comparison.FACTS}
    numbers = table.set_index(comparison.IDENTITY)
    numbers = numbers[[column for column in numbers if column not in others]]
    return {str(identity): dict(row) for identity, row in numbers.iterrows()}


def _predict_trial(model: Model | None, trial: Trial) -> Mapping[str, float]:
    scenario = trial.job.load()
    if model:
        return model(scenario)
    found = fluid_run.predict(scenario)
    return {name: getattr(found, name) if found else math.nan for name in METRICS}
