"""Measure how much longer than its estimate each task of a run takes: how fast connections warm up.

    python benchmarks/task_by_task.py scenarios/partial_reduce.yaml --vary scheme.plan=crew,ring
    python benchmarks/task_by_task.py scenarios/cold_path.yaml --set 'topology.delays=30 ms'

It carries out a comparison as `trunkline compare` does, and uses finished runs of the same folder
again. A row is a cell of the comparison. Its numbers are the mean of estimate plus latency, and for
every task the measured time over it: the mean over the trials, and half of its 95 % interval.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path

import cells
import numpy as np
import pandas as pd

from trunkline.harness.report.tables.task_tables import TaskRow
from trunkline.harness.study import comparison

FOLDER = Path("comparisons/task_by_task")


def read_tasks(run_dir: Path) -> pd.DataFrame:
    """The completed tasks of a run: `expected_s`, and `multiple`, which is duration over it."""
    tasks = pd.read_csv(run_dir / "tables" / f"{TaskRow.table}.csv")
    tasks = tasks[tasks["outcome"] == "completed"]
    expected_s = tasks["estimate_s"] + tasks["latency_s"]
    return pd.DataFrame({"expected_s": expected_s, "multiple": tasks["duration_s"] / expected_s})


def summarize(runs: Sequence[pd.DataFrame]) -> list[str]:
    """What is expected in the mean, and then the multiple of each task, of runs of one cell."""
    by_task = zip_longest(*(run["multiple"] for run in runs), fillvalue=np.nan)
    expected = [float(run["expected_s"].mean()) for run in runs]
    return [cells.write(expected), *map(cells.write, by_task)]


def main() -> None:
    """Run what is missing, and write the table."""
    parser = cells.make_parser(__doc__, FOLDER)
    parser.add_argument("scenario", type=Path, help="a scenario file")
    arguments = parser.parse_args()
    keys, found = cells.run(arguments.scenario, arguments)
    rows = [
        [*(f"`{value}`" for value in cell.values), *summarize([*map(read_tasks, cell.runs)])]
        for cell in found
    ]
    tasks = max(map(len, rows)) - len(keys) - 1
    titles = [*map(comparison.describe_key, keys), "expected, s"]
    titles += [f"task {number}" for number in range(tasks)]
    sys.stdout.write(cells.write_table(titles, rows))


if __name__ == "__main__":
    main()
