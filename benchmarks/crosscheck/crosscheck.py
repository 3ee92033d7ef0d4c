"""Compare Trunkline's task times with those of ns-3 and of Debian's kernel in real time.

    python benchmarks/crosscheck/crosscheck.py                   measure what is missing
    python benchmarks/crosscheck/crosscheck.py --minutes 60      begin nothing after so long
    python benchmarks/crosscheck/crosscheck.py --only 'pair-*'   of these cases
    python benchmarks/crosscheck/crosscheck.py --table worst     print a table of what was measured

`scenarios/crosscheck/cases.txt` has the cases. A case is a scenario with changes, and its seeds.
The first seed of each case comes before the others, on all sides.
Results are kept in `comparisons/crosscheck/`. One that belongs to other settings, or that other
code made, is made again (`crosscheck_results.py`).
"""

from __future__ import annotations

import argparse
import fnmatch
import math
import multiprocessing
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from concurrent.futures import (
    FIRST_COMPLETED,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
    wait,
)
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path

import against_kernel
import against_ns3
import emulated_machine
import ns3_description
from crosscheck_results import (
    BASELINES,
    CHANGES,
    FOLDER,
    INSTRUCTION_NS,
    MACHINES,
    NS3,
    OURS,
    PACKAGES,
    ROOT,
    SENDERS,
    Case,
    Reads,
    Store,
    list_missing,
    read_all,
    read_cases,
)
from crosscheck_tables import (
    COMPARED,
    compare,
    count_versions,
    draw,
    draw_flows,
    draw_losses,
    draw_sides,
    draw_versions,
)
from guest_runs import COPIED
from iperf_meter import read_flows
from run_result import Result, read_history

from trunkline.harness.config.document import ScenarioErrors
from trunkline.harness.processes.ending import end_by
from trunkline.harness.record.run_folder import describe_version
from trunkline.harness.report import outputs
from trunkline.harness.runs import runner

CASES = ROOT / "scenarios" / "crosscheck" / "cases.txt"
MACHINE_S = 3000.0
TABLES = "summary", "worst", "tasks", "losses", "iperf3", "versions"
"""Those that are not of sides."""

JOBS = 2
"""How many runs, simulations or machines there are at once."""


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


def carry_out(side: str, case: Case, seed: int) -> Result | str:
    """The result of one run or simulation, or why there is none."""
    scenario = case.load(seed, side)
    try:
        if side in SENDERS:
            program = against_ns3.build(against_ns3.find_cache())
            found = against_ns3.simulate(scenario, program, tcp=SENDERS[side])
            return Result("pass", found.tasks_s, found.packets, found.drops)
        done = runner.run(scenario, case.file, FOLDER / "runs", lambda progress: None)
        _, history = outputs.read_history(done.run_dir)
        flows = read_flows(done.run_dir)
        result = read_history(history, done.verdict.outcome, flows, moving=side == OURS)
        shutil.rmtree(done.run_dir)
        return result
    except (RuntimeError, ValueError, OSError, subprocess.SubprocessError) as error:
        return f"{type(error).__name__}: {error}"


@dataclass(frozen=True, slots=True)
class Limits:
    """How many runs, simulations or machines there are at once, and until when they begin.

    Attributes:
        until_s: by the clock `time.monotonic`. What is under way then ends, but for machines: they
            are ended, and the runs that they have carried out count.
    """

    jobs: int = JOBS
    until_s: float = math.inf

    @property
    def left_s(self) -> float:
        """The seconds until then, at least 0."""
        return max(0.0, self.until_s - time.monotonic())


def measure(cases: Sequence[Case], store: Store, sides: Sequence[str], limits: Limits) -> None:
    """Measure what is missing, and say what cannot be measured here."""
    jobs = sorted(list_missing(cases, store, sides), key=itemgetter(1))
    for are_first in (True, False):
        for side in sides:
            missing = [job[:2] for job in jobs if job[2] == side and (job[1] == 1) == are_first]
            if not missing or not limits.left_s:
                continue
            try:
                if side in INSTRUCTION_NS:
                    _measure_in_machines(missing, store, side, limits)
                else:
                    _measure_each(missing, store, side, limits)
            except (against_ns3.NotHereError, emulated_machine.NotHereError) as error:
                _say(f"{side}: not here: {error}")


def _measure_each(
    missing: Sequence[tuple[Case, int]], store: Store, side: str, limits: Limits
) -> None:
    """Measure several at a time, each in a process, which handles the signals of its run."""
    if side in SENDERS:
        against_ns3.build(against_ns3.find_cache())
    left, running = iter(missing), dict[Future[Result | str], tuple[Case, int]]()
    with ProcessPoolExecutor(limits.jobs, multiprocessing.get_context("spawn")) as pool:
        while True:
            while limits.left_s and len(running) < limits.jobs and (job := next(left, None)):
                running[pool.submit(carry_out, side, *job)] = job
            if not running:
                return
            for ended in wait(running, return_when=FIRST_COMPLETED).done:
                (case, seed), result = running.pop(ended), ended.result()
                if isinstance(result, Result):
                    store.write(case, seed, side, result)
                _say(f"{side} {case.name} {seed}: {_write(result)}")


def _measure_in_machines(
    missing: Sequence[tuple[Case, int]], store: Store, side: str, limits: Limits
) -> None:
    """Run these in several machines at once, each with its share of them."""
    package = PACKAGES.get(side, emulated_machine.KERNEL_PACKAGE)

    def one(jobs: Sequence[tuple[Case, int]], number: int) -> None:
        out = FOLDER / f"machine-{number}"
        shutil.rmtree(out, ignore_errors=True)
        named = {f"{case.name}_{seed}": case.load(seed, side) for case, seed in jobs}
        try:
            timeout_s = min(MACHINE_S, limits.left_s)
            against_kernel.run(named, out, timeout_s, INSTRUCTION_NS[side], package)
        except RuntimeError as error:
            _say(f"{side}: {error}")
        for (case, seed), name in zip(jobs, named, strict=True):
            if not (out / name / COPIED).exists():
                _say(f"{side} {name}: no result")
                continue
            try:
                data, flows = outputs.read(out / name), read_flows(out / name)
            except ValueError as error:
                _say(f"{side} {name}: {error}")
                continue
            result = read_history(data.history, data.verdict.outcome, flows, moving=True)
            if result.is_measured:
                store.write(case, seed, side, result)
            _say(f"{side} {name}: {_write(result)}")

    shares = [share for n in range(limits.jobs) if (share := missing[n :: limits.jobs])]
    emulated_machine.prepare(against_ns3.find_cache(), package)
    with ThreadPoolExecutor(limits.jobs) as pool, emulated_machine.ended_at_exit():
        list(pool.map(one, shares, range(len(shares))))


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def _write(result: Result | str) -> str:
    if isinstance(result, str):
        return result
    times = [f"{each:.4f}" for each in result.tasks_s]
    flows = [f"{each.mbps:.3f} Mbit/s in {each.rtt_ms:.3f} ms" for each in result.flows]
    lost = f"{result.drops} of {result.packets} packets lost"
    return f"{result.verdict}, {lost}, {' '.join(times + flows)}"


def measure_all(cases: Sequence[Case], store: Store, sides: Sequence[str], limits: Limits) -> bool:
    """Measure what is missing, and say what is still missing.

    Returns whether nothing is, or the time was up.
    """
    measure(cases, store, sides, limits)
    is_up = not limits.left_s
    found = [*read_all(cases, store, sides)]
    missing = [(case, seed, side) for case, seed, side, result in found if result is None]
    for case, seed, side in () if is_up else missing:
        _say(f"{side} {case.name} {seed}: no result; the same command tries again")
    if is_up:
        for side, count in Counter(side for *_, side in missing).items():
            _say(f"{side}: the time was up before {count} results; the same command goes on")
    counts = count_versions(result for *_, result in found)
    for (version, code), count in counts.items():
        _say(f"results by Trunkline {version or '(not kept)'}, code {code or 'not kept'}: {count}")
    return is_up or not missing


def draw_any(
    name: str, cases: Sequence[Case], store: Store, sides: Collection[str]
) -> tuple[Sequence[str], list[list[str]]]:
    """The titles and the rows of a table; that of iperf3 is of these sides."""
    if name == "losses":
        return draw_losses(cases, store)
    if name == "iperf3":
        return draw_flows(cases, store, [side for side in INSTRUCTION_NS if side in sides])
    if name == "versions":
        return draw_versions(cases, store, CHANGES)
    if name in ("worst", "tasks"):
        return draw(name, [*compare(cases, store, (NS3, *MACHINES))])
    if name == "summary":
        return draw(name, [*compare(cases, store, COMPARED)])
    beside = name.split(",")
    return draw_sides(beside, compare(cases, store, beside))


def main() -> None:
    """Measure what is missing, or print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", default="*", metavar="PATTERN", help="of these cases")
    parser.add_argument("--sides", default=",".join(CHANGES), metavar=",".join(CHANGES))
    parser.add_argument("--jobs", type=int, default=JOBS, help="how many at once")
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin nothing later")
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--again", action="store_true", help="also what another version of Trunkline measured"
    )
    which.add_argument(
        "--keep", action="store_true", help="not what other code measured, only what is missing"
    )
    parser.add_argument(
        "--table", metavar="NAME", help=f"{', '.join(TABLES)}, or sides as in --sides"
    )
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
    table = arguments.table
    if table not in (None, *TABLES) and not {*table.split(",")} <= {*BASELINES}:
        parser.error(f"--table {table}: expected {', '.join(TABLES)}, or of {', '.join(BASELINES)}")
    if arguments.jobs < 1:
        parser.error(f"--jobs {arguments.jobs}: expected 1 or more")
    if not arguments.minutes > 0:
        parser.error(f"--minutes {arguments.minutes}: expected more than 0")
    version = " ".join(filter(None, describe_version().values()))
    if table is None:
        if problems := [*list_problems(chosen)]:
            parser.error("\n".join((f"{arguments.cases}:", *problems)))
        reads: Reads = "version" if arguments.again else "all" if arguments.keep else "code"
        store = Store(FOLDER, version, reads)
        end_by(signal.SIGTERM)  # like Ctrl-C, it ends what was begun
        limits = Limits(arguments.jobs, time.monotonic() + 60 * arguments.minutes)
        sys.exit(not measure_all(chosen, store, sides, limits))
    titles, rows = draw_any(table, chosen, Store(FOLDER, version), sides)
    lines = [titles, ["---"] * len(titles), *rows]
    sys.stdout.write("".join(f"| {' | '.join(line)} |\n" for line in lines))


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
