"""Other work on the machine, for tests that nothing depends on it."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator

BURSTS = """
import os, time
parent = os.getppid()
while os.getppid() == parent:
    until_s = time.monotonic() + 0.01
    while time.monotonic() < until_s:
        pass
    time.sleep(0.05)
"""


@contextlib.contextmanager
def all_processors_busy() -> Iterator[None]:
    """Burn on every processor, 10 of every 60 milliseconds, so that it comes and goes."""
    burner = [sys.executable, "-c", BURSTS]
    burners = [subprocess.Popen(burner) for _ in os.sched_getaffinity(0)]
    try:
        yield
    finally:
        for process in burners:
            process.kill()
            process.wait()
