"""What a Dask worker does for one run: it starts the run's process, and waits for it.

The run's folder is written in place if this machine sees the folder of all runs, and otherwise sent
back. The run ends as soon as no client waits for it, and with the worker (`setpriv`).
"""

from __future__ import annotations

import io
import platform
import tarfile
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from distributed import Status, get_worker

from trunkline.harness.live.sweep_progress import Running
from trunkline.harness.processes.ownership import Owner
from trunkline.harness.runs import run_pool, run_record
from trunkline.harness.runs.run_pool import Finished, Job


@dataclass(frozen=True, slots=True)
class Request:
    """A run to carry out.

    Attributes:
        job: the run; its file has a whole path.
        runs_dir: the folder of all runs, on the machine that asks.
        token: the name and content of a file there, by which a worker recognizes that folder.
        topic: the topic of Dask's events that gets the progress.
    """

    job: Job
    runs_dir: str
    token: str
    topic: str


@dataclass(frozen=True, slots=True)
class Answer:
    """How a run ended; `files` is its folder, as a compressed tar, if it is not in place."""

    host: str
    worker: str
    finished: Finished
    files: bytes | None = None


class _UnwantedError(Exception):
    """Ends a run that no client waits for."""


def carry_out(request: Request) -> Answer:
    """Carry out a run in this worker. It tells that it starts, and then its progress."""
    worker = get_worker()
    key = worker.get_current_task()

    def tell(**words: float | str) -> None:
        worker.log_event(request.topic, {"key": str(key), "host": platform.node(), **words})

    def on_progress(share: float) -> None:
        known = worker.state.tasks.get(key)
        if known is None or known.state != "executing" or worker.status != Status.running:
            raise _UnwantedError
        tell(share=share)

    tell(start=worker.address)
    shared = Path(request.runs_dir)
    if _is_there(shared / request.token, request.token):
        # A lost worker may have finished it, and only not have said so.
        done = _find(request.job, shared) or _run(request.job, shared, on_progress)
        return Answer(platform.node(), worker.address, done)
    with tempfile.TemporaryDirectory(prefix=Owner.me().prefix) as folder:
        runs_dir = Path(folder, "runs")
        done = _run(_bring_file(request.job, Path(folder)), runs_dir, on_progress)
        if done.run_dir is None:
            return Answer(platform.node(), worker.address, done)
        packed = _pack(done.run_dir)
        at = done.run_dir.relative_to(runs_dir.resolve())
        return Answer(platform.node(), worker.address, replace(done, run_dir=at), packed)


def _find(job: Job, runs_dir: Path) -> Finished | None:
    found = run_record.find(runs_dir, {job.identity}, job.name).get(job.identity)
    said = found and run_record.read(found)
    if not found or not said:
        return None
    return Finished(job, run_record.read_outcome(found), found, said["error"])


def _run(job: Job, runs_dir: Path, on_progress: Callable[[float], None]) -> Finished:
    results: list[Finished] = []

    def on_running(running: Sequence[Running]) -> None:
        for each in running:
            on_progress(each.share)

    run_pool.run([job], runs_dir, 1, results.append, on_running)
    return results[0]


def _bring_file(job: Job, folder: Path) -> Job:
    """The job with its scenario's file, which this machine may have at the same path."""
    if _is_there(Path(job.file), job.text):
        return job
    file = folder / Path(job.file).name
    file.write_text(job.text, encoding="utf-8")
    return replace(job, file=str(file))


def _is_there(path: Path, content: str) -> bool:
    try:
        return path.read_text(encoding="utf-8") == content
    except (OSError, UnicodeDecodeError):
        return False


def _pack(folder: Path) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=1) as archive:
        archive.add(folder, ".")
    return packed.getvalue()
