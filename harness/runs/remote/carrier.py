"""The process that carries out one run for another machine; it needs no connection.

`python -m trunkline.harness.runs.remote.carrier FOLDER` writes to `said.jsonl` in the folder, one
JSON object per line: `{"progress": {...}}` with the fields of `harness.live.live_state.Progress`,
and at the end `{"over": {"run_dir": ..., "error": ...}}`, or `{"over": {"refused": text}}` if there
is no run to judge.
"""

from __future__ import annotations

import dataclasses
import os
import signal
import sys
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trunkline.harness.config.document import ScenarioErrors
from trunkline.harness.kernel import KernelError
from trunkline.harness.live.live_state import Progress
from trunkline.harness.network.interface import NetworkError
from trunkline.harness.processes.ending import end_by
from trunkline.harness.processes.lines import encode
from trunkline.harness.record.run_folder import StoreError
from trunkline.harness.runs import runner
from trunkline.harness.runs.remote import jobs
from trunkline.harness.runs.remote.jobs import Job
from trunkline.harness.scenario.loading import parse
from trunkline.harness.scenario.settings import Scenario
from trunkline.workloads.learning.datasets import DatasetError

SAY_PERIOD_S = 0.25


def main() -> int:
    """Carry out the run in the folder that the command line names."""
    end_by(signal.SIGTERM, signal.SIGINT)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    job = Job(Path(sys.argv[1]))
    job.claim()
    log = os.open(job.path / jobs.LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for stream in (1, 2):  # our caller waits until we no longer print there
        os.dup2(log, stream)
    voice = _Voice(job.path / jobs.SAID)
    try:
        result = runner.run(
            load_scenario(job), job.path / jobs.SOURCE, job.path / jobs.RUNS, voice.on_progress
        )
        run_dir = result.run_dir.relative_to((job.path / jobs.RUNS).resolve())
        voice.write(over={"run_dir": str(run_dir), "error": result.error})
    except KeyboardInterrupt:
        voice.write(over={"refused": "the run was ended there"})
    except (KernelError, NetworkError, StoreError, DatasetError, ScenarioErrors) as error:
        voice.write(over={"refused": str(error)})
    except Exception as error:
        traceback.print_exc()
        voice.write(over={"refused": f"internal error: {type(error).__name__}: {error}"})
    return 0


def load_scenario(job: Job) -> Scenario:
    """The scenario of a job, with the paths of its workload's folders on this machine.

    Raises RemoteError, and ScenarioErrors if this machine's Trunkline does not accept the scenario.
    """
    request = job.request()
    scenario = parse(request.resolved, request.file)
    folders = {option: str(job.path / jobs.FILES / option) for option in request.folders}
    options = {**scenario.workload.options, **folders}
    workload = dataclasses.replace(scenario.workload, options=options)
    sent = {str(scenario.workload.options[option]): here for option, here in folders.items()}
    moved = (_move(Path(folder), sent) for folder in scenario.files.writable)
    files = dataclasses.replace(scenario.files, writable=tuple(moved))
    return dataclasses.replace(scenario, workload=workload, files=files)


def _move(folder: Path, sent: Mapping[str, str]) -> str:
    """The path on this machine of a folder that was in one of the folders `sent`."""
    for there, here in sent.items():
        if folder.is_relative_to(there):
            return str(Path(here) / folder.relative_to(there))
    return str(folder)


@dataclass(slots=True)
class _Voice:
    """Writes messages to a file."""

    path: Path
    said_s: float = 0.0

    def on_progress(self, now: Progress) -> None:
        """Every message, and numbers now and then."""
        if now.message or time.monotonic() > self.said_s + SAY_PERIOD_S:
            self.said_s = time.monotonic()
            self.write(progress=dataclasses.asdict(now))

    def write(self, **words: Any) -> None:
        with self.path.open("ab", buffering=0) as file:
            file.write(encode(words))


if __name__ == "__main__":
    sys.exit(main())
