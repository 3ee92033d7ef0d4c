"""Plants every bug of `planted_bugs.py` in a copy of the tree, counts those that the tests notice.

    python tests/plant_bugs.py --jobs 2            # `make mutants`
    python tests/plant_bugs.py --only budget       # the bugs whose description contains this
    python tests/plant_bugs.py --sample 40          # 40 of them, drawn from a seed
    python tests/plant_bugs.py --soak 20           # then a soak of 20 runs against each survivor

The copy comes first in PYTHONPATH, so its package is the one that the tests import. First, all
tests run without a bug, which shows the tests of each line. Then the tests of the changed lines
run, the quickest before the others, then all of the folder, then all. A bug is killed if a test
fails, or takes longer than `LIMIT_S`: after many bugs an agent waits without end, and time leaps.
"""

import argparse
import os
import queue
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from xml.etree import ElementTree

from coverage import CoverageData
from planted_bugs import MUTANTS, Mutant

ROOT = Path(__file__).parents[1]
FOLDERS = ("agents", "harness", "scenarios", "src", "tests", "topologies", "workloads")
TESTS = (
    "tests/agents/control/test_takeover.py",
    "tests/agents/control/test_failover.py",
    "tests/agents/control/test_protocol_model.py",
    "tests/agents/control",
    "tests/agents",
)
"""What is run until the first failure, after the tests of the changed lines."""

LIMIT_S = 180
"""Many times what the slowest test takes."""

PYTEST = ("-m", "pytest", "-x", "-q", "-p", "no:cacheprovider")
LIMITED = (
    *PYTEST,
    *("-o", f"faulthandler_timeout={LIMIT_S}", "-o", "faulthandler_exit_on_timeout=true"),
)
"""Only tests of bugs have a limit: those that are watched are much slower."""

PROFILE = "--hypothesis-profile=first failure"
COVERAGE = """[run]
source = agents
data_file = lines
"""
SOAK = ("-m", "trunkline.harness.commands.main", "soak", "scenarios/soak/mesh.yaml")

Lines = Mapping[tuple[str, int], Sequence[str]]
"""By file below `agents/` and line: the tests that run it, the quickest first."""


class Copy:
    """A copy of the tree, in which one bug at a time is planted."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.process: subprocess.Popen[str] | None = None
        for name in FOLDERS:
            shutil.copytree(
                ROOT / name,
                folder / name,
                symlinks=True,
                ignore=shutil.ignore_patterns("__pycache__"),
            )
        shutil.copy(ROOT / "pyproject.toml", folder)
        found = self.call("-c", "import trunkline.agents; print(trunkline.agents.__path__[0])")
        if not found.stdout.startswith(str(folder)):
            raise SystemExit(
                f"the tests would import {found.stdout.strip()}, not the copy: {found}"
            )
        collected = self.call(
            "-m", "pytest", "-q", "-p", "no:cacheprovider", "--co", "tests/agents"
        )
        if collected.returncode:
            raise SystemExit(f"the tests fail without a bug:\n{collected.stdout[-2000:]}")

    def call(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run Python in the copy."""
        path = f"{self.folder / 'src'}:{self.folder / 'tests'}"
        environment = {**os.environ, "PYTHONPATH": path}
        command = [sys.executable, *arguments]
        with subprocess.Popen(
            command,
            cwd=self.folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            process_group=0,
        ) as process:
            self.process = process
            output, errors = process.communicate()
        return subprocess.CompletedProcess(command, process.returncode, output, errors)

    def end(self) -> None:
        """End what runs in the copy now."""
        if self.process is not None and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGTERM)

    def map_lines(self, tests: Sequence[str]) -> tuple[dict[str, float], CoverageData]:
        """Run tests without a bug: their durations, and what ran each line.

        Raises SystemExit if one fails.
        """
        (self.folder / "coverage.ini").write_text(COVERAGE)
        watched = ("-m", "coverage", "run", "--rcfile=coverage.ini", *PYTEST, "-p", "line_contexts")
        done = self.call(*watched, "--maxfail=1000", "--junitxml=times.xml", *tests)
        lines = done.stdout.splitlines()
        failed = [line.split(" ")[1] for line in lines if line.startswith(("FAILED ", "ERROR "))]
        if done.returncode and failed:  # watched tests are slower, and some have to be in time
            done = self.call(*PYTEST, *failed)
        if done.returncode:
            raise SystemExit(f"the tests fail without a bug:\n{done.stdout[-2000:]}{done.stderr}")
        took_s = defaultdict[str, float](float)
        for case in ElementTree.parse(self.folder / "times.xml").iter("testcase"):
            path = case.attrib["classname"].replace(".", "/") + ".py"
            took_s[f"{path}::{case.attrib['name'].partition('[')[0]}"] += float(case.attrib["time"])
        data = CoverageData(str(self.folder / "lines"))
        data.read()
        return took_s, data

    def is_killed(self, mutant: Mutant, commands: Sequence[Sequence[str]]) -> tuple[bool, str]:
        """Plant a bug and run Python, until it fails: whether it does, and how."""
        path = self.folder / "agents" / mutant.file
        text = path.read_text()
        _write(path, text.replace(mutant.old, mutant.new))
        try:
            for command in commands:
                done = self.call(*command)
                if done.returncode and "Timeout (" in done.stderr:
                    return True, f"no end in {LIMIT_S} s"
                if done.returncode:
                    lines = done.stdout.splitlines()
                    failed = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
                    return True, failed[0][:150] if failed else done.stdout[-200:]
        finally:
            _write(path, text)
        return False, ""


def _write(path: Path, text: str) -> None:
    """Write a module, and drop its bytecode, whose age and size may be the same as before."""
    path.write_text(text)
    shutil.rmtree(path.parent / "__pycache__", ignore_errors=True)


def main() -> int:
    """Run, print a line for each bug and the score; the exit code is 1 if one survives."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="the bugs whose description contains this")
    parser.add_argument("--jobs", type=int, default=1, help="how many copies to use at once")
    parser.add_argument("--soak", type=int, default=0, help="soak runs against each survivor")
    parser.add_argument("--tests", nargs="+", help="run these tests only, in this order")
    parser.add_argument("--sample", type=int, help="plant this many of them, drawn at random")
    parser.add_argument("--seed", type=int, default=1, help="the seed of the draw")
    arguments = parser.parse_args()
    chosen = [mutant for mutant in MUTANTS if arguments.only in mutant.breaks]
    if arguments.sample is not None:
        chosen = random.Random(arguments.seed).sample(chosen, min(arguments.sample, len(chosen)))
    lines = {} if arguments.tests else map_lines(arguments.jobs)

    def list_commands(mutant: Mutant) -> list[tuple[str, ...]]:
        folder = f"tests/agents/{Path(mutant.file).parent}"
        first = find_tests(mutant, lines)
        steps = [arguments.tests] if arguments.tests else [first, [folder], TESTS]
        return [(*LIMITED, PROFILE, *tests) for tests in steps if tests]

    survivors = play(chosen, list_commands, arguments.jobs)
    print(f"{len(chosen) - len(survivors)} of {len(chosen)} planted bugs killed by the tests")
    if arguments.soak and survivors:
        command = (*SOAK, "--runs", str(arguments.soak))
        survivors = play(survivors, lambda _: [command], arguments.jobs)
        print(f"{len(survivors)} survive {arguments.soak} runs of the soak as well")
    return int(bool(survivors))


def map_lines(jobs: int) -> Lines:
    """Run all tests without a bug, and find those of each line."""
    files = [str(path.relative_to(ROOT)) for path in sorted(ROOT.glob("tests/agents/**/test_*.py"))]
    lines: defaultdict[tuple[str, int], set[str]] = defaultdict(set)
    all_took_s: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="mutants-") as temporary, ThreadPoolExecutor() as pool:
        copies = [Copy(Path(temporary) / str(number)) for number in range(jobs)]
        try:
            shares = (files[number::jobs] for number in range(jobs))
            for copy, (took_s, data) in zip(
                copies, pool.map(Copy.map_lines, copies, shares), strict=True
            ):
                all_took_s |= took_s
                for path in data.measured_files():
                    file = str(Path(path).relative_to(copy.folder / "agents"))
                    for line, contexts in data.contexts_by_lineno(path).items():
                        lines[file, line].update(filter(None, contexts))
        finally:  # perhaps by a signal
            for copy in copies:
                copy.end()
    return {line: sorted(tests, key=all_took_s.__getitem__) for line, tests in lines.items()}


def find_tests(mutant: Mutant, lines: Lines) -> list[str]:
    """The tests that run the changed lines, the quickest first."""
    text = (ROOT / "agents" / mutant.file).read_text()
    before, _, _ = text.partition(mutant.old)
    first = before.count("\n") + 1
    old, new = mutant.old.splitlines(), mutant.new.splitlines()
    same = next((k for k, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), 0)
    numbers = range(first + same, first + len(old))
    return list(dict.fromkeys(test for n in numbers for test in lines.get((mutant.file, n), ())))


def play(
    mutants: list[Mutant],
    list_commands: Callable[[Mutant], Sequence[Sequence[str]]],
    jobs: int,
) -> list[Mutant]:
    """Run commands against each bug until one fails; returns the bugs that survive."""
    waiting: queue.SimpleQueue[Mutant] = queue.SimpleQueue()
    for mutant in mutants:
        waiting.put(mutant)
    survivors: list[Mutant] = []
    over = threading.Event()

    def work(copy: Copy) -> None:
        while not over.is_set():
            try:
                mutant = waiting.get_nowait()
            except queue.Empty:
                return
            start_s = time.monotonic()
            killed, how = copy.is_killed(mutant, list_commands(mutant))
            if over.is_set():
                return
            if not killed:
                survivors.append(mutant)
            verdict = "killed" if killed else "SURVIVES"
            took_s = time.monotonic() - start_s
            print(
                f"{verdict:9}{took_s:5.0f} s  {mutant.file}: {mutant.breaks}  [{how}]", flush=True
            )

    with tempfile.TemporaryDirectory(prefix="mutants-") as temporary:
        copies = [Copy(Path(temporary) / str(number)) for number in range(jobs)]
        workers = [threading.Thread(target=work, args=(copy,)) for copy in copies]
        for worker in workers:
            worker.start()
        try:
            for worker in workers:
                worker.join()
        finally:  # perhaps by a signal
            over.set()
            for copy in copies:
                copy.end()
            for worker in workers:
                worker.join()
    return survivors


def _exit(number: int, _: object) -> None:
    signal.signal(number, signal.SIG_IGN)
    sys.exit(128 + number)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _exit)
    sys.exit(main())
