"""The statistics of a comparison: means, intervals and paired ratios of its trials (pure).

The table of trials has a row per trial. Its columns are the varied keys, `trial`, `seed`,
`verdict`, those of `tables/run.csv`, `run` (the run's folder) and `error`. Only trials that passed
are averaged; the others are counted.

Intervals are 95 % confidence intervals by Student's t. Cells share their seeds, so ratios are
paired: the trials of a pair have the same network and compute times. A ratio is the geometric mean
over the pairs, with the t interval of the logarithms.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

import numpy as np
import pandas as pd
from scipy import special  # to import scipy.stats takes a fifth of a short command's time

from trunkline.harness.checks.verdict import PREDICTION
from trunkline.harness.config.units import count_of, join_words
from trunkline.harness.report.pages.comparison.means_section import Mean, Metric, format_ratio
from trunkline.harness.study.grid import NONE, SCENARIO, cut_values, shorten
from trunkline.harness.study.mixed_machines import MACHINE

CONFIDENCE = 0.95

VERDICTS = ("pass", "unknown", "fail", "error", "missing")
"""The outcomes of a trial, best first; `error` was not carried out, `missing` was not started."""

COUNTED = ("pass", PREDICTION)
"""The outcomes of trials that are averaged: runs that passed, and predictions."""

PREDICTED, OVER_PREDICTION = "predicted_", "_over_prediction"
"""With predictions beside them: `predicted_task_s`, and `task_s_over_prediction`, the ratio."""

METRICS: Mapping[str, str] = {
    "task_s": "task time (s)",
    "rounds": "rounds per worker",
    "samples_per_s": "samples per second",
    "update_s": "time per update (s)",
    "step_s": "time of a step (s)",
    "stall_percent": "waiting for parameters (% of the step)",
    "waiting_percent": "waiting for parameters (% of the step)",
    "window_s": "time until the stop (s)",
    "wait_s": "time waited per round (s)",
    "zero_gaps_percent": "gaps of zero (%)",
    "push_s": "time of a push (s)",
    "pull_s": "time of a pull (s)",
    "server_in_mbps": "rate into a server (Mbit/s)",
    "server_in_peak_mbps": "peak rate into a server (Mbit/s)",
    "server_out_mbps": "rate out of a server (Mbit/s)",
    "server_out_peak_mbps": "peak rate out of a server (Mbit/s)",
    "rho": "rho: how slowly models mix (0 to 1)",
    "accuracy_percent": "last accuracy (%)",
    "target_s": "time to the target (s)",
    "target_rounds": "rounds per worker to the target",
    "target_updates": "updates to the target",
    "best_accuracy_percent": "best accuracy (%)",
    "converged_s": "time to the best accuracy (s)",
    "computing_percent": "time that sites computed (% of the run)",
}
"""The columns that have ratios and figures -> their labels."""

CHARTED = (
    "task_s",
    "step_s",
    "rounds",
    "computing_percent",
    "accuracy_percent",
    "target_s",
    "best_accuracy_percent",
    "converged_s",
    "window_s",
)
"""The columns that a page draws if they differ; the last one only beside an accuracy."""

KEY_WORDS: Mapping[str, str] = {
    "scheme.p": "group size p",
    "topology.alpha": "alpha",
    "workload.model": "size of the model",
    "workload.compute": "time to compute",
    "workload.batch": "batch size",
    "topology.sites": "number of sites",
    "topology.rates": "rates of links",
    "topology.delays": "delays of links",
    "timeline[0].do": "fault",
}
"""Keys that need more words than their last part -> their words."""

MET, MISSED = "met", "missed"
"""A trial met all expectations of its scenario, or missed one."""

VARIANT = "variant"
"""The column of the labels that a user gave to the cells."""

REFERENCE = "reference"
"""The column of cells with the row, from 0, of the cell to which its ratios are."""

WITH_RATIO = ("task_s", "rounds", "target_s", "converged_s", "window_s")
"""The metrics whose ratios are shown in the terminal and on the page."""

EXPECTATIONS = "expectations"
"""The column that says of a trial whether it is `met` or `missed` (`expectation_maps`)."""

IDENTITY = "identity"
"""The column of a hash of all that determines a predicted trial."""

FACTS = (
    *("trial", "seed", IDENTITY, "verdict", EXPECTATIONS, "ended", "by_hand"),
    *(*MACHINE, "run", "error"),
)
"""Columns of a trial that are neither keys nor numbers to average."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean and the bounds of its confidence interval; NaN if there are too few trials."""

    mean: float
    low: float = np.nan
    high: float = np.nan


def confidence_interval(values: Sequence[float]) -> Interval:
    """Mean and 95 % t interval; no bounds for fewer than two values."""
    known = np.array([value for value in values if not np.isnan(value)])
    if not known.size:
        return Interval(np.nan)
    if known.size == 1:
        return Interval(float(known[0]))
    quantile = special.stdtrit(known.size - 1, (1 + CONFIDENCE) / 2)
    half = quantile * known.std(ddof=1) / math.sqrt(known.size)
    return Interval(float(known.mean()), float(known.mean() - half), float(known.mean() + half))


def compute_ratio(values: Mapping[int, float], baseline: Mapping[int, float]) -> Interval:
    """The geometric mean of value over baseline, paired by seed, with its interval.

    Both arguments map a seed to a value. Pairs with a value of 0 or less are left out.
    """
    both = [seed for seed in values if seed in baseline]
    positive = [seed for seed in both if values[seed] > 0 and baseline[seed] > 0]
    found = confidence_interval([float(np.log(values[seed] / baseline[seed])) for seed in positive])
    return Interval(*(float(np.exp(each)) for each in (found.mean, found.low, found.high)))


def summarize(trials: pd.DataFrame, keys: Sequence[str]) -> pd.DataFrame:
    """Summarize the trials: one row per cell, in the order of the trials.

    Columns are the keys, `trials`, the number of trials with each verdict, of those that met all
    expectations and of those that missed one (if there are expectations), the mean of every number
    with `_low` and `_high`, REFERENCE if there are keys, and for each of METRICS `_ratio`,
    `_ratio_low` and `_ratio_high`. The baseline of a ratio is the cell with the same values, but
    the first one of the first key that has several; `-` equals any value. With predictions, METRICS
    also have `_over_prediction`, the measured value over the predicted one.
    """
    groups = dict(_group_cells(trials, keys))
    at = next((n for n, key in enumerate(keys) if trials[key].nunique() > 1), 0)
    numbers = [str(column) for column in trials if column not in (*keys, *FACTS)]
    rows = []
    for values, group in groups.items():
        passed = group[group["verdict"].isin(COUNTED)]
        row: dict[str, Any] = dict(zip(keys, values, strict=True))
        row["trials"] = len(group)
        verdicts = (*VERDICTS, *[PREDICTION] * bool((trials["verdict"] == PREDICTION).any()))
        row |= {verdict: int((group["verdict"] == verdict).sum()) for verdict in verdicts}
        if EXPECTATIONS in group:
            row |= {kind: int((group[EXPECTATIONS] == kind).sum()) for kind in (MET, MISSED)}
        for column in numbers:
            row |= _name_bounds(
                column, confidence_interval([float(value) for value in passed[column]])
            )
        first = next((v for v in groups if _is_same(_omit(v, at), _omit(values, at))), values)
        row |= {REFERENCE: list(groups).index(first)} if keys else {}
        against = groups[first][groups[first]["verdict"].isin(COUNTED)]
        for column in METRICS:
            if keys and column in numbers:
                found = compute_ratio(_by_seed(passed, column), _by_seed(against, column))
                row |= _name_bounds(f"{column}_ratio", found)
            if {column, predicted := f"{PREDICTED}{column}"} <= {*numbers}:
                found = compute_ratio(_by_seed(passed, column), _by_seed(passed, predicted))
                row |= _name_bounds(f"{column}{OVER_PREDICTION}", found)
        rows.append(row)
    return pd.DataFrame(rows)


def name_variants(
    trials: pd.DataFrame,
    cells: pd.DataFrame,
    keys: Sequence[str],
    labels: Sequence[str],
    scenario: str,
) -> tuple[pd.DataFrame, pd.DataFrame, tuple[str, ...]]:
    """The trials, cells and keys as they are shown: keys with several values, if there are any.

    With labels, one for each cell, VARIANT is the only key. Where nothing varies, the only cell has
    the name of the scenario.
    """
    if keys and not labels:
        varied = tuple(key for key in keys if cells[key].nunique() > 1)
        return trials, cells, varied or tuple(keys)
    key, names = (VARIANT, tuple(labels)) if labels else (SCENARIO, (scenario,))
    of_cells = [tuple(str(row[key]) for key in keys) for row in cells.to_dict("records")]
    names_of = dict(zip(of_cells, names, strict=True))
    of_trials = [
        names_of[tuple(str(row[key]) for key in keys)] for row in trials.to_dict("records")
    ]
    left = trials.drop(columns=list(keys)), cells.drop(columns=list(keys))
    return left[0].assign(**{key: of_trials}), left[1].assign(**{key: list(names)}), (key,)


def format_keys(cells: pd.DataFrame, keys: Sequence[str]) -> list[list[str]]:
    """The texts of each cell's keys in a table."""
    columns = [list(map(str, cells[key])) for key in keys]
    shown = [[shorten(column)[text] for text in column] for column in columns]
    return [list(row) for row in zip(*shown, strict=True)] or [[] for _ in range(len(cells))]


def describe_key(key: str) -> str:
    """A varied key in words: `scheme.plan` is `plan`."""
    return KEY_WORDS.get(key, key.rpartition(".")[2].replace("_", " "))


def name_keys(keys: Sequence[str]) -> list[str]:
    """The heads of the keys' columns: the last part of each, or the whole key if that is unclear.

    A place in a list, as `timeline[0].do` has one, is unclear unless KEY_WORDS has words for it.
    """
    words = {key: KEY_WORDS.get(key, key) if "[" in key else key.rpartition(".")[2] for key in keys}
    taken = ["trials", *words.values()]
    return [key if taken.count(word) > 1 else word for key, word in words.items()]


def name_cells(cells: pd.DataFrame, keys: Sequence[str]) -> list[str]:
    """A name for each cell: the value of the varied key, or `plan crew, group size p 3`."""
    rows = format_keys(cells, keys)
    if len(keys) == 1:
        return [row[0] for row in rows]
    columns = [cut_values(column) for column in zip(*rows, strict=True)]
    return [
        ", ".join(f"{describe_key(key)} {text}" for key, text in zip(keys, row, strict=True))
        for row in zip(*columns, strict=True)
    ]


def describe_reference(cells: pd.DataFrame, keys: Sequence[str]) -> str:
    """The cell whose ratios are 1, in words; there may be one for each value of other keys.

    Empty if each cell is its own reference, so that there is nothing to compare.
    """
    if REFERENCE not in cells or cells[REFERENCE].nunique() == len(cells):
        return ""
    places = [int(place) for place in cells[REFERENCE]]
    names = name_cells(cells, keys)
    firsts = list(dict.fromkeys(places))
    if len(firsts) == 1:
        return names[firsts[0]]
    texts = format_keys(cells, keys)
    at = next(n for n, key in enumerate(keys) if cells[key].nunique() > 1)
    if len(keys) > 1 and len({texts[place][at] for place in firsts}) == 1:
        others = [key for n, key in enumerate(keys) if n != at and cells[key].nunique() > 1]
        same = join_words([describe_key(key) for key in others])
        return f"{describe_key(keys[at])} {texts[firsts[0]][at]} with the same {same}"
    if list(keys) == [VARIANT]:  # a user's words may have commas
        names = [f'"{name}"' for name in names]
    of_each = {
        place: [names[n] for n, other in enumerate(places) if other == place and n != place]
        for place in firsts
    }
    return "; ".join(
        f"{names[n]} for {join_words(others)}" for n, others in of_each.items() if others
    )


def list_metrics(
    trials: pd.DataFrame, cells: pd.DataFrame, keys: Sequence[str], names: Sequence[str]
) -> Iterator[Metric]:
    """The metrics of CHARTED that differ between trials that passed; `names` are the cells'."""
    passed = trials[trials["verdict"].isin(COUNTED)]
    of_cells = dict(_group_cells(passed, keys))
    known = passed.dropna(axis=1, how="all")
    several = REFERENCE in cells and cells[REFERENCE].nunique() < len(cells)
    for metric in CHARTED:
        if metric not in known or known[metric].nunique() < 2:
            continue
        if metric == "window_s" and "accuracy_percent" not in known:
            continue
        means = []
        for name, row in zip(names, cells.to_dict("records"), strict=True):
            group = of_cells.get(tuple(str(row[key]) for key in keys))
            values = () if group is None else tuple(map(float, group[metric].dropna()))
            mean, low, high = (float(row[f"{metric}{end}"]) for end in ("", "_low", "_high"))
            counted = sum(int(row.get(verdict, 0)) for verdict in COUNTED)
            marks = (
                float(row.get("estimate_s", np.nan)) + float(row.get("latency_s", np.nan)),
                float(row.get("bound_s", np.nan)),
            )
            of_task = marks if metric == "task_s" else (np.nan, np.nan)
            ratio = _format_ratio(row, metric) if several and metric in WITH_RATIO else ""
            ended = int(row["missing"]) < int(row["trials"])
            of_trials = values, counted, ended
            planned = int(row["trials"])
            means.append(Mean(name, mean, low, high, *of_trials, *of_task, ratio, planned))
        yield Metric(METRICS[metric], means)


def _format_ratio(row: Mapping[Any, Any], metric: str) -> str:
    """The ratio of a cell without its interval, as the table has it; empty if it has none."""
    ratio, low, high = (row.get(f"{metric}_ratio{end}", np.nan) for end in ("", "_low", "_high"))
    return "" if np.isnan(ratio) else format_ratio(ratio, low, high).partition(" (")[0]


def find_worst(trials: pd.DataFrame) -> str:
    """The worst verdict of all trials."""
    return max(map(str, trials["verdict"]), key=(PREDICTION, *VERDICTS).index)


def has_only_missed(trials: pd.DataFrame) -> bool:
    """Whether all trials that did not pass are judged, and missed an expectation."""
    return bool((trials["verdict"].isin(COUNTED) | (trials[EXPECTATIONS] == MISSED)).all())


def list_problems(trials: pd.DataFrame, keys: Sequence[str], folder: str = "") -> Iterator[str]:
    """The lines of `list_bad_trials`, with the folders of runs, which are in this one."""
    for text, run in list_bad_trials(trials, keys):
        yield f"{text}: {PurePath(folder, run)}" if run else text


def list_bad_trials(trials: pd.DataFrame, keys: Sequence[str]) -> Iterator[tuple[str, str]]:
    """A line for every trial that did not pass: outcome, cell, seed, and reason; and its folder.

    If several keys vary, trials that missed an expectation are in maps, and only counted. So are
    trials that have not been carried out.
    """
    bad = trials[~trials["verdict"].isin(COUNTED)]
    if missing := int((bad["verdict"] == "missing").sum()):
        which = f"{missing} of {count_of(len(trials), 'trial')}"
        yield f"{which} have not ended: the same command continues", ""
        bad = bad[bad["verdict"] != "missing"]
    if EXPECTATIONS in trials and sum(trials[key].nunique() > 1 for key in keys) > 1:
        missed = bad[EXPECTATIONS] == MISSED
        if missed.any():
            which = count_of(int(missed.sum()), "trial")
            yield f"{which} missed expectations: tables/trials.csv has the folders", ""
        bad = bad[~missed]
    for row in bad.to_dict("records"):
        cell = " ".join(f"{key}={row[key]}" for key in keys)
        why = " ".join(str(row["error"]).split())
        words = [f"{row['verdict']}: {cell} seed {row['seed']}".replace(":  ", ": "), why]
        yield ": ".join(filter(None, words)), row["run"]


def list_lacks(cells: pd.DataFrame, names: Sequence[str]) -> Iterator[str]:
    """A line if trials of a cell passed without a task time that others have: it is a program's."""
    if "task_s" not in cells:
        return
    lacks = cells["pass"].gt(0) & cells["task_s"].isna()
    if lacks.any() and cells["task_s"].notna().any():
        which = ", ".join(name for name, lack in zip(names, lacks, strict=True) if lack)
        why = "a program has task times and rounds only if it reports them"
        yield f"no task times: {which}: {why} (trunkline.program, docs/programs.md)"


def list_identical(trials: pd.DataFrame, keys: Sequence[str]) -> Iterator[str]:
    """A line for every cell whose trials passed and have the same numbers, if it has several."""
    numbers = [str(column) for column in trials if column not in (*keys, *FACTS)]
    for values, group in _group_cells(trials, keys):
        same = len(group) > 1 and group["verdict"].isin(COUNTED).all()
        if same and (group[numbers].nunique(dropna=False) == 1).all():
            cell = " ".join(f"{key}={value}" for key, value in zip(keys, values, strict=True))
            what = f"{cell}: its" if cell else "all"
            said = "have identical results: nothing in it depends on the seed"
            yield f"{what} {len(group)} trials {said}"


def list_notes(trials: pd.DataFrame) -> Iterator[str]:
    """A line if the trials are predictions, and one if tasks without a time were abandoned."""
    if (trials["verdict"] == PREDICTION).any():
        yield "These are predictions by the fluid model, not runs; nothing is judged."
    counted = trials[trials["verdict"].isin(COUNTED)]
    if lost := int(counted.get("abandoned", pd.Series(dtype=float)).fillna(0).sum()):
        tasks = int(counted["tasks"].fillna(0).sum()) + lost
        were = "was" if lost == 1 else "were"
        yield f"Task times are those of completed tasks: {lost} of {tasks} tasks {were} abandoned."


def _group_cells(
    trials: pd.DataFrame, keys: Sequence[str]
) -> Iterator[tuple[tuple[str, ...], pd.DataFrame]]:
    if not keys:
        yield (), trials
        return
    for values, group in trials.groupby(list(keys), sort=False):
        yield tuple(map(str, values)), group


def _omit(values: Sequence[str], at: int) -> tuple[str, ...]:
    return (*values[:at], *values[at + 1 :])


def _is_same(some: Sequence[str], others: Sequence[str]) -> bool:
    return all(a == b or NONE in (a, b) for a, b in zip(some, others, strict=True))


def _by_seed(trials: pd.DataFrame, column: str) -> dict[int, float]:
    return {int(s): float(v) for s, v in zip(trials["seed"], trials[column], strict=True)}


def _name_bounds(name: str, found: Interval) -> dict[str, float]:
    return {name: found.mean, f"{name}_low": found.low, f"{name}_high": found.high}
