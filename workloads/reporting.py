"""Functions for Python programs that Trunkline runs: to report events, and to take compute time.

Outside Trunkline these functions do nothing. This file uses the standard library only, so that a
program whose Python does not have Trunkline can bring a copy of it.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path


def report(event: str, **fields: str | float) -> None:
    """Write one event of this site, with the present time, to the run's event log."""
    where = os.environ.get("TRUNKLINE_REPORTS")
    if where is None:
        return
    line = json.dumps({"event": event, "monotonic_ns": time.monotonic_ns(), **fields})
    # One unbuffered write per line: several processes of a site write to the same pipe.
    with Path(where).open("wb", buffering=0) as reports:
        reports.write(line.encode() + b"\n")


@contextlib.contextmanager
def sync(task: int, size_bytes: int, operation: str = "allreduce") -> Iterator[None]:
    """Report the block as the synchronization `task`; its number is the same at all sites.

    Args:
        task: the number of the synchronization.
        size_bytes: the bytes that it synchronizes.
        operation: its kind; `allreduce` is one of all sites.
    """
    report("sync_started", task=task, bytes=size_bytes, operation=operation)
    yield
    report("sync_finished", task=task)


@contextlib.contextmanager
def computing(iteration: int, modelled_s: float) -> Iterator[None]:
    """Let the block take `modelled_s` seconds of the run's clock, if the machine is fast enough.

    With the virtual clock, computing itself takes no time, so the end of the block waits that long.
    """
    report("compute_started", iteration=iteration, process=os.getpid())
    start_s = time.monotonic()
    yield
    if "TRUNKLINE_REPORTS" in os.environ:
        time.sleep(max(0.0, start_s + modelled_s - time.monotonic()))
    report("compute_finished", iteration=iteration, process=os.getpid())


_steps = itertools.count()


def compute() -> None:
    """Take the time of this site's next step, if the scenario says what steps take (`compute`).

    For programs without a PyTorch optimizer, whose steps take that time without this function.
    """
    where = os.environ.get("TRUNKLINE_COMPUTE")
    if where is None:
        return
    times_s = Path(where).read_text().split()
    number = next(_steps)
    report("compute_started", iteration=number, process=os.getpid())
    time.sleep(float(times_s[number % len(times_s)]))
    report("compute_finished", iteration=number, process=os.getpid())
