"""A Dask scheduler, its workers and commands on this machine, whose runs only pretend."""

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd
from warm_python import WarmProcess, WarmPython

from trunkline.harness.runs import provenance

ROOT = Path(__file__).parents[1]
FAKE_RUNS = ROOT / "tests" / "fake_runs.py"
SCENARIO = """\
name: three
topology: {builder: full_mesh, sites: 3, rates: n2}
workload: {kind: synthetic, model: 1 MB, compute: 0.1 s}
scheme: {policy: preduce, plan: crew, p: 2}
stop: {tasks: 3}
"""
PYTHON = WarmPython(
    (
        "distributed.cli.dask_scheduler",
        "distributed.cli.dask_worker",
        "trunkline.harness.commands.main",
        "trunkline.harness.runs.cluster.dask_clusters",
        "trunkline.harness.study.comparison_runs",
    )
)
"""It has imported what schedulers, workers and commands need."""

WAIT_S = int(os.environ.get("CLUSTER_WAIT_S", "120"))


@dataclass
class Machines:
    """A scheduler and workers, and commands that use them; all end with the context."""

    folder: Path
    env: dict[str, str]
    started: list[WarmProcess] = field(default_factory=list)
    address: str = ""

    def start(self, *words: str, **env: str) -> WarmProcess:
        with (self.folder / f"output-{len(self.started)}").open("wb") as output:
            process = PYTHON.start(words, self.folder, {**self.env, **env}, output.fileno())
        self.started.append(process)
        return process

    def read(self, process: WarmProcess) -> str:
        return (self.folder / f"output-{self.started.index(process)}").read_text()

    def scheduler(self) -> WarmProcess:
        words = ["--host", "127.0.0.1", "--port", "0", "--no-dashboard"]
        process = self.start("-m", "distributed.cli.dask_scheduler", *words)
        wait_until(lambda: "Scheduler at:" in self.read(process))
        line = next(each for each in self.read(process).splitlines() if "Scheduler at:" in each)
        self.address = line.split()[-1]
        return process

    def worker(self, **env: str) -> WarmProcess:
        words = ["--nthreads", "1", "--no-nanny", "--memory-limit", "0", "--host", "127.0.0.1"]
        words += ["--no-dashboard", "--death-timeout", "20"]
        return self.start("-m", "distributed.cli.dask_worker", self.address, *words, **env)

    def compare(self, *words: str) -> WarmProcess:
        grid = ["three.yaml", "--vary", "scheme.plan=crew,ring", "--trials", "4", "--out", "out"]
        return self.start(str(FAKE_RUNS), "compare", *grid, *words)

    @property
    def log(self) -> list[list[str]]:
        path = self.folder / "log"
        return [line.split() for line in path.read_text().splitlines()] if path.exists() else []

    def count(self, what: str) -> int:
        return sum(words[0] == what for words in self.log)

    def under_way(self) -> set[int]:
        """The processes of runs that have started and not ended, and still live."""
        ended = {words[2] for words in self.log if words[0] == "end"}
        begun = {words[2] for words in self.log if words[0] == "start"} - ended
        return {int(pid) for pid in begun if Path(f"/proc/{pid}/stat").exists()}


def wait_until(holds: Callable[[], object], poll_s: float = 0.05) -> None:
    end_s = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < end_s
        time.sleep(poll_s)


@contextlib.contextmanager
def machines(folder: Path, **env: str) -> Iterator[Machines]:
    folder.mkdir(exist_ok=True)
    (folder / "three.yaml").write_text(SCENARIO)
    ours = {"FAKE_LOG": str(folder / "log"), "PYTHONPATH": str(ROOT / "src"), "FAKE_S": "1"}
    ours["DASK_DISTRIBUTED__WORKER__PRELOAD"] = str(FAKE_RUNS)
    # A worker without its scheduler tries to reach it for so long, before it ends.
    ours["DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT"] = "5s"
    ours["FAKE_JUDGED_BY"] = provenance.hash_code(provenance.REPORT)
    made = Machines(folder, {**os.environ, **ours, **env})
    try:
        yield made
    finally:
        for process in reversed(made.started):
            process.kill()
            process.wait()


def read_trials(folder: Path, out: str = "out") -> pd.DataFrame:
    """The table of trials, but for how often they were started."""
    found = pd.read_csv(folder / out / "tables" / "trials.csv", keep_default_na=False)
    return found.drop(columns=["tries"], errors="ignore")
