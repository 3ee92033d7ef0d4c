"""For programs in Python that Trunkline runs: how they tell what they do, and how they compute.

Outside Trunkline nothing is reported and nothing waits. Only the standard library is used, so that
a program whose Python has no Trunkline can bring a copy of this file.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path


def report(event: str, **fields: str | float) -> None:
    """Write one event of this site, stamped now, to the run's log; a single write of one line."""
    where = os.environ.get("TRUNKLINE_REPORTS")
    if where is None:
        return
    line = json.dumps({"event": event, "monotonic_ns": time.monotonic_ns(), **fields})
    with Path(where).open("wb", buffering=0) as reports:
        reports.write(line.encode() + b"\n")


@contextlib.contextmanager
def sync(task: int, size_bytes: int, operation: str = "allreduce") -> Iterator[None]:
    """What happens inside is the synchronization `task`, which has the same number everywhere."""
    report("sync_started", task=task, bytes=size_bytes, operation=operation)
    yield
    report("sync_finished", task=task)


@contextlib.contextmanager
def computing(iteration: int, modelled_s: float) -> Iterator[None]:
    """What happens inside takes so many seconds of the run's clock, on a fast enough machine.

    With the virtual clock computing takes no time at all, so all of it is waited for here.
    """
    report("compute_started", iteration=iteration)
    start_s = time.monotonic()
    yield
    if "TRUNKLINE_REPORTS" in os.environ:
        time.sleep(max(0.0, start_s + modelled_s - time.monotonic()))
    report("compute_finished", iteration=iteration)
