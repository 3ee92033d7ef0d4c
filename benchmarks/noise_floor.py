r"""Measure the noise floor of a result: how much a difference moves it that should not matter.

    python benchmarks/noise_floor.py scenarios/paper/netstorm/dynamic.yaml \
        --vary scheme.name=netstorm-lite,netstorm-std \
        --harmless 'failover={heartbeat: 60 s},{heartbeat: 61 s}'

A run repeats exactly, so the same run again shows no noise. Instead, every network (seed) has one
run for each value of `--harmless`, which must not matter to the schemes. A message that leaves
earlier or later moves others by microseconds. Where decisions depend on measurements, some turn out
differently, and the rest of the run with them.

It carries out a comparison as `trunkline compare` does, and uses finished runs of the same folder
again. A row is a cell of the comparison. Its numbers are the metric, as a mean over the networks
and half of its 95 % interval; its standard deviation among the runs of one network, in percent (the
root of the mean square over the networks), and the largest difference; the largest difference
among the means over all networks that have the same value of `--harmless`; and in how many networks
all runs are below all of the first cell, in how many all are above, and in how many neither.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import cells
import numpy as np
import numpy.typing as npt
import pandas as pd

from trunkline.harness.report.tables.run_table import RunRow
from trunkline.harness.study import comparison

FOLDER = Path("comparisons/noise_floor")


def describe(values: npt.NDArray[np.float64], first: npt.NDArray[np.float64]) -> list[str]:
    """The numbers of a cell.

    Args:
        values: the metric, one row for each network, one column for each harmless difference.
        first: the same of the first cell.
    """
    means = values.mean(axis=1)
    deviations = values.std(axis=1, ddof=1) / means
    spans = values.max(axis=1) / values.min(axis=1) - 1
    overall = values.mean(axis=0)
    below = int((values.max(axis=1) < first.min(axis=1)).sum())
    above = int((values.min(axis=1) > first.max(axis=1)).sum())
    return [
        cells.write(means, 1),
        f"{100 * np.sqrt((deviations**2).mean()):.1f}",
        f"{100 * spans.max():.1f}",
        f"{100 * (overall.max() / overall.min() - 1):.1f}",
        "" if values is first else f"{below}, {above}, {len(values) - below - above}",
    ]


def read_metric(runs: Sequence[Path], metric: str) -> list[float]:
    """A column of tables/run.csv, of each run."""
    return [
        float(pd.read_csv(run / "tables" / f"{RunRow.table}.csv")[metric].iloc[0]) for run in runs
    ]


def main() -> None:
    """Run what is missing, and write the table."""
    parser = cells.make_parser(__doc__, FOLDER)
    parser.add_argument("scenario", type=Path, help="a scenario file")
    parser.add_argument(
        "--harmless", required=True, metavar="KEY=VALUE,VALUE,...", help="what must not matter"
    )
    parser.add_argument("--metric", default="task_s", help="a column of tables/run.csv")
    arguments = parser.parse_args()
    arguments.vary.append(arguments.harmless)
    keys, found = cells.run(arguments.scenario, arguments)
    columns: dict[tuple[str, ...], list[list[float]]] = {}
    for cell in found:
        by_network = read_metric(cell.runs, arguments.metric)
        columns.setdefault(cell.values[:-1], []).append(by_network)
    first, *_ = tables = [np.array(each).T for each in columns.values()]
    rows = [
        [*(f"`{value}`" for value in values), *describe(table, first)]
        for values, table in zip(columns, tables, strict=True)
    ]
    titles = [*map(comparison.describe_key, keys[:-1]), arguments.metric]
    titles += ["deviation, %", "largest difference, %", "of the means, %", "below, above, neither"]
    sys.stdout.write(cells.write_table(titles, rows))


if __name__ == "__main__":
    main()
