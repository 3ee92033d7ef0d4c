"""Measure how much earlier runs end without their faults, beside what `trunkline explain` says.

    python benchmarks/without_faults.py scenarios/two_faults.yaml --vary scheme.p=3,5
    python benchmarks/without_faults.py scenarios/two_faults.yaml --timeline '[{at: 2 s, do: ...}]'

Each cell and seed is run with the timeline and without it, as `trunkline compare` runs them, and
finished runs of the same folder are used again. A row is a cell with a timeline. It has by how much
the last task ended earlier without the timeline, and what the explanation of the run with it says:
the means over the seeds and half of their 95 % intervals, and the largest difference of a seed.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from pathlib import Path

import cells
import yaml

from trunkline.harness.report import outputs
from trunkline.harness.report.explanations.costs.shorter_run import predict_shorter
from trunkline.harness.report.explanations.explanation import explain_latest
from trunkline.harness.study import comparison

FOLDER = Path("comparisons/without_faults")
KEY, NONE = "timeline", "[]"
TITLES = ("timeline", "ended earlier by, s", "the sentence says, s", "largest difference, s")


def measure(run_dir: Path) -> tuple[float, float]:
    """When the last task of a run ended, and how much earlier it is said to end without faults."""
    data = outputs.read(run_dir)
    ends_ns = [task.end_ns for task in data.history.tasks if task.end_ns is not None]
    found = explain_latest(data.scenario, data.history, data.tables["tasks"])
    shorter = predict_shorter(data, found)
    return max(ends_ns) / 1e9, math.nan if shorter is None else shorter.earlier_s


def summarize(faulty: Sequence[Path], whole: Sequence[Path]) -> list[str]:
    """The numbers of a row: what was measured, what is said, and the largest difference."""
    measured = [*map(measure, faulty)]
    ended_s = [measure(run)[0] for run in whole]
    earlier_s = [a - b for (a, _), b in zip(measured, ended_s, strict=True)]
    said_s = [said for _, said in measured]
    worst_s = max((b - a for a, b in zip(earlier_s, said_s, strict=True)), key=abs)
    return [cells.write(earlier_s), cells.write(said_s), f"{worst_s:+.2f}"]


def main() -> None:
    """Run what is missing, and write the table."""
    parser = cells.make_parser(__doc__, FOLDER)
    parser.add_argument("scenario", type=Path, help="a scenario file with a timeline")
    parser.add_argument("--timeline", action="append", default=[], help="instead of the file's own")
    arguments = parser.parse_args()
    own = yaml.safe_load(arguments.scenario.read_text()).get(KEY)
    timelines = arguments.timeline or [yaml.safe_dump(own, default_flow_style=True, width=9999)]
    arguments.vary.append(f"{KEY}={','.join(each.strip() for each in (NONE, *timelines))}")
    keys, found = cells.run(arguments.scenario, arguments)
    whole = {cell.values[:-1]: cell.runs for cell in found if cell.values[-1] == NONE}
    rows = [
        [*(f"`{value}`" for value in cell.values), *summarize(cell.runs, whole[cell.values[:-1]])]
        for cell in found
        if cell.values[-1] != NONE
    ]
    titles = [*map(comparison.describe_key, keys[:-1]), *TITLES]
    sys.stdout.write(cells.write_table(titles, rows))


if __name__ == "__main__":
    main()
