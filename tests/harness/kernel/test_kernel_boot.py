"""The embedded kernel runs a program like a subprocess, in a world of its own."""

import contextlib
import ctypes
import errno
import hashlib
import mmap
import os
import signal
import socket
import sys
import threading
import time
from pathlib import Path

import pytest
from conftest import Completed

from trunkline.harness.kernel import KernelError, boot
from trunkline.harness.network.interface import NetworkOptions

TICK_NS = 256  # what a reading of the clock takes
IO_URING_SETUP = 425  # the number of the system call on x86-64 and on arm64


def test_the_program_is_root_inside_and_its_output_and_exit_code_come_out(embedded):
    completed = embedded.script("import os; print('uid', os.getuid()); raise SystemExit(7)")
    assert (completed.code, completed.output) == (7, "uid 0\n")


CHURN = """
import mmap, sys
import numpy as np
size = 60 << 20
for _ in range(3):
    if sys.argv[1] == "arrays":
        blocks = [np.ones(size // 4, dtype=np.float32) for _ in range(6)]
    else:
        own = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        blocks = [mmap.mmap(-1, size, flags=own) for _ in range(6)]
        for block in blocks:
            for page in range(0, size, 4096):
                block[page] = 1
            block.close()
    blocks.clear()
print("done")
"""


@pytest.mark.parametrize("kind", ["arrays", "mappings"])
def test_memory_that_is_freed_and_taken_again_needs_few_of_the_host_s_mappings(embedded, kind):
    # 360 MB have 92,160 pages; a process has at most 65,530 mappings by default.
    completed = embedded.script(CHURN, kind)
    assert (completed.code, completed.output) == (0, "done\n")


def test_a_program_that_a_signal_ended_counts_as_128_and_its_number(embedded):
    completed = embedded.script("import os; os.kill(os.getpid(), 9)")
    assert completed.code == 128 + signal.SIGKILL


def test_a_program_that_does_not_exist_is_exit_code_127_with_the_reason(embedded, tmp_path):
    completed = embedded.run(["no-such-program"], cwd=tmp_path)
    assert completed.code == 127
    assert completed.output == (
        f"cannot run no-such-program in {tmp_path}: No such file or directory\n"
    )


def test_of_the_environment_only_what_was_asked_for_reaches_the_program(
    embedded, tmp_path, monkeypatch
):
    monkeypatch.setenv("SECRET", "of the host")
    completed = embedded.run(
        [
            "sh",
            "-c",
            "pwd; echo $COLOUR $OMP_NUM_THREADS $PYTHONHASHSEED $HOME $SECRET;"
            "cat /sys/module/tcp_cubic/parameters/hystart",
        ],
        cwd=tmp_path,
        env={"COLOUR": "deep blue"},
        parameters=["tcp_cubic.hystart=0"],
    )
    assert completed.output == f"{tmp_path}\ndeep blue 1 0 /run/tmp\n0\n"


@pytest.mark.parametrize(
    ("hystart", "expected"), [(True, "1 3"), (False, "0 3"), ("train", "1 1"), ("delay", "1 2")]
)
def test_hystart_is_as_the_network_s_options_say(embedded, hystart, expected):
    completed = embedded.run(
        ["sh", "-c", "cd /sys/module/tcp_cubic/parameters; echo $(cat hystart hystart_detect)"],
        parameters=NetworkOptions(hystart=hystart).kernel_parameters,
    )
    assert completed.output == f"{expected}\n"


def test_a_program_reads_all_bytes_of_its_input_and_then_its_end(embedded, tmp_path):
    given = tmp_path / "given"
    given.write_bytes(bytes(range(256)) * 4000)
    with given.open("rb") as source:
        completed = embedded.run(["sha256sum"], stdin=source.fileno())
    assert completed.output == f"{hashlib.sha256(given.read_bytes()).hexdigest()}  -\n"


def test_a_program_that_reads_no_input_is_not_held_up_by_it(embedded):
    reader, writer = os.pipe()
    with os.fdopen(reader), os.fdopen(writer, "wb") as sink:
        sink.write(b"some lines\n" * 1000)
        sink.flush()
        assert embedded.run(["echo", "done"], stdin=reader).output == "done\n"


def test_without_input_a_program_waits_for_it_instead_of_finding_its_end(embedded):
    assert embedded.run(["timeout", "5", "cat"]) == Completed(124, "")


def test_output_is_the_program_s_bytes_however_many():
    expected = bytes(range(256)) * 16384
    chunks = []
    source = "import sys; sys.stdout.buffer.write(bytes(range(256)) * 16384)"
    code = boot.run([sys.executable, "-c", source], on_output=chunks.append, timeout_s=60)
    assert code == 0
    assert b"".join(chunks) == expected


def test_output_comes_out_while_the_program_still_runs(tmp_path):
    """The program waits for a file that only its own output makes us write."""
    source = (
        "import pathlib, time\n"
        "print('ask')\n"
        "while not pathlib.Path('answer').exists(): time.sleep(0.1)\n"
    )

    def answer(data):
        if b"ask" in data:
            (tmp_path / "answer").touch()

    argv = [sys.executable, "-c", source]
    assert boot.run(argv, cwd=tmp_path, on_output=answer, timeout_s=60) == 0


def files_of_the_guest():
    Path("/run/mine").write_text("x")
    Path("/dev/shm/mine").write_text("x")
    Path(os.environ["TMPDIR"], "mine").write_text("x")
    return [Path("/proc/self/status").exists(), Path("/sys/class/net/lo").exists()]


def test_scratch_folders_are_the_guest_s_own(embedded):
    assert embedded.call(files_of_the_guest) == [True, True]
    assert not Path("/run/mine").exists()
    assert not Path("/dev/shm/mine").exists()
    assert not Path(boot.ENVIRONMENT["TMPDIR"], "mine").exists()


@pytest.mark.parametrize("covered", ["/dev/shm", "/tmp"])
def test_what_is_written_in_the_working_folder_stays_on_the_host(embedded, covered, tmp_path):
    folder = Path(covered, f"trunkline test {os.getpid()}", "a", "b")
    folder.mkdir(parents=True)
    try:
        assert embedded.run(["sh", "-c", "echo kept > file"], cwd=folder).code == 0
        assert (folder / "file").read_text() == "kept\n"
    finally:
        (folder / "file").unlink(missing_ok=True)
        for parent in (folder, folder.parent, folder.parent.parent):
            parent.rmdir()


def test_a_working_folder_that_does_not_exist_is_an_error(embedded, tmp_path):
    with pytest.raises(KernelError, match="nowhere: the guest needs this folder"):
        embedded.run(["true"], cwd=tmp_path / "nowhere")


def test_no_room_for_the_guest_s_memory_is_an_error_that_names_what_was_tried(embedded):
    with pytest.raises(KernelError, match=r"no place .* /dev/shm has \d+ MB free.*remedy: "):
        embedded.run(["true"], memory_mb=100_000_000)


def open_many(folder, count):
    with contextlib.ExitStack() as files:
        for number in range(count):
            files.enter_context(Path(folder, str(number)).open("w"))
        return count


def test_a_guest_may_have_thousands_of_the_host_s_files_open(embedded, tmp_path):
    assert embedded.call(open_many, str(tmp_path), 3000) == 3000


def sleep_for(seconds):
    began_ns = time.monotonic_ns()
    time.sleep(seconds)
    return (time.monotonic_ns() - began_ns) / 1e9, time.time()


def test_ten_minutes_of_virtual_sleep_take_seconds(embedded):
    began_s = time.monotonic()
    slept_s, calendar_s = embedded.call(sleep_for, 600)
    assert slept_s == pytest.approx(600, abs=0.001)
    assert calendar_s == pytest.approx(boot.VIRTUAL_EPOCH_S + boot.SETTLE_S + 600, abs=0.1)
    assert time.monotonic() - began_s < 30


def send_to_itself(times):
    with socket.create_server(("127.0.0.1", 0)) as server:
        near = socket.create_connection(server.getsockname())
        far, _ = server.accept()
    with near, far:
        before_ns = time.monotonic_ns()
        for _ in range(times):
            near.sendall(bytes(1000))
            assert len(far.recv(1000)) == 1000
        return time.monotonic_ns() - before_ns


def test_sending_and_receiving_take_no_time_although_tcp_reads_the_clock(embedded):
    assert embedded.call(send_to_itself, 1000) <= 2 * TICK_NS


def test_the_real_clock_is_the_host_s(embedded):
    began_s = time.time()
    slept_s, calendar_s = embedded.call(sleep_for, 0.5, clock="real")
    assert 0.5 <= slept_s < 5
    assert began_s < calendar_s < time.time()
    assert time.time() - began_s >= 0.5


def set_up_io_uring():
    """Ask for a ring; if there is one, use it as libuv does: map it, touch it and fork."""
    libc = ctypes.CDLL(None, use_errno=True)
    ring = libc.syscall(IO_URING_SETUP, 4096, ctypes.create_string_buffer(120))
    error = ctypes.get_errno() if ring < 0 else 0
    if ring >= 0:
        ends = ((0, 1 << 17), (0x10000000, 1 << 18))
        maps = [mmap.mmap(ring, size, mmap.MAP_SHARED, offset=offset) for offset, size in ends]
        for _ in range(20):
            child = os.fork()
            for pages in maps:
                for at in range(0, len(pages), mmap.PAGESIZE):
                    pages[at + 64] = 0
            if child == 0:
                os._exit(0)
            os.waitpid(child, 0)
    return [os.getuid(), errno.errorcode.get(error)]


def test_io_uring_which_would_corrupt_the_guest_does_not_exist_even_for_root(embedded):
    assert embedded.call(set_up_io_uring) == [0, "ENOSYS"]


DRAWS = """
import os, socket, time
listener = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(listener.getsockname())
time.sleep(10)
print(os.urandom(8).hex(), listener.getsockname(), client.getsockname(), time.monotonic_ns())
"""


def test_a_program_that_listens_on_ipv6_hears_ipv4_although_no_ipv6_address_exists(embedded):
    completed = embedded.script(
        "import socket\n"
        "listener = socket.create_server(('::', 0), family=socket.AF_INET6, dualstack_ipv6=True)\n"
        "port = listener.getsockname()[1]\n"
        "peer = socket.create_connection(('127.0.0.1', port))\n"
        "print(listener.accept()[1][0])\n"
        "try: socket.create_connection(('::1', port))\n"
        "except OSError as error: print(error.strerror)\n"
    )
    assert completed.output.splitlines() == ["::ffff:127.0.0.1", "Cannot assign requested address"]


def test_the_seed_decides_every_random_draw_and_every_nanosecond(embedded):
    first, second, other = (embedded.script(DRAWS, seed=seed) for seed in (7, 7, 8))
    assert first.code == 0
    assert first == second
    assert first != other


def test_guests_run_side_by_side(embedded):
    """Each guest waits until the host has heard of both."""
    heard = threading.Barrier(2, timeout=60)
    codes = {}

    def run(name):
        def answer(data):
            if b"\n" in data:
                heard.wait()

        argv = [sys.executable, "-c", "print('up')"]
        codes[name] = boot.run(argv, on_output=answer, timeout_s=60)

    threads = [threading.Thread(target=run, args=(name,)) for name in ("a", "b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert codes == {"a": 0, "b": 0}
