"""What schedulers and workers of all kinds get that Trunkline starts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from distributed import Security

from trunkline.harness.runs.cluster.cluster_file import Tls

SETTINGS: Mapping[str, Any] = {
    "distributed.scheduler.allowed-failures": 1000,
    "distributed.scheduler.work-stealing": False,
    "distributed.worker.profile.enabled": False,  # a worker only waits: a third of what it costs
    **{
        f"distributed.worker.memory.{each}": False
        for each in ("target", "spill", "pause", "terminate")
    },
}
"""Dask's configuration."""

ONE_RUN: Mapping[str, Any] = {"nthreads": 1, "memory_limit": 0}
"""What each worker gets, which carries out one run at a time."""

HERE = "127.0.0.1"
DASHBOARD = f"{HERE}:0"
"""Where schedulers and workers serve pages over HTTP: without TLS, so only on their machine."""


def read_tls(files: Tls) -> Security:
    """What Dask needs to use these files."""
    roles = {
        f"tls_{role}_{part}": getattr(files, part)
        for role in ("scheduler", "worker", "client")
        for part in ("cert", "key")
    }
    return Security(tls_ca_file=files.ca, require_encryption=True, **roles)
