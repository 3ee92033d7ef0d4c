"""Compare Trunkline's task times with those of ns-3 and of Debian's kernel in real time.

    python benchmarks/crosscheck/crosscheck.py                   measure what is missing (an hour)
    python benchmarks/crosscheck/crosscheck.py --only 'pair-*'   of these cases
    python benchmarks/crosscheck/crosscheck.py --table worst     print a table of what was measured

`scenarios/crosscheck/cases.txt` has the cases. A case is a scenario with changes, and its seeds.
Results are kept in `comparisons/crosscheck/`; one that belongs to other settings is made again.
"""

from __future__ import annotations

import argparse
import fnmatch
import hashlib
import json
import math
import multiprocessing
import re
import shlex
import shutil
import statistics
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import against_kernel
import against_ns3
import emulated_machine
import ns3_description

from trunkline.agents.events.run_events import RunFinished
from trunkline.agents.events.task_events import Received, Sent
from trunkline.harness.config.document import ScenarioErrors
from trunkline.harness.record.history import History, Task
from trunkline.harness.record.run_folder import describe_version
from trunkline.harness.report import outputs
from trunkline.harness.runs import runner
from trunkline.harness.scenario.loading import load, resolve
from trunkline.harness.scenario.settings import Scenario
from trunkline.harness.study.comparison import confidence_interval

ROOT = Path(__file__).resolve().parents[2]
CASES = ROOT / "scenarios" / "crosscheck" / "cases.txt"
FOLDER = ROOT / "comparisons" / "crosscheck"
DESCRIPTION = Path(ns3_description.__file__)
KERNEL_TASKS = 4
"""Debian's kernel carries out the first tasks of a case only, because they take long there."""

OURS, UNPACED, NS3, KERNEL = "trunkline", "trunkline unpaced", "ns-3", "kernel"
HALF_SPEED = "kernel at half speed"
CHANGES: Mapping[str, tuple[str, ...]] = {
    OURS: (),
    UNPACED: ("network.pacing=false",),
    NS3: ("network.pacing=false",),
    KERNEL: (f"stop.tasks={KERNEL_TASKS}", *against_kernel.CHANGES),
    HALF_SPEED: (f"stop.tasks={KERNEL_TASKS}", *against_kernel.CHANGES),
}
"""What each side changes in a case. When ns-3 paces, it loses its retransmissions."""

BASELINES = {NS3: UNPACED, KERNEL: OURS, HALF_SPEED: OURS}
"""The runs of ours that another side is compared with."""

INSTRUCTION_NS = {KERNEL: 1, HALF_SPEED: 2}
"""The sides that are emulated machines, and how long an instruction takes there."""

WHERE = {
    "ns3": (NS3,),
    "kernel": (KERNEL,),
    "both": (NS3, KERNEL),
    "speeds": (NS3, KERNEL, HALF_SPEED),
}
"""What a line of the table of cases says -> the sides."""

WORST = 10
MACHINE_S = 3000.0
JOBS = 2
"""How many runs, simulations or machines there are at once."""


@dataclass(frozen=True, slots=True)
class Case:
    """A line of the table of cases.

    Attributes:
        seeds: how many seeds it is run with; one if nothing in it is random. Packets are lost at
            random, and a mesh has the rates and delays of its seed.
        on_kernel: with how many of them it runs on Debian's kernel, and of ours beside it.
        sides: the other sides that it runs on.
    """

    name: str
    file: Path
    seeds: int
    on_kernel: int
    sides: tuple[str, ...]
    changes: tuple[str, ...]

    def load(self, seed: int, side: str) -> Scenario:
        """The scenario with this seed, as a side runs it."""
        return load(self.file, (f"name={self.name}", *self.changes, *CHANGES[side]), seed)


@dataclass(frozen=True, slots=True)
class Result:
    """What one side measured.

    Attributes:
        tasks_s: the times of the tasks. On Debian's kernel, and of our runs beside it, from the
            first byte that is sent to the last one that arrives: its processor is slow.
        packets: the packets that were carried, and `drops` those that were lost.
        version: that of the Trunkline that ran or described it.
    """

    verdict: str
    tasks_s: tuple[float, ...]
    packets: int
    drops: int
    version: str = ""

    @property
    def is_sound(self) -> bool:
        """Whether the run did not fail."""
        return self.verdict != "fail"

    @property
    def cold_s(self) -> float:
        """The time of the first task."""
        return self.tasks_s[0]

    @property
    def warm_s(self) -> float:
        """The mean time of the later half of the tasks."""
        return statistics.fmean(self.tasks_s[len(self.tasks_s) // 2 :])

    @property
    def share_lost(self) -> float:
        """The share of packets that were lost."""
        return self.drops / (self.packets + self.drops)

    def first(self, count: int) -> Result:
        """The result without the tasks after the first ones; they do not change what was before."""
        return replace(self, tasks_s=self.tasks_s[:count])


def read_cases(text: str, folder: Path) -> list[Case]:
    """Read the table of cases: NAME FILE SEEDS ns3|kernel|both|speeds CHANGE ... on each line."""
    cases = []
    for line in text.splitlines():
        try:
            words = shlex.split(line, comments=True)
        except ValueError as error:
            raise ValueError(f"{line!r}: {error}") from error
        if not words:
            continue
        seeds = re.fullmatch(r"([1-9]\d*)(?:/([1-9]\d*))?", words[2]) if len(words) > 3 else None
        if seeds is None or words[3] not in WHERE:
            known = "|".join(WHERE)
            raise ValueError(f"{line!r}: expected NAME FILE SEEDS {known} KEY=VALUE ...")
        name, file, _, where, *changes = words
        counts = int(seeds[1]), int(seeds[2] or seeds[1])
        if counts[1] > counts[0]:
            raise ValueError(f"{line!r}: more seeds on Debian's kernel than in all")
        cases.append(Case(name, folder / file, *counts, WHERE[where], tuple(changes)))
    names = [case.name for case in cases]
    if repeated := {name for name in names if names.count(name) > 1}:
        raise ValueError(f"cases: {', '.join(sorted(repeated))}: given twice")
    return cases


def list_problems(cases: Iterable[Case]) -> Iterator[str]:
    """What is wrong with the scenarios of cases, by their names."""
    for case in cases:
        try:
            for side in {BASELINES[each] for each in case.sides} | {*case.sides}:
                case.load(1, side)
            if NS3 in case.sides:
                made = ns3_description.describe(case.load(1, NS3))
                made.write({}, [*ns3_description.list_faults(made)])
        except (ScenarioErrors, OSError, ns3_description.CannotDescribeError) as error:
            yield f"{case.name}: {error}"


def read_history(history: History, verdict: str, *, moving: bool) -> Result:
    """The result of a run; `moving` times are from a task's first byte to its last."""
    ended = [task for task in history.tasks if task.end_ns]
    if moving:
        times = tuple(_find_moving_s(task) for task in ended)
    else:
        times = tuple(task.duration_s or math.nan for task in ended)
    links = [link for end in history.all(RunFinished) for link in end.links]
    packets, drops = sum(x.packets for x in links), sum(x.drops for x in links)
    return Result(verdict, times, packets, drops)


def _find_moving_s(task: Task) -> float:
    begun_ns = min(sent.start_ns for sent in task.all(Sent))
    return (max(received.end_ns for received in task.all(Received)) - begun_ns) / 1e9


def carry_out(side: str, case: Case, seed: int) -> Result | str:
    """The result of one run or simulation, or why there is none."""
    scenario = case.load(seed, side)
    try:
        if side == NS3:
            found = against_ns3.simulate(scenario, against_ns3.build(against_ns3.find_cache()))
            return Result("pass", found.tasks_s, found.packets, found.drops)
        done = runner.run(scenario, case.file, FOLDER / "runs", lambda progress: None)
        _, history = outputs.read_history(done.run_dir)
        result = read_history(history, done.verdict.outcome, moving=side == OURS)
        shutil.rmtree(done.run_dir)
        return result
    except (RuntimeError, ValueError, OSError, subprocess.SubprocessError) as error:
        return f"{type(error).__name__}: {error}"


@dataclass(frozen=True, slots=True)
class Store:
    """The results on the disk, each with the mark of what made it.

    `version` is that of this Trunkline. With `is_strict`, only its results are read.
    """

    folder: Path
    version: str = ""
    is_strict: bool = False

    def read(self, case: Case, seed: int, side: str) -> Result | None:
        """A result; None if there is none of the present scenario."""
        path = self._path(case, seed, side)
        if not path.exists():
            return None
        found = json.loads(path.read_text())
        if found.pop("of") != _mark(case.load(seed, side), side):
            return None
        result = Result(**{**found, "tasks_s": tuple(found["tasks_s"])})
        return result if not self.is_strict or result.version == self.version else None

    def write(self, case: Case, seed: int, side: str, result: Result) -> None:
        """Keep a result."""
        path = self._path(case, seed, side)
        path.parent.mkdir(parents=True, exist_ok=True)
        kept = asdict(replace(result, version=self.version))
        path.write_text(json.dumps({"of": _mark(case.load(seed, side), side), **kept}))

    def results(self, case: Case, side: str) -> dict[int, Result]:
        """The results of all seeds that there are, without failed runs."""
        found = ((seed, self.read(case, seed, side)) for seed in seeds_of(case, side))
        return {seed: each for seed, each in found if each and each.tasks_s and each.is_sound}

    def _path(self, case: Case, seed: int, side: str) -> Path:
        return self.folder / case.name / f"{side}-{seed}.json"


def _mark(scenario: Scenario, side: str) -> str:
    source = against_ns3.hash_source() + DESCRIPTION.read_text() if side == NS3 else ""
    return hashlib.sha256((resolve(scenario) + source).encode()).hexdigest()[:16]


def seeds_of(case: Case, side: str) -> range:
    """The seeds of a case on a side."""
    return range(1, (case.seeds if side in (NS3, UNPACED) else case.on_kernel) + 1)


def read_all(
    cases: Iterable[Case], store: Store, sides: Iterable[str]
) -> Iterator[tuple[Case, int, str, Result | None]]:
    """The results of these sides; None where one has not been measured."""
    for side in sides:
        those = {side, *(other for other, ours in BASELINES.items() if ours == side)}
        for case in cases:
            for seed in seeds_of(case, side) if those & {*case.sides} else ():
                yield case, seed, side, store.read(case, seed, side)


def list_missing(
    cases: Iterable[Case], store: Store, sides: Iterable[str]
) -> Iterator[tuple[Case, int, str]]:
    """What these sides have not measured."""
    for case, seed, side, result in read_all(cases, store, sides):
        if result is None:
            yield case, seed, side


def count_versions(results: Iterable[Result | None]) -> Mapping[str, int]:
    """How many results each version of Trunkline made."""
    return Counter(result.version for result in results if result is not None)


def measure(cases: Sequence[Case], store: Store, sides: Iterable[str], jobs: int) -> None:
    """Measure what is missing, and say what cannot be measured here."""
    for side in sides:
        found = ((case, seed) for case, seed, _ in list_missing(cases, store, (side,)))
        missing = sorted(found, key=lambda job: job[1])
        try:
            if side in INSTRUCTION_NS:
                _measure_in_machines(missing, store, side, jobs)
            else:
                _measure_each(missing, store, side, jobs)
        except (against_ns3.NotHereError, emulated_machine.NotHereError) as error:
            _say(f"{side}: not here: {error}")


def _measure_each(missing: Sequence[tuple[Case, int]], store: Store, side: str, jobs: int) -> None:
    """Measure several at a time, each in a process, which handles the signals of its run."""
    if side == NS3:
        against_ns3.build(against_ns3.find_cache())
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
        begun = {pool.submit(carry_out, side, *each): each for each in missing}
        for job in as_completed(begun):
            case, seed = begun[job]
            result = job.result()
            if isinstance(result, Result):
                store.write(case, seed, side, result)
            _say(f"{side} {case.name} {seed}: {_write(result)}")


def _measure_in_machines(
    missing: Sequence[tuple[Case, int]], store: Store, side: str, machines: int
) -> None:
    """Run these in several machines at once, each with its share of them."""

    def one(jobs: Sequence[tuple[Case, int]], number: int) -> None:
        out = FOLDER / f"machine-{number}"
        shutil.rmtree(out, ignore_errors=True)
        named = {f"{case.name}_{seed}": case.load(seed, side) for case, seed in jobs}
        try:
            against_kernel.run(named, out, MACHINE_S, INSTRUCTION_NS[side])
        except RuntimeError as error:
            _say(f"{side}: {error}")
        for (case, seed), name in zip(jobs, named, strict=True):
            if not (out / name / "events.jsonl").exists():
                _say(f"{side} {name}: no result")
                continue
            data = outputs.read(out / name)
            result = read_history(data.history, data.verdict.outcome, moving=True)
            if result.tasks_s:
                store.write(case, seed, side, result)
            _say(f"{side} {name}: {_write(result)}")

    shares = [share for n in range(machines) if (share := missing[n::machines])]
    if shares:
        emulated_machine.prepare(against_ns3.find_cache())
    with ThreadPoolExecutor(machines) as pool:
        list(pool.map(one, shares, range(len(shares))))


@dataclass(frozen=True, slots=True)
class Difference:
    """A case on another side beside Trunkline: both means, and the difference in percent.

    `singles` are the differences of its seeds.
    """

    case: Case
    side: str
    what: str
    ours: str
    other: str
    percent: float
    half: float
    singles: tuple[float, ...]

    def write(self) -> list[str]:
        """A row of a table."""
        text = f"{self.percent:+.1f}" + (f" ± {self.half:.1f}" if self.half >= 0.05 else "")
        return [f"`{self.case.name}`", self.side, self.what, self.ours, self.other, text]


QUANTITIES: Mapping[str, Callable[[Result], float]] = {
    "first task": lambda result: result.cold_s,
    "later tasks": lambda result: result.warm_s,
}


def compare(cases: Iterable[Case], store: Store, sides: Iterable[str]) -> Iterator[Difference]:
    """Compare all that both sides have measured, seed by seed."""
    for case in cases:
        for side in (each for each in sides if each in case.sides):
            ours, others = store.results(case, BASELINES[side]), store.results(case, side)
            if pairs := [(ours[seed], others[seed]) for seed in ours if seed in others]:
                count = min(len(each.tasks_s) for pair in pairs for each in pair)
                firsts = [(first.first(count), second.first(count)) for first, second in pairs]
                doubt = "" if all(each.verdict == "pass" for _, each in pairs) else " (unknown)"
                for what, value in QUANTITIES.items():
                    values = [(value(first), value(second)) for first, second in firsts]
                    yield _compare(case, side, what, values, doubt)


def _compare(
    case: Case, side: str, what: str, values: Sequence[tuple[float, float]], doubt: str
) -> Difference:
    """The mean of the seeds' differences, and its interval; `doubt` stands behind the other's."""
    singles = tuple(100 * (other / ours - 1) for ours, other in values)
    percents = confidence_interval(singles)
    half = 0.0 if math.isnan(percents.high) else percents.high - percents.mean
    mine, theirs = (f"{statistics.fmean(each):.3f}" for each in zip(*values, strict=True))
    return Difference(case, side, what, mine, theirs + doubt, percents.mean, half, singles)


def _write(result: Result | str) -> str:
    if isinstance(result, str):
        return result
    times = " ".join(f"{each:.4f}" for each in result.tasks_s)
    return f"{result.verdict}, {result.drops} of {result.packets} packets lost, {times}"


TITLES = ("case", "side", "what", "Trunkline, s", "the other, s", "difference, %")


def draw(name: str, found: Sequence[Difference]) -> tuple[Sequence[str], list[list[str]]]:
    """The titles and the rows of a table."""
    if name == "summary":
        titles = (
            "side", "what", "cases", "median, %", "95th percentile, %", "largest, %",
            "of single seeds: median, %", "95th percentile, %", "largest, %",
        )  # fmt: skip
        groups: dict[tuple[str, str], list[Difference]] = {}
        for side in (NS3, KERNEL, None):
            for each in found:
                if side in (each.side, None):
                    groups.setdefault((side or "both", each.what), []).append(each)
        return titles, [[*key, *_summarize(those)] for key, those in groups.items()]
    if name == "worst":
        chosen = sorted(found, key=lambda each: -abs(each.percent))[:WORST]
        return TITLES, [each.write() for each in chosen]
    return TITLES, [each.write() for each in found if each.side == name]


def draw_losses(cases: Iterable[Case], store: Store) -> tuple[Sequence[str], list[list[str]]]:
    """The shares of packets that were lost at random on Debian's kernel and beside it."""
    rows = []
    for case in (each for each in cases if any("loss=" in change for change in each.changes)):
        ours, others = store.results(case, OURS), store.results(case, KERNEL)
        seeds = ours.keys() & others.keys()
        shares = [
            confidence_interval([100 * side[seed].share_lost for seed in seeds])
            for side in (ours, others)
        ]
        if seeds:
            texts = (
                f"{x.mean:.2f}" + ("" if math.isnan(x.high) else f" ± {x.high - x.mean:.2f}")
                for x in shares
            )
            rows.append([f"`{case.name}`", str(len(seeds)), *texts])
    return ("case", "seeds", "Trunkline, %", "Debian's kernel, %"), rows


def _summarize(found: Sequence[Difference]) -> list[str]:
    cases = [abs(each.percent) for each in found]
    singles = [abs(percent) for each in found for percent in each.singles]
    numbers = *_rank(cases), max(cases), *_rank(singles), max(singles)
    return [str(len(cases)), *(f"{each:.1f}" for each in numbers)]


def _rank(values: Sequence[float]) -> tuple[float, float]:
    """The median and the 95th percentile."""
    ranked = sorted(values)
    high = ranked[min(len(ranked) - 1, math.ceil(0.95 * len(ranked)) - 1)]
    return statistics.median(ranked), high


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def main() -> None:
    """Measure what is missing, or print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", default="*", metavar="PATTERN", help="of these cases")
    parser.add_argument("--sides", default=",".join(CHANGES), metavar=",".join(CHANGES))
    parser.add_argument("--jobs", type=int, default=JOBS, help="how many at once")
    parser.add_argument(
        "--again", action="store_true", help="also what another version of Trunkline measured"
    )
    parser.add_argument("--table", choices=("summary", "worst", "losses", *BASELINES))
    parser.add_argument("--cases", type=Path, default=CASES, help="another table of cases")
    arguments = parser.parse_args()
    try:
        cases = read_cases(arguments.cases.read_text(), arguments.cases.parent)
    except (ValueError, OSError) as error:
        parser.error(f"{arguments.cases}: {error}")
    chosen = [case for case in cases if fnmatch.fnmatch(case.name, arguments.only)]
    sides = arguments.sides.split(",")
    if not chosen:
        parser.error(f"--only {arguments.only}: no case has such a name")
    if unknown := {*sides} - {*CHANGES}:
        parser.error(f"--sides: {', '.join(sorted(unknown))}: expected {', '.join(CHANGES)}")
    if arguments.jobs < 1:
        parser.error(f"--jobs {arguments.jobs}: expected 1 or more")
    store = Store(FOLDER, " ".join(filter(None, describe_version().values())), arguments.again)
    if arguments.table is None:
        if problems := [*list_problems(chosen)]:
            parser.error("\n".join((f"{arguments.cases}:", *problems)))
        measure(chosen, store, sides, arguments.jobs)
        found = [*read_all(chosen, store, sides)]
        missing = [(case, seed, side) for case, seed, side, result in found if result is None]
        for case, seed, side in missing:
            _say(f"{side} {case.name} {seed}: no result; the same command tries again")
        for version, count in count_versions(result for *_, result in found).items():
            _say(f"results by Trunkline {version or '(not kept)'}: {count}")
        sys.exit(bool(missing))
    if arguments.table == "losses":
        titles, rows = draw_losses(chosen, store)
    else:
        compared = (HALF_SPEED,) if arguments.table == HALF_SPEED else (NS3, KERNEL)
        titles, rows = draw(arguments.table, [*compare(chosen, store, compared)])
    lines = [titles, ["---"] * len(titles), *rows]
    sys.stdout.write("".join(f"| {' | '.join(line)} |\n" for line in lines))


if __name__ == "__main__":
    main()
