"""A pool of processes for computing, which end with this one."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

from trunkline.harness.processes.fork import end_with


@contextlib.contextmanager
def worker_processes(count: int) -> Iterator[ProcessPoolExecutor]:
    """A pool of so many processes, for the main thread.

    They die with this process, and at once if an exception leaves the context. Ctrl-C is for this
    process alone.
    """
    before = multiprocessing.active_children()
    with ProcessPoolExecutor(count, initializer=end_with, initargs=(os.getpid(),)) as pool:
        try:
            yield pool
        except BaseException:
            for child in multiprocessing.active_children():
                if child not in before:
                    child.kill()
            pool.shutdown(cancel_futures=True)
            raise
