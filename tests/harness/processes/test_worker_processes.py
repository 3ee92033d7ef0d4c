"""Processes of a pool end with the process that has it, however that ends."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from trunkline.harness.processes.worker_processes import worker_processes

PROGRAM = """
import os, signal, sys, time
from trunkline.harness.processes.ending import end_by
from trunkline.harness.processes.worker_processes import worker_processes

def work(number):
    os.write(1, b"works\\n")
    time.sleep(600)

end_by(signal.SIGTERM)
signal.signal(signal.SIGINT, signal.default_int_handler)
with worker_processes(2) as pool:
    list(pool.map(work, range(4)))
"""


def list_children(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(each) for each in children.read_text().split()]


def is_alive(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_workers_end_with_their_parent(number: signal.Signals) -> None:
    command = [sys.executable, "-c", PROGRAM]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        assert [parent.stdout.readline() for _ in range(2)] == [b"works\n"] * 2
        workers = list_children(parent.pid)
        assert len(workers) == 2
        parent.send_signal(number)
        parent.wait(30)
    deadline_s = time.monotonic() + 30
    while any(map(is_alive, workers)):
        assert time.monotonic() < deadline_s, workers
        time.sleep(0.01)


def test_results_come_back_and_an_error_ends_the_others() -> None:
    with worker_processes(2) as pool:
        assert list(pool.map(abs, [-1, 2, -3])) == [1, 2, 3]
    began_s = time.monotonic()
    with pytest.raises(ValueError, match="math domain"), worker_processes(2) as pool:  # noqa: PT012
        pool.submit(time.sleep, 600)
        raise ValueError("math domain")
    assert time.monotonic() - began_s < 60
