"""Measure how much earlier runs end without their faults, beside what `trunkline explain` says.

    python benchmarks/without_faults.py scenarios/two_faults.yaml --vary scheme.p=3,5
    python benchmarks/without_faults.py scenarios/two_faults.yaml --timeline '[{at: 2 s, do: ...}]'
    python benchmarks/without_faults.py scenarios/two_faults.yaml --each

Each cell and seed is run with the timeline and without it, as `trunkline compare` runs them, and
finished runs of the same folder are used again. A row is a cell with a timeline. It has by how much
the last task ended earlier without the timeline, and what the explanation of the run with it says:
the means over the seeds and half of their 95 % intervals, and the largest difference of a seed.

With `--each`, a row is an entry of a timeline. Runs with the entries up to it and with those before
it tell by how much it made the run longer. Seeds in which the explanation does not tell it apart
from another fault are left out.
"""

from __future__ import annotations

import math
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import cells
import yaml

from trunkline.harness.report import outputs
from trunkline.harness.report.explanations.costs.shorter_run import predict_shorter
from trunkline.harness.report.explanations.explained_tasks import explain_latest
from trunkline.harness.study import comparison

FOLDER = Path("comparisons/without_faults")
KEY, NONE = "timeline", "[]"
EACH = ("entry", "seeds", "made the run longer by, s", "the sentence says, s", "mean difference, s")
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


def read_parts(run_dir: Path) -> dict[int, float]:
    """By how much each fault is said to have made a run longer, of those that are told apart."""
    data = outputs.read(run_dir)
    found = explain_latest(data.scenario, data.history, data.tables["tasks"])
    shorter = predict_shorter(data, found)
    parts = () if shorter is None or len(shorter.parts) < 2 else shorter.parts
    return {each.faults[0]: each.seconds for each in parts if len(each.faults) == 1}


def split(timeline: str) -> list[str]:
    """The timelines with the first entry of one, with the first two, and so on."""
    entries = yaml.safe_load(timeline)
    words = [f"{{at: {each['at']}, do: {each['do']}}}" for each in entries]
    return [f"[{', '.join(words[: count + 1])}]" for count in range(len(words))]


def compare_entries(timeline: str, runs: Mapping[str, Sequence[Path]]) -> Iterator[list[str]]:
    """A row for each entry of a timeline, of the runs with each timeline."""
    timelines = [NONE, *split(timeline)]
    ends_s = {each: [measure(run)[0] for run in runs[each]] for each in timelines}
    said = [*map(read_parts, runs[timelines[-1]])]
    for entry, (before, after) in enumerate(pairwise(timelines)):
        own = [
            (b - a, parts[entry])
            for a, b, parts in zip(ends_s[before], ends_s[after], said, strict=True)
            if entry in parts
        ]
        if own:
            longer_s, said_s = zip(*own, strict=True)
            mean_s = sum(abs(b - a) for a, b in own) / len(own)
            text = f"`{yaml.safe_load(timeline)[entry]['do']}`"
            yield [text, str(len(own)), cells.write(longer_s), cells.write(said_s), f"{mean_s:.2f}"]


def main() -> None:
    """Run what is missing, and write the table."""
    parser = cells.make_parser(__doc__, FOLDER)
    parser.add_argument("scenario", type=Path, help="a scenario file with a timeline")
    parser.add_argument("--timeline", action="append", default=[], help="instead of the file's own")
    parser.add_argument("--each", action="store_true", help="a row for each entry of a timeline")
    arguments = parser.parse_args()
    own = yaml.safe_load(arguments.scenario.read_text()).get(KEY)
    timelines = arguments.timeline or [yaml.safe_dump(own, default_flow_style=True, width=9999)]
    timelines = [each.strip() for each in timelines]
    wanted = timelines
    if arguments.each:
        wanted = [*dict.fromkeys(part for each in timelines for part in split(each))]
    arguments.vary.append(f"{KEY}={','.join((NONE, *wanted))}")
    keys, found = cells.run(arguments.scenario, arguments)
    by_cell = defaultdict[tuple[str, ...], dict[str, Sequence[Path]]](dict)
    for cell in found:
        by_cell[cell.values[:-1]][cell.values[-1]] = cell.runs
    rows = []
    for values, runs in by_cell.items():
        head = [f"`{value}`" for value in values]
        for timeline in timelines:
            if arguments.each:
                rows += [[*head, *row] for row in compare_entries(split(timeline)[-1], runs)]
            else:
                row = summarize(runs[timeline], runs[NONE])
                rows.append([*head, f"`{timeline}`", *row])
    titles = [*map(comparison.describe_key, keys[:-1]), *(EACH if arguments.each else TITLES)]
    sys.stdout.write(cells.write_table(titles, rows))


if __name__ == "__main__":
    main()
