"""Measure how much longer an update takes than the fluid model of the same run predicts.

    python benchmarks/over_fluid.py scenarios/parameter_servers.yaml --vary scheme.name=ps-asp,r2sp

It carries out a comparison as `trunkline compare` does, and uses finished runs of the same folder
again. A row is a cell of the comparison. Its numbers are the updates of a run, and the measured
time per update over the predicted one, without and with the delays of paths: the mean over the
trials, and half of its 95 % interval.
"""

from __future__ import annotations

import sys
from pathlib import Path

import cells
import pandas as pd

from trunkline.harness.fluid import fluid_run
from trunkline.harness.report.tables.run_table import RunRow
from trunkline.harness.scenario.loading import load
from trunkline.harness.study import comparison

FOLDER = Path("comparisons/over_fluid")


def read_run(run_dir: Path) -> tuple[float, float, float]:
    """The updates of a run, and its time per update over both predictions.

    Raises SystemExit if the fluid model cannot predict the run.
    """
    run = pd.read_csv(run_dir / "tables" / f"{RunRow.table}.csv").iloc[0]
    scenario = load(run_dir / "resolved.yaml")
    ratios = []
    for delays in (False, True):
        predicted = fluid_run.predict(scenario, delays)
        if predicted is None:
            raise SystemExit(f"{run_dir}: the fluid model cannot predict this scenario")
        ratios.append(run["update_s"] / predicted.update_s)
    return run["updates"], *ratios


def main() -> None:
    """Run what is missing, and write the table."""
    parser = cells.make_parser(__doc__, FOLDER)
    parser.add_argument("scenario", type=Path, help="a scenario file")
    arguments = parser.parse_args()
    keys, found = cells.run(arguments.scenario, arguments)
    rows = []
    for cell in found:
        updates, *ratios = zip(*map(read_run, cell.runs), strict=True)
        numbers = [cells.write(updates, 0), *(cells.write(each, 3) for each in ratios)]
        rows.append([*(f"`{value}`" for value in cell.values), *numbers])
    titles = [*map(comparison.describe_key, keys), "updates", "over the model without delays"]
    sys.stdout.write(cells.write_table([*titles, "over the model with delays"], rows))


if __name__ == "__main__":
    main()
