"""A cluster whose workers are jobs of SLURM: it starts them, and watches those without a worker.

Dask submits a job once, and then waits for its workers. But SLURM may refuse a job, let it wait for
ever, or start it on a machine where it fails. So a `SlurmJobs` asks SLURM about all jobs that have
no worker. It starts jobs again, up to MOST_STARTS times each, goes on with the others, and says
what SLURM says.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import platform
import re
import shlex
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from distributed import Security, Status

from trunkline.harness.runs.cluster import ClusterError
from trunkline.harness.runs.cluster.cluster_file import Slurm, Tls
from trunkline.harness.runs.cluster.dask_settings import DASHBOARD, read_tls
from trunkline.harness.runs.cluster.job_array import escape, render_walltime

LOOK_S = 3.0
"""How often SLURM is asked about jobs without a worker."""

MEND_S = 30.0
"""How often jobs whose workers have ended are replaced."""

MOST_STARTS = 3
"""How often a job starts that gets no worker."""

WAIT_S = 15.0
"""From when on it is told why jobs are waiting, if there is no worker."""

REACH_S = 60
"""How long a job's workers try to reach the scheduler before the job ends."""

MARGIN = 0.1
"""The share of a job's time before its limit by which its workers have ended, one by one."""

ENDED = (
    *("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY"),
    *("PREEMPTED", "REVOKED", "TIMEOUT"),
)
"""SLURM's words for the state of a job that is over."""

NEVER = re.compile(
    r"(Assoc|QOS)M(ax|in)\w*PerJob\w*|QOSMin\w+|Partition(Config|NodeLimit|TimeLimit)"
    r"|(Account|QOS)NotAllowed|Invalid(Account|QOS)|BadConstraints|JobHeldAdmin"
    r"|launch[ _]failed[ _]requeued[ _]held"
)
"""SLURM's reasons by which a job waits without end, unless someone changes it or the limits."""

INHERITED = ("export DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED=False",)
"""Settings of `dask_settings` for the workers in a job, which do not inherit them."""

LOG_NAME = "trunkline"
MOST_WORDS = 300


def start(
    spec: Slurm, folder: Path, stack: contextlib.ExitStack, tell: Callable[[str], None]
) -> tuple[Any, SlurmJobs]:
    """Start a scheduler here and submit the jobs; both end with `stack`.

    `folder` gets the output of jobs and, meanwhile, the certificates. `tell` prints a line.
    """
    cluster_type, job_type = _load_types()
    folder.mkdir(parents=True, exist_ok=True)
    private = stack.enter_context(tempfile.TemporaryDirectory(prefix=".tls-", dir=folder))
    security = read_tls(_make_tls(Path(private).resolve()))
    logs = folder / "jobs"
    logs.mkdir(exist_ok=True)
    lifetime_s = round(spec.walltime_s * (1 - MARGIN))
    stagger_s = round(spec.walltime_s * MARGIN / 2)
    place = {"interface": spec.interface} if spec.interface else {"host": platform.node()}
    cluster = stack.enter_context(
        cluster_type(
            job_cls=job_type,
            cores=spec.runs,
            processes=spec.runs,
            memory=f"{spec.runs * spec.memory_bytes}B",
            walltime=render_walltime(spec.walltime_s),
            queue=spec.queue,
            account=spec.account,
            interface=spec.interface,
            security=security,
            protocol="tls://",
            python=shlex.quote(sys.executable),
            job_name=LOG_NAME,
            job_extra_directives=list(_list_directives(spec, logs.resolve())),
            job_script_prologue=[*spec.before, *INHERITED],
            death_timeout=REACH_S,
            worker_extra_args=[
                *("--memory-limit", "0"),
                *("--dashboard-address", DASHBOARD),
                *("--lifetime", f"{lifetime_s}s", "--lifetime-stagger", f"{stagger_s}s"),
            ],
            scheduler_options={"dashboard_address": DASHBOARD, **place},
            silence_logs=logging.CRITICAL,
        )
    )
    cluster.scale(jobs=spec.jobs)
    return cluster, SlurmJobs(cluster, spec, logs, tell)


@dataclass(frozen=True, slots=True)
class _Problem:
    """Why a job has no worker and will get none, and where its output is, if it began.

    `may_pass` says that another try may go better.
    """

    text: str
    may_pass: bool
    log: Path | None = None


@dataclass(slots=True)
class SlurmJobs:
    """The jobs of a cluster.

    Attributes:
        cluster: Dask's cluster, which has a job for each name in `cluster.workers`.
        spec: what was asked for.
        logs: the folder with the output of jobs.
        tell: prints a line for the user.
    """

    cluster: Any
    spec: Slurm
    logs: Path
    tell: Callable[[str], None]
    _starts: dict[str, int] = field(default_factory=dict)
    _logs: dict[str, Path] = field(default_factory=dict)
    _lost: Counter[str] = field(default_factory=Counter)
    _told: set[str] = field(default_factory=set)
    _looked_s: float = -LOOK_S
    _began_s: float = field(default_factory=time.monotonic)
    _mended_s: float = field(default_factory=time.monotonic)

    def __call__(self) -> None:
        """Look after the jobs, if it is time to. Raises ClusterError if none will have a worker."""
        if time.monotonic() >= self._looked_s + LOOK_S:
            self.cluster.sync(self._look)
            self._looked_s = time.monotonic()

    async def _look(self) -> None:
        """In the thread of the cluster, which changes what this reads and writes."""
        cluster = self.cluster
        there = {self._name_job(each) for each in cluster.scheduler_info["workers"].values()}
        for name in there & cluster.workers.keys():
            cluster.workers[name].had_worker = True
            self._starts.pop(name, None)
        # Dask forgets a job some time after its worker is lost; then `_mend` replaces it.
        without = {name: job for name, job in cluster.workers.items() if not job.had_worker}
        if without and (states := await self._ask(without)) is not None:
            if not there and time.monotonic() >= self._began_s + WAIT_S:
                self._tell_waiting(states)
            problems = {name: self._find_problem(job, states) for name, job in without.items()}
            await self._part_with({name: each for name, each in problems.items() if each})
        if not cluster.worker_spec:
            raise ClusterError(self._describe_lost())
        self._mend()

    def _name_job(self, worker: Mapping[str, Any]) -> str:
        """The name of a worker's job, to which Dask appends a number if it has several workers."""
        name = str(worker["name"])
        return name if self.spec.runs == 1 else name.rpartition("-")[0]

    async def _ask(self, jobs: Mapping[str, Any]) -> Mapping[str, tuple[str, str]] | None:
        """The state and the reason of each job that SLURM knows; None if it does not answer."""
        numbers = [job.job_id for job in jobs.values() if job.job_id]
        if not numbers:
            return {}
        words = ["--noheader", "--states=all", "--format=%i|%T|%r", f"--jobs={','.join(numbers)}"]
        try:
            said = await _call("squeue", *words)
        except (OSError, RuntimeError) as error:
            if "Invalid job id" in str(error):
                return {}
            self._tell_once(f"SLURM: squeue does not answer: {error}")
            return None
        lines = [line.strip().split("|", 2) for line in said.splitlines()]
        return {number: (state, reason) for number, state, reason in lines}

    def _find_problem(self, job: Any, states: Mapping[str, tuple[str, str]]) -> _Problem | None:
        if job.refusal:
            return _Problem(f"SLURM refused: {job.refusal}", may_pass=True)
        if not job.job_id:  # it is being submitted
            return None
        state, reason = states.get(job.job_id, ("SLURM forgot it", ""))
        why = f" ({reason})" if reason not in ("", "None") else ""
        if state in ENDED or job.job_id not in states:
            log = self.logs / f"{LOG_NAME}-{job.job_id}.err"
            text = f"ended before its worker came: {state}{why}{_read_last_line(log)}"
            return _Problem(text, may_pass=True, log=log)
        if state == "PENDING" and NEVER.fullmatch(reason):
            return _Problem(f"waits forever: {reason}", may_pass=False)
        return None

    async def _part_with(self, problems: Mapping[str, _Problem]) -> None:
        """Remove these jobs, and start again those for which this may help."""
        again: Counter[str] = Counter()
        cluster, lost = self.cluster, self._lost.total()
        left = cluster.worker_spec.keys() - problems.keys()
        for name, problem in problems.items():
            cluster.worker_spec.pop(name, None)
            await cluster.workers.pop(name).close()
            starts = self._starts.pop(name, 1)
            if problem.log:
                self._logs.setdefault(problem.text, problem.log)
            # What SLURM refuses to all is refused again; machines that fail may be few.
            if starts < MOST_STARTS and problem.may_pass and (left or problem.log):
                again[problem.text] += 1
                new = cluster.new_worker_spec()
                cluster.worker_spec.update(new)
                self._starts |= dict.fromkeys(new, starts + 1)
            else:
                self._lost[problem.text] += 1
        if again:
            cluster.scale(jobs=len(cluster.worker_spec))
            count = f"{again.total()} of {self.spec.jobs} jobs start again"
            self._tell_once(f"{count}: {self._describe(again)}")
        if self._lost.total() > lost and cluster.worker_spec:
            self.tell(self._describe_lost())

    def _mend(self) -> None:
        if time.monotonic() >= self._mended_s + MEND_S:
            self._mended_s = time.monotonic()
            self.cluster.scale(jobs=len(self.cluster.worker_spec))

    def _describe_lost(self) -> str:
        count = f"{self._lost.total()} of {self.spec.jobs} jobs have no worker"
        return f"{count}: {self._describe(self._lost)}"

    def _describe(self, texts: Iterable[str]) -> str:
        return "; ".join(
            f"{text} ({self._logs[text]})" if text in self._logs else text for text in texts
        )

    def _tell_waiting(self, states: Mapping[str, tuple[str, str]]) -> None:
        waiting = Counter(reason for state, reason in states.values() if state == "PENDING")
        for reason, count in waiting.items():
            if reason != "None" and not NEVER.fullmatch(reason):
                self._tell_once(f"{count} of {self.spec.jobs} jobs wait in SLURM's queue: {reason}")

    def _tell_once(self, text: str) -> None:
        if text not in self._told:
            self._told.add(text)
            self.tell(text)


def _list_directives(spec: Slurm, logs: Path) -> Iterator[str]:
    """Lines of a job's script, in which a blank ends a word, as in a shell."""
    for stream, ending in (("error", "err"), ("output", "out")):
        yield shlex.quote(f"--{stream}={escape(logs)}/{LOG_NAME}-%j.{ending}")
    yield from spec.directives


def _read_last_line(log: Path) -> str:
    with contextlib.suppress(OSError):
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
        if said := [line.strip() for line in lines if line.strip()]:
            return f": {said[-1][:MOST_WORDS]}"
    return ""


def _load_types() -> tuple[Any, Any]:
    """A type of Dask's clusters, and one of its jobs, which notes what SLURM refuses.

    The import replaces what Ctrl-C does in this process by an exit, which is undone here.
    """
    ctrl_c = signal.getsignal(signal.SIGINT)
    try:
        from dask_jobqueue.slurm import SLURMCluster, SLURMJob
    except SystemExit:  # Ctrl-C, meanwhile
        raise KeyboardInterrupt from None
    finally:
        signal.signal(signal.SIGINT, ctrl_c)

    class Job(SLURMJob):  # type: ignore[misc]
        """A job; `refusal` has what SLURM said if it refused it."""

        refusal = ""
        had_worker = False

        async def start(self) -> None:
            try:
                await super().start()
            except (OSError, RuntimeError) as error:
                self.refusal = str(error)
                self.status = Status.running  # for Dask, which would only log an error

        async def close(self) -> None:
            await super().close()
            self.status = Status.closed

        @staticmethod
        async def _call(words: Sequence[str], **_: Any) -> str:
            return await _call(*words)

    class Cluster(SLURMCluster):  # type: ignore[misc]
        """A cluster whose files of TLS may have blanks in their paths."""

        def _get_worker_security(self, security: Security) -> Security:
            roles = security.get_tls_config_for_role("worker")
            return read_tls(Tls(*(shlex.quote(roles[each]) for each in ("ca_file", "cert", "key"))))

    return Cluster, Job


async def _call(program: str, *words: str) -> str:
    """The output of a command of SLURM, which Ctrl-C at the terminal does not reach.

    Raises OSError, and RuntimeError with what it says if it fails.
    """
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        program, *words, stdin=asyncio.subprocess.DEVNULL, stdout=pipe, stderr=pipe, process_group=0
    )
    out, err = await process.communicate()
    if process.returncode:
        said = err.decode(errors="replace").splitlines()
        lines = [line.removeprefix(f"{program}: ").removeprefix("error: ") for line in said if line]
        raise RuntimeError("; ".join(lines) or f"{program} failed with {process.returncode}")
    return out.decode(errors="replace")


def _make_tls(folder: Path) -> Tls:
    """Write new certificates into a folder that only this user can read."""
    made = Security.temporary().get_tls_config_for_role("worker")
    for name in ("ca_file", "cert", "key"):
        (folder / name).write_text(made[name], encoding="ascii")
    return Tls(*(str(folder / name) for name in ("ca_file", "cert", "key")))
