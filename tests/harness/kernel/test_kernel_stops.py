"""The processes of a guest stop untraced where the host can do that, with equal results."""

import ctypes
import itertools
import os
import signal
import sys
from pathlib import Path

import pytest

from trunkline.harness.kernel import KernelError, boot

SEEDS = itertools.count(os.getpid() * 1000)

DISPATCH = 59
"""PR_SET_SYSCALL_USER_DISPATCH, of Linux 5.11."""

DOES_ALL_SORTS = """
import hashlib, mmap, os, signal, socket, subprocess, threading, time

def show(*values):
    print(time.monotonic_ns(), *values, flush=True)

show(subprocess.run(["cat", "/proc/self/comm"], capture_output=True, check=True).stdout)
shared = mmap.mmap(-1, 1 << 20)
if os.fork() == 0:                              # memory of one's own, and memory of both
    shared[:4] = b"from"
    os._exit(7)
show(os.waitstatus_to_exitcode(os.wait()[1]), bytes(shared[:4]))
data = bytearray(os.urandom(1 << 22))           # many missing pages
show(hashlib.sha256(data).hexdigest())
caught = []
signal.signal(signal.SIGALRM, lambda *_: caught.append(time.monotonic_ns()))
signal.setitimer(signal.ITIMER_REAL, 0.25, 0.25)
while len(caught) < 3:
    signal.pause()
signal.setitimer(signal.ITIMER_REAL, 0)
show(caught)
server = socket.create_server(("127.0.0.1", 0))
def send():
    with socket.create_connection(server.getsockname()) as sender:
        for _ in range(64):
            sender.sendall(data[:1 << 16])
threads = [threading.Thread(target=send) for _ in range(2)]
for thread in threads:
    thread.start()
for _ in threads:                               # threads of one memory
    peer, _ = server.accept()
    got = hashlib.sha256()
    while part := peer.recv(1 << 15):
        got.update(part)
    show(got.hexdigest())
for thread in threads:
    thread.join()
show(sum(0.1 * n for n in range(100_000)))      # floating point over system calls
ended = subprocess.run(["sh", "-c", "kill -SEGV $$"])
show(ended.returncode)
"""

WAIT = """
import time
print("up", flush=True)
while True:
    time.sleep(0.05)
"""


def run(source, on_output, parameters=(), clock="virtual"):
    seed = next(SEEDS)
    return boot.run(
        [sys.executable, "-c", source],
        seed=seed,
        clock=clock,
        parameters=parameters,
        on_output=lambda data: on_output(seed, data),
        timeout_s=120,
    )


def processes_of(seed):
    """The host's processes of a guest, as (process, its tracer or 0, its parent)."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if f"random_seed={seed}".encode() not in (folder / "cmdline").read_bytes().split(b"\0"):
                continue
            status = dict(
                line.split(":\t", 1) for line in (folder / "status").read_text().splitlines()
            )
        except (FileNotFoundError, ProcessLookupError):
            continue
        yield int(status["Pid"]), int(status["TracerPid"]), int(status["PPid"])


def can_do_without():
    return ctypes.CDLL(None).prctl(DISPATCH, 0, 0, 0, 0) == 0


@pytest.mark.parametrize("parameters", [(), ("traced",)])
def test_processes_are_traced_only_where_it_is_needed_or_asked_for(parameters):
    tracers = []

    def look(seed, _):
        found = list(processes_of(seed))
        tracers.extend(tracer for _, tracer, _ in found)
        kernel = next(process for process, _, parent in found if parent == os.getpid())
        os.kill(kernel, signal.SIGKILL)

    with pytest.raises(KernelError):
        run(WAIT, look, parameters)
    assert len(tracers) > 1
    assert any(tracers) == (bool(parameters) or not can_do_without())


def test_a_program_does_the_same_at_the_same_times_traced_or_not(embedded):
    ways = [
        embedded.script(DOES_ALL_SORTS, seed=5, parameters=parameters)
        for parameters in ((), ("traced",))
    ]
    assert [way.code for way in ways] == [0, 0]
    assert ways[0].output == ways[1].output
    assert len(ways[0].output.splitlines()) == 8


@pytest.mark.parametrize("clock", ["virtual", "real"])
@pytest.mark.parametrize("parameters", [(), ("traced",)])
def test_a_process_that_the_host_kills_ends_by_a_signal_in_the_guest(parameters, clock):
    def kill(seed, _):
        found = list(processes_of(seed))
        kernel = next(process for process, _, parent in found if parent == os.getpid())
        last = max(process for process, _, parent in found if parent == kernel)
        os.kill(last, signal.SIGKILL)

    assert run(WAIT, kill, parameters, clock) == 128 + signal.SIGSEGV
