"""A comparison whose runs a benchmark reads: its options, its runs, and how numbers are written."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from trunkline.harness.study import comparison, comparison_runs, grid


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of a comparison: its varied values in the order of the options, and its runs."""

    values: tuple[str, ...]
    runs: tuple[Path, ...]


def make_parser(docstring: str | None, out: Path) -> argparse.ArgumentParser:
    """The options of a comparison; a benchmark with this docstring adds its own."""
    parser = argparse.ArgumentParser(description=(docstring or "").partition("\n")[0])
    parser.add_argument("--vary", action="append", default=[], metavar="KEY=VALUE,VALUE,...")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="changes")
    parser.add_argument("--trials", type=int, default=5, help="networks of each cell")
    parser.add_argument("--jobs", type=int, default=1, help="runs at once")
    parser.add_argument("--out", type=Path, default=out, help="the folder of the runs")
    return parser


def run(scenario: Path, arguments: argparse.Namespace) -> tuple[list[str], list[Cell]]:
    """Run what is missing; return the varied keys and the cells.

    Raises SystemExit if a run did not pass.
    """
    axes = grid.read_axes(arguments.vary)
    spec = comparison_runs.plan(scenario, axes, arguments.trials, arguments.changes)
    trials = comparison_runs.run(spec, arguments.out, arguments.jobs, lambda sweep: None)
    if (trials["verdict"] != "pass").any():
        raise SystemExit("\n".join(comparison.list_problems(trials, spec.keys)))
    return list(spec.keys), group(trials, spec.keys, arguments.out)


def group(trials: pd.DataFrame, keys: Sequence[str], folder: Path) -> list[Cell]:
    """The cells of a comparison, in their order.

    Args:
        trials: one row for each run, with the columns of `keys` and the run's folder `run`.
        keys: the varied keys.
        folder: where the runs are.
    """
    cells: dict[tuple[str, ...], list[Path]] = {}
    for *values, run_dir in trials[[*keys, "run"]].itertuples(index=False):
        cells.setdefault(tuple(map(str, values)), []).append(folder / run_dir)
    return [Cell(values, tuple(runs)) for values, runs in cells.items()]


def write(values: Sequence[float], places: int = 2) -> str:
    """The mean and half of its 95 % interval, without the latter if all values are equal.

    It is empty without values; NaN does not count.
    """
    found = comparison.confidence_interval(values)
    if np.isnan(found.mean):
        return ""
    half = found.high - found.mean
    text = f"{found.mean:.{places}f}"
    return f"{text} ± {half:.{places}f}" if half >= 0.5 * 10**-places else text


def write_table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [titles, ["---"] * len(titles), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
