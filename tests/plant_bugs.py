"""Plants every bug of `planted_bugs.py` in a copy of the tree, counts those that the tests notice.

    python tests/plant_bugs.py --jobs 2            # `make mutants`
    python tests/plant_bugs.py --only budget       # the bugs whose description contains this
    python tests/plant_bugs.py --sample 40          # 40 of them, drawn from a seed
    python tests/plant_bugs.py --soak 20           # then a soak of 20 runs against each survivor

The copy comes first in PYTHONPATH, so its package is the one that the tests import. The tests of
the changed module and of its folder run first. A bug is killed if a test fails, or if the tests
take more processor time than `LIMIT_S`: after many bugs an agent waits without end, and time leaps.
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
from collections.abc import Callable
from pathlib import Path

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
"""What is run until the first failure, after the tests of the changed module."""

LIMIT_S = 900
PYTEST = ("-m", "pytest", "-x", "-q", "-p", "no:cacheprovider")
PROFILE = "--hypothesis-profile=first failure"
SOAK = ("-m", "trunkline.harness.commands.main", "soak", "scenarios/soak/mesh.yaml")


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
        environment = {**os.environ, "PYTHONPATH": str(self.folder / "src")}
        command = ["prlimit", f"--cpu={LIMIT_S}", sys.executable, *arguments]
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

    def is_killed(self, mutant: Mutant, *arguments: str) -> tuple[bool, str]:
        """Plant a bug and run Python: whether it fails, and how."""
        path = self.folder / "agents" / mutant.file
        text = path.read_text()
        _write(path, text.replace(mutant.old, mutant.new))
        try:
            done = self.call(*arguments)
        finally:
            _write(path, text)
        if done.returncode < 0:
            return True, "no end"
        failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
        return done.returncode != 0, failed[0][:150] if failed else done.stdout[-200:]


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
    parser.add_argument("--tests", nargs="+", default=TESTS, help="the tests to run, in this order")
    parser.add_argument("--sample", type=int, help="plant this many of them, drawn at random")
    parser.add_argument("--seed", type=int, default=1, help="the seed of the draw")
    arguments = parser.parse_args()
    chosen = [mutant for mutant in MUTANTS if arguments.only in mutant.breaks]
    if arguments.sample is not None:
        chosen = random.Random(arguments.seed).sample(chosen, min(arguments.sample, len(chosen)))
    with tempfile.TemporaryDirectory(prefix="mutants-") as temporary:
        done = Copy(Path(temporary) / "0").call(*PYTEST, PROFILE, *arguments.tests)
    if done.returncode:
        raise SystemExit(f"the tests fail without a bug:\n{done.stdout[-2000:]}")
    survivors = play(
        chosen,
        lambda mutant: (*PYTEST, PROFILE, *find_tests(mutant), *arguments.tests),
        arguments.jobs,
    )
    print(f"{len(chosen) - len(survivors)} of {len(chosen)} planted bugs killed by the tests")
    if arguments.soak and survivors:
        command = (*SOAK, "--runs", str(arguments.soak))
        survivors = play(survivors, lambda _: command, arguments.jobs)
        print(f"{len(survivors)} survive {arguments.soak} runs of the soak as well")
    return int(bool(survivors))


def find_tests(mutant: Mutant) -> list[str]:
    """The tests of the changed module, then those of its folder."""
    module = Path(mutant.file)
    found = sorted(ROOT.glob(f"tests/agents/**/test_{module.stem}.py"))
    folder = ROOT / "tests/agents" / module.parent
    return [str(path.relative_to(ROOT)) for path in (*found, folder) if path.exists()]


def play(
    mutants: list[Mutant], command_for: Callable[[Mutant], tuple[str, ...]], jobs: int
) -> list[Mutant]:
    """Run a command against each bug; returns those that survive."""
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
            killed, how = copy.is_killed(mutant, *command_for(mutant))
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
