"""Starts the clusters of a `cluster_file`, and connects to them.

What a worker may use is not left to Dask: the nanny sees its own process, but neither the run's
process nor the guest. So workers have one thread each, memory limits are off, and a job of SLURM
asks for the memory of its runs. A run is repeated here rather than by Dask, which blames a run for
every worker that is lost with it.
"""

from __future__ import annotations

import contextlib
import logging
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import dask
from distributed import Client, LocalCluster, Security, SSHCluster
from distributed.utils import format_dashboard_link

from trunkline.harness.runs.cluster import ClusterError
from trunkline.harness.runs.cluster.cluster_file import (
    LOOPBACK,
    Address,
    Cluster,
    Local,
    Slurm,
    Ssh,
    Tls,
)
from trunkline.harness.runs.cluster.cluster_pool import ClusterPool
from trunkline.harness.runs.cluster.job_array import render_walltime

SETTINGS: Mapping[str, Any] = {
    "distributed.scheduler.allowed-failures": 1000,
    "distributed.scheduler.work-stealing": False,
    **{
        f"distributed.worker.memory.{each}": False
        for each in ("target", "spill", "pause", "terminate")
    },
}
"""Dask's configuration for clusters that Trunkline starts."""

ONE_RUN: Mapping[str, Any] = {"nthreads": 1, "memory_limit": 0}
HERE = "127.0.0.1"
DASHBOARD = f"{HERE}:0"
"""Where schedulers and workers serve pages over HTTP: without TLS, so only on their machine."""

IDLE = "60s"
"""When a scheduler on another machine ends by itself, which outlives a command that is killed."""

MEND_S = 30.0
"""How often jobs of SLURM that have ended are replaced."""

MARGIN = 0.1
"""The share of a job's time before its limit by which its workers have ended, one by one."""


@contextlib.contextmanager
def connect(
    spec: Cluster, folder: Path, at_once: int, tell: Callable[[str], None]
) -> Iterator[ClusterPool]:
    """Start the cluster, or connect to it; ends what it started. Raises ClusterError.

    Args:
        spec: the cluster.
        folder: the folder of the results, for files of jobs.
        at_once: the number of workers on this machine, if `spec` does not have it.
        tell: prints a line for the user.
    """
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    with contextlib.ExitStack() as stack:
        stack.enter_context(dask.config.set(SETTINGS))
        try:
            client, where, mend = _start(spec, folder, at_once, stack)
            if dashboard := find_dashboard(client, spec):
                tell(f"dashboard  {dashboard}")
        except Exception as error:  # of sockets, TLS, SSH and SLURM, each of its own kind
            kind = type(spec).__name__.lower()
            what = spec.address if isinstance(spec, Address) else f"the cluster of kind {kind}"
            why = " ".join(str(error).split()) or type(error).__name__
            raise ClusterError(f"{what}: cannot be used: {why}") from error
        yield ClusterPool(client, where, tell, mend)


def find_dashboard(client: Client, spec: Cluster) -> str | None:
    """How a browser gets to the dashboard of the scheduler; None if it serves none.

    Dask serves it if `bokeh` is installed where the scheduler is.
    """
    if not client.run_on_scheduler(lambda: "distributed.dashboard.scheduler" in sys.modules):
        return None
    if isinstance(spec, Address):
        return str(client.dashboard_link)
    port = client.scheduler_info()["services"]["dashboard"]
    link = format_dashboard_link(HERE, port)
    if isinstance(spec, Ssh) and spec.hosts[0] not in LOOPBACK:
        return f"{link}, after: ssh -L {port}:{HERE}:{port} {spec.hosts[0]}"
    return str(link)


def _start(
    spec: Cluster, folder: Path, at_once: int, stack: contextlib.ExitStack
) -> tuple[Client, str, Callable[[], None]]:
    mend: Callable[[], None] = lambda: None  # noqa: E731
    if isinstance(spec, Address):
        given = {"security": _read_tls(spec.tls)} if spec.tls else {}
        client = stack.enter_context(Client(spec.address, **given))
        return client, spec.address, mend
    if isinstance(spec, Local):
        cluster = stack.enter_context(_start_local(spec.runs or at_once))
    elif isinstance(spec, Ssh):
        cluster = stack.enter_context(_start_ssh(spec, stack))
    else:
        cluster = stack.enter_context(_start_slurm(spec, folder, stack))
        mend = _Mender(partial(cluster.scale, jobs=spec.jobs))
    return stack.enter_context(Client(cluster)), cluster.scheduler_address, mend


def _start_local(workers: int) -> Any:
    return LocalCluster(
        n_workers=workers,
        threads_per_worker=1,
        memory_limit=0,
        host=HERE,
        dashboard_address=DASHBOARD,
        security=True,
        silence_logs=logging.CRITICAL,
    )


def _start_ssh(spec: Ssh, stack: contextlib.ExitStack) -> Any:
    place: dict[str, Any] = {"interface": spec.interface} if spec.interface else {}
    if {*spec.hosts} <= {*LOOPBACK}:
        place = {"host": HERE}
    security = None
    if spec.tls:
        # The schedulers and workers there inherit the configuration: it has paths, no keys.
        roles = {
            f"distributed.comm.tls.{role}.{part}": getattr(spec.tls, part)
            for role in ("scheduler", "worker", "client")
            for part in ("cert", "key")
        }
        tls = {"distributed.comm.tls.ca-file": spec.tls.ca, **roles}
        stack.enter_context(dask.config.set({"distributed.comm.require-encryption": True, **tls}))
        security = _read_tls(spec.tls)
        place["protocol"] = "tls://"
    given = {"config": [spec.ssh_config]} if spec.ssh_config else {}
    return SSHCluster(
        [spec.hosts[0], *spec.hosts],
        connect_options=given,
        worker_options={
            **ONE_RUN,
            "n_workers": spec.runs,
            "dashboard_address": DASHBOARD,
            **place,
        },
        scheduler_options={
            "port": 0,
            "dashboard_address": DASHBOARD,
            "idle_timeout": IDLE,
            **place,
        },
        remote_python=spec.python,
        security=security,
    )


def _start_slurm(spec: Slurm, folder: Path, stack: contextlib.ExitStack) -> Any:
    from dask_jobqueue import SLURMCluster

    folder.mkdir(parents=True, exist_ok=True)
    private = stack.enter_context(tempfile.TemporaryDirectory(prefix=".tls-", dir=folder))
    security = _read_tls(_make_tls(Path(private).resolve()))
    logs = folder / "jobs"
    logs.mkdir(exist_ok=True)
    lifetime_s = round(spec.walltime_s * (1 - MARGIN))
    stagger_s = round(spec.walltime_s * MARGIN / 2)
    place = {"interface": spec.interface} if spec.interface else {"host": platform.node()}
    cluster = SLURMCluster(
        cores=spec.runs,
        processes=spec.runs,
        memory=f"{spec.runs * spec.memory_bytes}B",
        walltime=render_walltime(spec.walltime_s),
        queue=spec.queue,
        account=spec.account,
        interface=spec.interface,
        security=security,
        protocol="tls://",
        log_directory=str(logs.resolve()),
        job_name="trunkline",
        job_extra_directives=list(spec.directives),
        job_script_prologue=list(spec.before),
        worker_extra_args=[
            *("--memory-limit", "0"),
            *("--dashboard-address", DASHBOARD),
            *("--lifetime", f"{lifetime_s}s", "--lifetime-stagger", f"{stagger_s}s"),
        ],
        scheduler_options={"dashboard_address": DASHBOARD, **place},
        silence_logs=logging.CRITICAL,
    )
    cluster.scale(jobs=spec.jobs)
    return cluster


def _read_tls(files: Tls) -> Security:
    roles = {
        f"tls_{role}_{part}": getattr(files, part)
        for role in ("scheduler", "worker", "client")
        for part in ("cert", "key")
    }
    return Security(tls_ca_file=files.ca, require_encryption=True, **roles)


def _make_tls(folder: Path) -> Tls:
    """Write new certificates into a folder that only this user can read."""
    made = Security.temporary().get_tls_config_for_role("worker")
    for name in ("ca_file", "cert", "key"):
        (folder / name).write_text(made[name], encoding="ascii")
    return Tls(*(str(folder / name) for name in ("ca_file", "cert", "key")))


class _Mender:
    """Calls a function at most every MEND_S seconds."""

    def __init__(self, carry_out: Callable[[], None]) -> None:
        self._carry_out, self._last_s = carry_out, time.monotonic()

    def __call__(self) -> None:
        if time.monotonic() >= self._last_s + MEND_S:
            self._last_s = time.monotonic()
            self._carry_out()
