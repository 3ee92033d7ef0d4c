"""Starts the clusters of a `cluster_file`, and connects to them.

What a worker may use is not left to Dask: the nanny sees its own process, but neither the run's
process nor the guest. So workers have one thread each, memory limits are off, and a job of SLURM
asks for the memory of its runs. A run is repeated here rather than by Dask, which blames a run for
every worker that is lost with it.
"""

from __future__ import annotations

import contextlib
import logging
import signal
import sys
from collections.abc import Callable, Iterator
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any

import dask
from distributed import Client, LocalCluster
from distributed.utils import format_dashboard_link

from trunkline.harness.runs.cluster import ClusterError
from trunkline.harness.runs.cluster.cluster_file import (
    LOOPBACK,
    Address,
    Cluster,
    Local,
    Ssh,
)
from trunkline.harness.runs.cluster.cluster_pool import ClusterPool
from trunkline.harness.runs.cluster.dask_settings import (
    DASHBOARD,
    HERE,
    ONE_RUN,
    SETTINGS,
    read_tls,
)


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
            client, where, mend = _start(spec, folder, at_once, stack, tell)
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
    spec: Cluster,
    folder: Path,
    at_once: int,
    stack: contextlib.ExitStack,
    tell: Callable[[str], None],
) -> tuple[Client, str, Callable[[], None]]:
    mend: Callable[[], None] = lambda: None  # noqa: E731
    if isinstance(spec, Address):
        given = {"security": read_tls(spec.tls)} if spec.tls else {}
        client = stack.enter_context(Client(spec.address, **given))
        return client, spec.address, mend
    if isinstance(spec, Local):
        with _deaf_to_ctrl_c():
            cluster = stack.enter_context(_start_local(spec.runs or at_once))
    elif isinstance(spec, Ssh):
        from trunkline.harness.runs.cluster import ssh_machines  # which needs asyncssh

        cluster, mend = ssh_machines.start(spec, stack, tell)
    else:
        from trunkline.harness.runs.cluster import slurm_jobs

        cluster, mend = slurm_jobs.start(spec, folder, stack, tell)
    return stack.enter_context(Client(cluster)), cluster.scheduler_address, mend


def _start_local(workers: int) -> Any:
    return LocalCluster(
        n_workers=workers,
        threads_per_worker=ONE_RUN["nthreads"],
        memory_limit=ONE_RUN["memory_limit"],
        host=HERE,
        dashboard_address=DASHBOARD,
        security=True,
        silence_logs=logging.CRITICAL,
    )


@contextlib.contextmanager
def _deaf_to_ctrl_c() -> Iterator[None]:
    """Keep Ctrl-C from all threads and processes that start meanwhile, and from those of theirs.

    A terminal sends it to workers, too. But it is the command that ends them, and a worker would
    write a traceback. Ctrl-C that comes meanwhile reaches the command afterwards.
    """
    resource_tracker.ensure_running()  # the thread that starts it hears Ctrl-C again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
