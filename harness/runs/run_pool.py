"""Many runs, several at a time, each in its own process (`harness.runs.run_process`).

A run's embedded kernel claims a processor, handles signals and dies with its parent. With a process
per run, all of this works as it does for a single run. The processes are forks of one that has
imported what they need (`harness.runs.run_starter`). They die with this one, and `run` ends them
before it returns or raises.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import selectors
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from trunkline.harness.config.paths import ROOT
from trunkline.harness.live.sweep_progress import Running, SweepProgress
from trunkline.harness.processes.fork_server import ForkServer, ServedProcess
from trunkline.harness.processes.lines import Lines, decode
from trunkline.harness.scenario.loading import parse
from trunkline.harness.scenario.settings import Scenario

GRACE_S = 20.0
"""What a run gets to end cleanly, in seconds: more than the embedded kernel takes at most."""

PROGRAM = (sys.executable, "-m", "trunkline.harness.runs.run_process")
"""The command of a run's process."""

STARTER = (sys.executable, "-m", "trunkline.harness.runs.run_starter")
NEEDED = tuple(f"trunkline.{part}." for part in ("agents", "topologies", "workloads"))
"""Where modules are that this process has imported for its scenarios, and that runs import, too."""

POLL_S = 1.0
LAST_LINES = 15


@dataclass(frozen=True, slots=True)
class Job:
    """One run to carry out.

    Attributes:
        name: the run's name, under which its folder is filed.
        file: the scenario's file.
        text: the content of that file.
        overrides: `key.path=value` changes, as for `load`.
        seed: the scenario's seed.
        identity: the expected result of `provenance.identify_run`.
        plots: whether to draw figures.
    """

    name: str
    file: str
    text: str
    overrides: tuple[str, ...]
    seed: int
    identity: str
    plots: bool = False

    def load(self) -> Scenario:
        """The scenario of the run. Raises ScenarioErrors."""
        return parse(self.text, self.file, self.overrides, self.seed)


@dataclass(frozen=True, slots=True)
class Finished:
    """How a job ended: `pass`, `unknown`, `fail`, or `error` if there was no run to judge.

    `is_unfit` says that it is the machine that cannot carry it out. `tries` is how often it was
    started: again only if a machine was lost.
    """

    job: Job
    outcome: str
    run_dir: Path | None
    error: str | None
    is_unfit: bool = False
    tries: int = 1


class Pool(Protocol):
    """What carries out many runs: `run` on this machine, or a cluster."""

    def __call__(
        self,
        jobs: Iterable[Job],
        runs_dir: Path,
        at_once: int,
        on_finished: Callable[[Finished], None],
        on_running: Callable[[Sequence[Running]], None],
    ) -> None:
        """Carry them out as `run` does."""


def run(
    jobs: Iterable[Job],
    runs_dir: Path,
    at_once: int,
    on_finished: Callable[[Finished], None],
    on_running: Callable[[Sequence[Running]], None],
) -> None:
    """Run all jobs in order, up to `at_once` at a time.

    `on_running` gets the runs in progress at the start, about once a second, and at the end. An
    exception of a callback, or Ctrl-C, ends the current runs; finished runs stay.
    """
    waiting = deque(jobs)
    running: list[_Child] = []
    needed = sorted(name for name in sys.modules if name.startswith(NEEDED))
    server = ForkServer((*STARTER, *PROGRAM, "--", *needed, "--"), ROOT)
    with server, selectors.DefaultSelector() as selector:
        try:
            while True:
                while waiting and len(running) < at_once:
                    job = waiting.popleft()
                    try:
                        child = _Child.start(job, runs_dir, server)
                    except ConnectionError as error:
                        on_finished(Finished(job, "error", None, f"no run can start: {error}"))
                        continue
                    running.append(child)
                    selector.register(child.output, selectors.EVENT_READ, child)
                on_running([Running(each.job.identity, each.share) for each in running])
                if not running:
                    return
                for key, _ in selector.select(POLL_S):
                    if not key.data.read_output():
                        selector.unregister(key.fd)
                        running.remove(key.data)
                        on_finished(key.data.wait_for_result())
        finally:
            _end_all(running)


def tell_progress(
    sweep: SweepProgress, on_progress: Callable[[SweepProgress], None]
) -> Callable[[Sequence[Running]], None]:
    """What a pool calls as `on_running` so that the progress of a sweep is kept and told."""

    def on_running(running: Sequence[Running]) -> None:
        sweep.note_running(running, time.monotonic())
        on_progress(sweep)

    return on_running


@dataclass(slots=True, eq=False)
class _Child:
    """The process of one job, and its reports so far."""

    job: Job
    process: ServedProcess
    output: int
    share: float = 0.0
    lines: Lines = field(default_factory=Lines)
    finished: Finished | None = None
    other: deque[str] = field(default_factory=lambda: deque(maxlen=LAST_LINES))

    @classmethod
    def start(cls, job: Job, runs_dir: Path, server: ForkServer) -> _Child:
        """Start the process. Raises ConnectionError if the server has ended."""
        request = {**dataclasses.asdict(job), "runs_dir": str(runs_dir.resolve())}
        request["file"] = str(Path(job.file).resolve())
        given, request_end = os.pipe()
        output, output_end = os.pipe()
        try:
            process = server.fork(given, output_end)
        except BaseException:
            os.close(request_end)
            os.close(output)
            raise
        finally:
            os.close(given)
            os.close(output_end)
        with contextlib.suppress(BrokenPipeError), os.fdopen(request_end, "wb") as pipe:
            pipe.write(json.dumps(request).encode())
        return cls(job, process, output)

    def read_output(self) -> bool:
        """Read available output; False at its end."""
        data = os.read(self.output, 1 << 16)
        for line in self.lines.split(data):
            self._handle_line(line)
        return bool(data)

    def wait_for_result(self) -> Finished:
        code = self.close()
        if self.finished is not None:
            return self.finished
        words = "\n".join(self.other)
        return Finished(self.job, "error", None, f"the run's process ended with {code}: {words}")

    def close(self) -> int | None:
        """Wait for the exit, and return the exit code; its output must have ended."""
        os.close(self.output)
        return self.process.wait()

    def _handle_line(self, line: bytes) -> None:
        said = decode(line) or {}
        if "share" in said:
            self.share = said["share"]
        elif "refused" in said:
            unfit = said.get("unfit", False)
            self.finished = Finished(self.job, "error", None, said["refused"], unfit)
        elif "run_dir" in said:
            path = Path(said["run_dir"])
            self.finished = Finished(self.job, said["outcome"], path, said["error"])
        else:
            self.other.append(line.decode(errors="replace"))


def _end_all(children: list[_Child]) -> None:
    """End the processes with SIGTERM, and after GRACE_S seconds with SIGKILL."""
    for child in children:
        child.process.send(signal.SIGTERM)
    deadline_s = time.monotonic() + GRACE_S
    try:
        for child in children:
            child.process.await_end(max(0.0, deadline_s - time.monotonic()))
    finally:
        for child in children:
            child.process.send(signal.SIGKILL)
            child.close()
