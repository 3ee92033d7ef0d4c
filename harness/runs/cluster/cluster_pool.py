"""Many runs on a cluster: the same function as `harness.runs.run_pool.run`, by dask.distributed.

A run goes to the scheduler when a worker is free for it. So the order of the runs is kept, a lost
worker takes only its own run with it, and how the scheduler would spread a queue does not matter.

The key of a task has the hash of what determines the run, and is unique: a key that Dask knew from
another command would stand for a run in another folder. Each start of a run is an event, and so is
counted even if it is the scheduler that repeats a run after the loss of a worker. Only this is
repeated, up to MOST_TRIES starts, and a run that a machine cannot carry out, on another machine. A
verdict is a result, whatever it says.
"""

from __future__ import annotations

import io
import queue
import secrets
import shutil
import tarfile
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from distributed import Client, Future, KilledWorker
from distributed.comm import CommClosedError

from trunkline.harness.live.sweep_progress import Running
from trunkline.harness.runs.cluster import ClusterError
from trunkline.harness.runs.cluster.cluster_task import Answer, Request, carry_out
from trunkline.harness.runs.run_pool import Finished, Job

MOST_TRIES = 5
"""How often a run is started: one that kills its workers must not take the others with it."""

POLL_S = 1.0
TOKEN = ".shared-"


@dataclass(slots=True, eq=False)
class _Asked:
    """A run that the scheduler has."""

    job: Job
    future: Future
    starts: int
    share: float = 0.0
    worker: str = ""


@dataclass(slots=True)
class ClusterPool:
    """Hands runs to a cluster.

    Attributes:
        client: the connection to it.
        where: its name for messages.
        tell: prints a line for the user.
        mend: called now and then, to replace workers that are gone.
    """

    client: Client
    where: str
    tell: Callable[[str], None]
    mend: Callable[[], None] = lambda: None

    def __call__(
        self,
        jobs: Iterable[Job],
        runs_dir: Path,
        at_once: int,
        on_finished: Callable[[Finished], None],
        on_running: Callable[[Sequence[Running]], None],
    ) -> None:
        """Run all jobs in order, as many at a time as the cluster has threads.

        It is called, and ends, as `run_pool.run`. Raises ClusterError if the cluster is lost.
        """
        runs_dir.mkdir(parents=True, exist_ok=True)
        name = TOKEN + secrets.token_hex(8)
        token = runs_dir / name
        token.write_text(name, encoding="utf-8")
        sweep = _Sweep(self, runs_dir.resolve(), name, iter(jobs))
        self.client.subscribe_topic(name, sweep.on_event)
        try:
            sweep.run(on_finished, on_running)
        finally:
            token.unlink(missing_ok=True)
            if self.client.status == "running":
                self.client.cancel([each.future for each in sweep.asked.values()], force=True)
                self.client.unsubscribe_topic(name)


@dataclass(slots=True)
class _Sweep:
    """The runs of one call."""

    pool: ClusterPool
    runs_dir: Path
    token: str
    jobs: Iterator[Job]
    asked: dict[str, _Asked] = field(default_factory=dict)
    again: deque[tuple[Job, int]] = field(default_factory=deque)
    news: queue.SimpleQueue[Callable[[], None]] = field(default_factory=queue.SimpleQueue)
    submitted: int = 0
    unfit: str = ""
    on_finished: Callable[[Finished], None] = lambda result: None
    on_running: Callable[[Sequence[Running]], None] = lambda running: None

    def run(
        self,
        on_finished: Callable[[Finished], None],
        on_running: Callable[[Sequence[Running]], None],
    ) -> None:
        self.on_finished, self.on_running = on_finished, on_running
        room, looked_s, waited = 0, -POLL_S, False
        while True:
            if time.monotonic() >= looked_s + POLL_S:
                room, looked_s = self._count_threads(), time.monotonic()
                if not room and not waited:
                    self.pool.tell(f"waiting for workers of {self.pool.where}")
                waited = not room
                on_running(self._list_running())
                self.pool.mend()
            while len(self.asked) < room and (following := self._take()):
                self._submit(*following)
            if room and not self.asked:
                on_running([])
                return
            try:
                self.news.get(timeout=POLL_S)()
            except queue.Empty:
                continue

    def on_event(self, event: tuple[float, dict[str, Any]]) -> None:
        """Note what a worker tells of a run; Dask calls this in a thread of its own."""
        self.news.put(lambda: self._note(event[1]))

    def _list_running(self) -> list[Running]:
        return [
            Running(each.job.identity, each.share, each.starts)
            for each in self.asked.values()
            if each.worker
        ]

    def _count_threads(self) -> int:
        if self.pool.client.status != "running":
            raise self._explain_loss()
        try:
            found: int = sum(self.pool.client.nthreads().values())
        except (OSError, TimeoutError, ValueError) as error:
            raise self._explain_loss() from error
        if self.unfit and not found:
            raise ClusterError(f"{self.pool.where}: no worker is fit: {self.unfit}")
        return found

    def _take(self) -> tuple[Job, int] | None:
        if self.again:
            return self.again.popleft()
        job = next(self.jobs, None)
        return None if job is None else (job, 0)

    def _submit(self, job: Job, starts: int) -> None:
        self.submitted += 1
        key = f"trunkline-{job.identity[:16]}-{self.token.removeprefix(TOKEN)}-{self.submitted}"
        whole = replace(job, file=str(Path(job.file).resolve()))
        request = Request(whole, str(self.runs_dir), self.token, self.token)
        future = self.pool.client.submit(carry_out, request, key=key, pure=False)
        self.asked[key] = _Asked(job, future, starts)
        future.add_done_callback(lambda _: self.news.put(lambda: self._finish(key)))

    def _note(self, said: dict[str, Any]) -> None:
        asked = self.asked.get(said["key"])
        if asked is None:
            return
        asked.share = said.get("share", 0.0)
        if "start" not in said:
            return
        if asked.starts:
            what = f"{asked.job.name} starts again on {said['host']}"
            self.pool.tell(f"{what}: {asked.worker} did not finish it")
        asked.starts += 1
        asked.worker = f"{said['host']} ({said['start']})"
        if asked.starts > MOST_TRIES:
            del self.asked[said["key"]]
            self.pool.client.cancel([asked.future], force=True)
            self._give_up(asked, f"its worker was lost {MOST_TRIES} times, last: {asked.worker}")
        self.on_running(self._list_running())  # at once: a start is counted, whatever comes next

    def _finish(self, key: str) -> None:
        asked = self.asked.pop(key, None)
        if asked is None:
            return
        try:
            answer: Answer = asked.future.result()
        except (KilledWorker, CommClosedError, OSError) as error:
            self._repeat(asked, str(error))
            return
        except ImportError as error:
            remedy = "install the same version of trunkline[cluster] there"
            raise ClusterError(f"a worker of {self.pool.where} lacks {error}; {remedy}") from error
        except Exception as error:
            if asked.future.status == "cancelled":
                raise self._explain_loss() from error
            raise
        result = answer.finished
        if result.is_unfit:
            self.unfit = text = f"{answer.host}: {result.error}"
            self.pool.tell(f"{text}; the run goes to another worker, this one is sent away")
            self.pool.client.retire_workers([answer.worker])
            self._repeat(asked, text)
            return
        run_dir = result.run_dir
        if answer.files is not None and run_dir is not None:
            run_dir = self._unpack(answer.files, run_dir)
        self.on_finished(
            Finished(asked.job, result.outcome, run_dir, result.error, tries=max(1, asked.starts))
        )

    def _repeat(self, asked: _Asked, why: str) -> None:
        asked.starts = max(1, asked.starts)
        if asked.starts >= MOST_TRIES:
            self._give_up(asked, why)
        else:
            self.again.append((asked.job, asked.starts))

    def _give_up(self, asked: _Asked, why: str) -> None:
        self.on_finished(Finished(asked.job, "error", None, why, tries=MOST_TRIES))

    def _unpack(self, files: bytes, at: Path) -> Path:
        """Write a run's folder completely or not at all; it is found by the file `run.json`."""
        path = self.runs_dir / at
        draft = path.with_name(f".{path.name}")
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        with tarfile.open(fileobj=io.BytesIO(files), mode="r:gz") as archive:
            archive.extractall(draft, filter="data")
        shutil.rmtree(path, ignore_errors=True)
        return draft.rename(path)

    def _explain_loss(self) -> ClusterError:
        return ClusterError(
            f"{self.pool.where}: the connection to the scheduler is lost; finished runs are kept: "
            "start it again if it ended, then the same command continues"
        )
