"""Processes that a server forks for us."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from trunkline.agents.timing.exact_waits import await_readable
from trunkline.harness.processes.fork_server import ForkServer

DEADLINE_S = 60
SERVER = """
import os, sys, time
from trunkline.harness.processes.fork_server import serve

def act():
    print(os.getppid() == server, os.getpgrp() == os.getpid(), flush=True)
    word = sys.stdin.read()
    if word == "stay":
        time.sleep(1000)
    return int(word)

server = os.getpid()
serve(int(sys.argv[-1]), act)
"""


@pytest.fixture
def server(tmp_path):
    with ForkServer((sys.executable, "-c", SERVER), tmp_path) as server:
        yield server


def fork(server, word):
    given, given_end = os.pipe()
    output, output_end = os.pipe()
    os.write(given_end, word.encode())
    os.close(given_end)
    process = server.fork(given, output_end)
    os.close(given)
    os.close(output_end)
    return process, output


def read(fd):
    with os.fdopen(fd) as file:
        return file.read()


def read_line(fd):
    """Wait for a whole line, which comes in pieces."""
    with os.fdopen(fd, "rb", buffering=0, closefd=False) as file:
        return file.readline()


def test_a_process_has_its_own_descriptors_group_and_exit_code(server):
    one, other = fork(server, "3"), fork(server, "4")
    assert [read(output) for _, output in (other, one)] == ["True True\n"] * 2
    assert [process.wait() for process, _ in (one, other)] == [3, 4]


def test_an_error_of_a_process_is_in_its_output(server):
    process, output = fork(server, "no number")
    assert "ValueError: invalid literal for int()" in read(output)
    assert process.wait() == 70


def test_a_signal_reaches_a_process_and_is_its_exit_code(server):
    process, output = fork(server, "stay")
    read_line(output)
    process.send(signal.SIGTERM)
    process.await_end(DEADLINE_S)
    assert process.wait() == -signal.SIGTERM
    os.close(output)


def test_processes_end_with_their_server(server):
    process, output = fork(server, "stay")
    parent = Path(f"/proc/{process.pid}/stat").read_text().split()[3]
    read_line(output)
    os.kill(int(parent), signal.SIGKILL)
    assert await_readable(process.pidfd, DEADLINE_S)
    assert process.wait() is None
    assert read(output) == ""


def test_a_server_that_has_ended_forks_nothing(tmp_path):
    with (
        ForkServer((sys.executable, "-c", "raise SystemExit(5)"), tmp_path) as server,
        pytest.raises(ConnectionError),
    ):
        fork(server, "3")
