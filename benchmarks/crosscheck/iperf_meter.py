"""Let iperf3 measure goodput, round trips and retransmissions on two kernels.

    python benchmarks/crosscheck/iperf_meter.py             measure what is missing
    python benchmarks/crosscheck/iperf_meter.py --table     print what was measured

iperf3 knows nothing of Trunkline, and reads the round trips and the retransmissions from the kernel
that it runs on: the embedded one on the virtual clock, and that of Debian in real time. The cases
are in `scenarios/crosscheck/iperf3_cases.txt`.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import against_kernel
from crosscheck_results import FOLDER, KERNEL, OURS, ROOT, Case, read_cases, seeds_of
from crosscheck_tables import Difference, make_difference

from trunkline.harness.runs import runner
from trunkline.harness.scenario.loading import load
from trunkline.harness.scenario.settings import Scenario
from trunkline.harness.study.comparison import confidence_interval

CASES = ROOT / "scenarios" / "crosscheck" / "iperf3_cases.txt"
REPORT = Path("log", "n1.client.out")
MACHINE_S = 1800.0


@dataclass(frozen=True, slots=True)
class Reading:
    """What the sending iperf3 reported: Mbit/s that arrived, ms, and packets that it sent again."""

    mbps: float
    rtt_ms: float
    again: int

    @classmethod
    def of(cls, report: str) -> Reading:
        """Read a report of `iperf3 -J`."""
        end = json.loads(report)["end"]
        sender = end["streams"][0]["sender"]
        arrived = end["sum_received"]["bits_per_second"]
        return cls(arrived / 1e6, sender["mean_rtt"] / 1e3, sender["retransmits"])


QUANTITIES: Mapping[str, Callable[[Reading], float]] = {
    "goodput, Mbit/s": lambda reading: reading.mbps,
    "mean round trip, ms": lambda reading: reading.rtt_ms,
    "packets sent again": lambda reading: reading.again,
}


def measure(cases: Sequence[Case], folder: Path) -> None:
    """Measure what is missing, first here, then all in one machine."""
    jobs = [(case, seed) for case in cases for seed in seeds_of(case, KERNEL)]
    for case, seed in jobs:
        if not _path(folder, case, seed, OURS).exists():
            done = runner.run(_load(case, seed), case.file, folder / "runs", lambda progress: None)
            _keep(done.run_dir, _path(folder, case, seed, OURS))
            shutil.rmtree(done.run_dir)
    missing = [job for job in jobs if not _path(folder, *job, KERNEL).exists()]
    out = folder / "machine"
    shutil.rmtree(out, ignore_errors=True)
    named = {f"{case.name}_{seed}": _load(case, seed, KERNEL) for case, seed in missing}
    if named:
        against_kernel.run(named, out, MACHINE_S)
    for (case, seed), name in zip(missing, named, strict=True):
        _keep(out / name, _path(folder, case, seed, KERNEL))


def _load(case: Case, seed: int, side: str = OURS) -> Scenario:
    changes = against_kernel.CHANGES if side == KERNEL else ()
    return load(case.file, (f"name={case.name}", *case.changes, *changes), seed)


def _path(folder: Path, case: Case, seed: int, side: str) -> Path:
    return folder / case.name / f"{side}-{seed}.json"


def _keep(run: Path, path: Path) -> None:
    reading = Reading.of((run / REPORT).read_text())
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(asdict(reading)))
    sys.stderr.write(f"{path.parent.name} {path.stem}: {reading}\n")


def _read_pairs(case: Case, folder: Path) -> list[list[Reading]]:
    """What both kernels measured, of each seed that both have measured."""
    paths = [
        [_path(folder, case, n, side) for side in (OURS, KERNEL)] for n in seeds_of(case, KERNEL)
    ]
    return [
        [Reading(**json.loads(path.read_text())) for path in pair]
        for pair in paths
        if all(path.exists() for path in pair)
    ]


def list_goodputs() -> Iterator[Difference]:
    """How goodputs differ, for a table with the differences of tasks."""
    for case in read_cases(CASES.read_text(), CASES.parent):
        if pairs := _read_pairs(case, FOLDER / "iperf3"):
            values = [(ours.mbps, theirs.mbps) for ours, theirs in pairs]
            yield make_difference(case, KERNEL, "goodput, Mbit/s", values, "")


def draw(cases: Sequence[Case], folder: Path) -> Iterator[list[str]]:
    """The rows of the table: means of the seeds, and the mean of their differences."""
    for case in cases:
        pairs = _read_pairs(case, folder)
        for what, value in QUANTITIES.items() if pairs else ():
            ours, theirs = ([value(each) for each in side] for side in zip(*pairs, strict=True))
            means = [statistics.fmean(each) for each in (ours, theirs)]
            found = confidence_interval([b - a for a, b in zip(ours, theirs, strict=True)])
            text = f"{found.mean:+.2f}"
            if len(pairs) > 1:
                text += f" ± {found.high - found.mean:.2f}"
            yield [f"`{case.name}`", what, *(f"{each:.2f}" for each in means), text]


def main() -> None:
    """Measure, or print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--table", action="store_true")
    arguments = parser.parse_args()
    cases, folder = read_cases(CASES.read_text(), CASES.parent), FOLDER / "iperf3"
    if not arguments.table:
        measure(cases, folder)
        return
    titles = ["case", "what", "Trunkline", "Debian's kernel", "difference"]
    lines = [titles, ["---"] * len(titles), *draw(cases, folder)]
    sys.stdout.write("".join(f"| {' | '.join(line)} |\n" for line in lines))


if __name__ == "__main__":
    main()
