"""Measure how wrong the rates are that sites measure on their links, and their clocks.

    python benchmarks/estimation_errors.py scenarios/awareness.yaml --set 'topology.loss=0 %'
    python benchmarks/estimation_errors.py scenarios/clocks.yaml --set scheme.awareness.sync_roots=9

It carries out a comparison as `trunkline compare` does, and uses finished runs of the same folder
again. A row is a cell of the comparison. The error of a measurement is relative to the rate that
the link had then. The first measurement of each link does not count, because its connection is
cold. The error of a clock counts after each exchange from `--settled` on. Cells have the mean over
the trials of what each run shows, and half of its 95 % interval.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import cells
import pandas as pd

from trunkline.harness.report.awareness_tables import ClockRow, ProbeRow
from trunkline.harness.study import comparison

FOLDER = Path("comparisons/estimation_errors")
CLOSE_PERCENT = 5
SETTLED_S = 10.0
PLACES = {"measurements": 0, "clock, median, ms": 3, "clock, most, ms": 2}
"""Places after the decimal point; 1 for the other columns."""


def summarize(probes: pd.DataFrame, clocks: pd.DataFrame, settled_s: float) -> dict[str, float]:
    """What the tables of a run show, by the title of the column; NaN without measurements."""
    errors = probes[probes.duplicated(["src", "dst"])]["error_percent"]
    ahead_ms = clocks[clocks["t_s"] >= settled_s]["error_ms"].abs()
    close = (errors.abs() <= CLOSE_PERCENT).mean()
    return {
        "measurements": len(errors),
        "median error, %": errors.median(),
        "tenth percentile": errors.quantile(0.1),
        "ninetieth": errors.quantile(0.9),
        f"within {CLOSE_PERCENT} %": 100 * close,
        "clock, median, ms": ahead_ms.median(),
        "clock, most, ms": ahead_ms.max(),
    }


def read(run_dir: Path, settled_s: float) -> Mapping[str, float]:
    """What a run shows, and its mean task."""
    tables = run_dir / "tables"
    probes, clocks = (pd.read_csv(tables / f"{each.table}.csv") for each in (ProbeRow, ClockRow))
    run = pd.read_csv(tables / "run.csv")
    return summarize(probes, clocks, settled_s) | {"task, s": float(run["task_s"].iloc[0])}


def main() -> None:
    """Run what is missing, and write the table."""
    parser = cells.make_parser(__doc__, FOLDER)
    parser.add_argument("scenario", type=Path, help="a scenario file")
    parser.add_argument("--settled", type=float, default=SETTLED_S, metavar="S", help="in seconds")
    arguments = parser.parse_args()
    keys, found = cells.run(arguments.scenario, arguments)
    of_cells = [[read(run_dir, arguments.settled) for run_dir in cell.runs] for cell in found]
    everything = pd.DataFrame([run for runs in of_cells for run in runs])
    titles = [str(title) for title in everything if everything[title].notna().any()]
    rows = [
        [
            *(f"`{value}`" for value in cell.values),
            *(cells.write([run[t] for run in runs], PLACES.get(t, 1)) for t in titles),
        ]
        for cell, runs in zip(found, of_cells, strict=True)
    ]
    sys.stdout.write(cells.write_table([*map(comparison.describe_key, keys), *titles], rows))


if __name__ == "__main__":
    main()
