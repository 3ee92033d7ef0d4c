"""Compare Trunkline's task times with those of ns-3 and of Debian's kernel in real time.

    python benchmarks/crosscheck/crosscheck.py                   measure what is missing (an hour)
    python benchmarks/crosscheck/crosscheck.py --only 'pair-*'   of these cases
    python benchmarks/crosscheck/crosscheck.py --table worst     print a table of what was measured

`scenarios/crosscheck/cases.txt` has the cases. A case is a scenario with changes, and its seeds.
Results are kept in `comparisons/crosscheck/`. One that belongs to other settings, or that other
code made, is made again (`crosscheck_results.py`).
"""

from __future__ import annotations

import argparse
import fnmatch
import multiprocessing
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from pathlib import Path

import against_kernel
import against_ns3
import emulated_machine
import iperf_meter
import ns3_description
from crosscheck_results import (
    BASELINES,
    CHANGES,
    FOLDER,
    INSTRUCTION_NS,
    KERNEL,
    NS3,
    OURS,
    ROOT,
    SENDERS,
    Case,
    Reads,
    Result,
    Store,
    list_missing,
    read_all,
    read_cases,
    read_history,
)
from crosscheck_tables import COMPARED, compare, count_versions, draw, draw_losses, draw_versions

from trunkline.harness.config.document import ScenarioErrors
from trunkline.harness.record.run_folder import describe_version
from trunkline.harness.report import outputs
from trunkline.harness.runs import runner

CASES = ROOT / "scenarios" / "crosscheck" / "cases.txt"
MACHINE_S = 3000.0
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
        result = read_history(history, done.verdict.outcome, moving=side == OURS)
        shutil.rmtree(done.run_dir)
        return result
    except (RuntimeError, ValueError, OSError, subprocess.SubprocessError) as error:
        return f"{type(error).__name__}: {error}"


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
    if side in SENDERS:
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


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def _write(result: Result | str) -> str:
    if isinstance(result, str):
        return result
    times = " ".join(f"{each:.4f}" for each in result.tasks_s)
    return f"{result.verdict}, {result.drops} of {result.packets} packets lost, {times}"


def measure_all(cases: Sequence[Case], store: Store, sides: Sequence[str], jobs: int) -> bool:
    """Measure what is missing, and say what is still missing; returns whether nothing is."""
    measure(cases, store, sides, jobs)
    found = [*read_all(cases, store, sides)]
    missing = [(case, seed, side) for case, seed, side, result in found if result is None]
    for case, seed, side in missing:
        _say(f"{side} {case.name} {seed}: no result; the same command tries again")
    counts = count_versions(result for *_, result in found)
    for (version, code), count in counts.items():
        _say(f"results by Trunkline {version or '(not kept)'}, code {code or 'not kept'}: {count}")
    return not missing


def draw_any(
    name: str, cases: Sequence[Case], store: Store
) -> tuple[Sequence[str], list[list[str]]]:
    """The titles and the rows of a table."""
    if name == "losses":
        return draw_losses(cases, store)
    if name == "versions":
        return draw_versions(cases, store, CHANGES)
    if name == "worst":
        found = [*compare(cases, store, (NS3, KERNEL)), *iperf_meter.list_goodputs()]
        return draw(name, found)
    return draw(name, [*compare(cases, store, COMPARED if name == "summary" else (name,))])


def main() -> None:
    """Measure what is missing, or print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", default="*", metavar="PATTERN", help="of these cases")
    parser.add_argument("--sides", default=",".join(CHANGES), metavar=",".join(CHANGES))
    parser.add_argument("--jobs", type=int, default=JOBS, help="how many at once")
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--again", action="store_true", help="also what another version of Trunkline measured"
    )
    which.add_argument(
        "--keep", action="store_true", help="not what other code measured, only what is missing"
    )
    tables = ("summary", "worst", "losses", "versions", *BASELINES)
    parser.add_argument("--table", choices=tables)
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
    version = " ".join(filter(None, describe_version().values()))
    if arguments.table is None:
        if problems := [*list_problems(chosen)]:
            parser.error("\n".join((f"{arguments.cases}:", *problems)))
        reads: Reads = "version" if arguments.again else "all" if arguments.keep else "code"
        store = Store(FOLDER, version, reads)
        sys.exit(not measure_all(chosen, store, sides, arguments.jobs))
    titles, rows = draw_any(arguments.table, chosen, Store(FOLDER, version))
    lines = [titles, ["---"] * len(titles), *rows]
    sys.stdout.write("".join(f"| {' | '.join(line)} |\n" for line in lines))


if __name__ == "__main__":
    main()
