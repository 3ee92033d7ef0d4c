"""However a guest ends, it says why, and no process and no file of it is left behind."""

import itertools
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from trunkline.harness.kernel import KernelError, boot, probes
from trunkline.harness.kernel.stall_watch import StallWatch

ROOT = Path(__file__).parents[3]
SEEDS = itertools.count(os.getpid() * 1000)
UNTIL_GONE_S = 10.0

# A host process of its own that runs `boot.run`, because it is to be killed.
HOST = """
import signal, sys
from pathlib import Path
from types import SimpleNamespace
from trunkline.harness.kernel import boot, probes, process
process.INTERRUPT_GRACE_S = 100.0  # no test waits for it
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job ignores it
folder, seed, clock, source = sys.argv[1:]
probes.MEMORY_FOLDERS = (Path(folder),)
boot.run([sys.executable, "-c", source], clock=clock, seed=int(seed))
"""

# Programs for the guest. They sleep for short times, because Python may miss a signal that comes
# just before it falls asleep.
SLEEP = """
import time
try:
    print("up")
    while True: time.sleep(0.1)
except KeyboardInterrupt:
    print("saved")
"""
TICKS = """
import time
for tick in range(1500):
    time.sleep(0.1)
    print(f"{time.monotonic_ns()} ns")
"""
STUBBORN = """
import os, signal, time
signal.signal(signal.SIGINT, lambda *_: os.write(1, b"no\\n"))
os.write(1, b"up\\n")  # not print, which a signal may not enter twice
while True: time.sleep(0.1)
"""
SPIN = "while True: pass"
EXHAUST = """
open("/proc/sys/vm/overcommit_memory", "w").write("1")
open("/proc/sys/vm/panic_on_oom", "w").write("{panic}")
bytearray(300 << 20)
"""


@pytest.fixture
def guest(embedded, tmp_path_factory, monkeypatch):
    """A function that runs a program in a guest, which is known by its seed and memory folder."""
    guest = Tagged(Path("/dev/shm", f"trunkline-test-{os.getpid()}"))
    guest.folder.mkdir()
    monkeypatch.setattr(probes, "MEMORY_FOLDERS", (guest.folder,))
    yield guest
    guest.wait_until_gone()
    guest.folder.rmdir()  # fails if a file is left in it


class Tagged:
    def __init__(self, folder):
        self.folder = folder
        self.seed = next(SEEDS)

    def run(self, source, **options):
        argv = [sys.executable, "-c", source]
        return boot.run(argv, seed=self.seed, on_output=lambda _: None, **options)

    def host(self, source, clock="real"):
        argv = [sys.executable, "-c", HOST, str(self.folder), str(self.seed), clock, source]
        pipe = subprocess.PIPE
        # Unbuffered, or `readline` would take from `communicate` what it reads ahead.
        return subprocess.Popen(argv, cwd=ROOT, stdout=pipe, stderr=pipe, bufsize=0)

    def processes(self):
        tag = f"\0random_seed={self.seed}\0".encode()
        return [
            int(entry.name)
            for entry in Path("/proc").iterdir()
            if entry.name.isdigit() and tag in _command_line(entry)
        ]

    def wait_until_gone(self):
        deadline_s = time.monotonic() + UNTIL_GONE_S
        while self.processes():
            assert time.monotonic() < deadline_s, f"left behind: {self.processes()}"
            time.sleep(0.01)


def _command_line(process):
    try:
        return (process / "cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def test_a_finished_run_has_left_nothing_when_it_returns(guest):
    assert guest.run("print('x')") == 0
    assert guest.processes() == []
    assert list(guest.folder.iterdir()) == []


def test_background_processes_of_the_program_end_with_it(guest):
    source = "import subprocess; subprocess.Popen(['sleep', '1000'])"
    assert guest.run(source, timeout_s=60) == 0
    assert guest.processes() == []


def test_a_spinning_program_is_ended_because_its_clock_stands_still(guest):
    words = r"clock stood still at \d+\.\d+ s.*it was process \d+, python.*, at no site; remedy: "
    with pytest.raises(KernelError, match=words):
        guest.run(SPIN, stall_timeout_s=2, timeout_s=60)


def test_a_program_that_asks_again_and_again_is_ended_although_its_clock_creeps(guest):
    source = (
        "import os\n"
        "end, _ = os.pipe2(os.O_NONBLOCK)\n"
        "while True:\n"
        "    try: os.read(end, 1)\n"
        "    except BlockingIOError: pass\n"
    )
    with pytest.raises(KernelError, match=r"no process waited from 1\.\d+ s to \d+\.\d+ s of the"):
        guest.run(source, stall_timeout_s=4, timeout_s=60)


@pytest.mark.parametrize(("boot_s", "allowed_s"), [(0.4, 60), (10.0, 1200)])
def test_where_booting_is_slow_a_process_may_compute_for_longer(monkeypatch, boot_s, allowed_s):
    now_s = itertools.count(0, 10)
    monkeypatch.setattr(time, "monotonic", lambda: next(now_s))
    used_s = {1: 0.0}
    guest = SimpleNamespace(
        virtual_time_ns=-1, waited_ns=-1, interrupted=False, spinning="", cpu_s=used_s.copy
    )
    watch = StallWatch(guest)
    watch.check()
    guest.virtual_time_ns = guest.waited_ns = 1_000_000_000
    for computed_s in (boot_s, boot_s + allowed_s - 1):
        used_s[1] = computed_s
        watch.check()
    assert watch.warning == (
        f"no process waits while one computes: {allowed_s - 1} s of processor time; "
        f"after {allowed_s} s it counts as spinning"
    )
    used_s[1] = boot_s + allowed_s + 1
    with pytest.raises(KernelError, match=f"at 1.000 s while one process used {allowed_s} s"):
        watch.check()


def test_an_interrupted_run_says_why_a_process_may_compute_for_only_three_seconds(monkeypatch):
    used_s = {1: 0.0}
    guest = SimpleNamespace(
        virtual_time_ns=1, waited_ns=1, interrupted=True, spinning="", cpu_s=used_s.copy
    )
    watch = StallWatch(guest, 60.0)
    watch.check()
    used_s[1] = 2.0
    watch.check()
    assert watch.warning is not None
    assert watch.warning.endswith("after 3 s it counts as spinning, as the run was interrupted")
    used_s[1] = 4.0
    with pytest.raises(KernelError, match="3 s of processor time, as the run was interrupted: it"):
        watch.check()


def test_a_warning_ends_when_processes_wait_again(monkeypatch):
    now_s = itertools.count(0, 10)
    monkeypatch.setattr(time, "monotonic", lambda: next(now_s))
    used_s = {1: 0.0}
    guest = SimpleNamespace(
        virtual_time_ns=1, waited_ns=1, interrupted=False, spinning="", cpu_s=used_s.copy
    )
    watch = StallWatch(guest, 60.0)
    said = []
    for used_s[1], guest.waited_ns in ((0, 1), (9, 1), (11, 1), (12, 2), (20, 2), (23, 2)):
        watch.check()
        said.append(watch.warning is not None)
    assert said == [False, False, True, False, False, True]


def test_spinning_on_the_real_clock_is_no_stall(guest):
    with pytest.raises(KernelError, match="more than 3 s of real time"):
        guest.run(SPIN, clock="real", stall_timeout_s=0.5, timeout_s=3)


def test_computing_in_turns_is_no_stall(guest):
    """Three processes compute, together for longer than the timeout, none alone as long."""
    source = (
        "import os, resource\n"
        "for _ in range(3):\n"
        "    child = os.fork()\n"
        "    if not child:\n"
        "        for _ in range(8_000_000): pass\n"
        "        os._exit(0)\n"
        "    os.waitpid(child, 0)\n"
    )
    assert guest.run(source, stall_timeout_s=2, timeout_s=60) == 0


def test_a_run_that_takes_too_long_is_ended(guest):
    with pytest.raises(KernelError, match="more than 2 s of real time"):
        guest.run(SLEEP, clock="real", timeout_s=2)


def test_a_program_that_runs_out_of_memory_is_named_as_such(guest):
    with pytest.raises(KernelError, match=r"ran out of memory.*\n.*Killed process"):
        guest.run(EXHAUST.format(panic=0), memory_mb=128)


def test_a_kernel_panic_is_reported_with_the_kernel_s_last_words(guest):
    with pytest.raises(KernelError, match=r"ended before its program did.*\n.*Kernel panic"):
        guest.run(EXHAUST.format(panic=2), memory_mb=128)


def test_an_exception_on_the_way_ends_the_guest(guest):
    class ExplosionError(Exception):
        pass

    def explode(_):
        raise ExplosionError

    with pytest.raises(ExplosionError):
        boot.run([sys.executable, "-c", SLEEP], clock="real", seed=guest.seed, on_output=explode)
    assert guest.processes() == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_interrupts_the_program_and_then_takes_its_usual_effect(guest, number):
    with guest.host(SLEEP) as host:
        assert host.stdout.readline() == b"up\n"
        host.send_signal(number)
        output, _ = host.communicate(timeout=30)
    assert (output, host.returncode) == (b"saved\n", -number)
    assert guest.processes() == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_the_guest_boots_ends_it_at_once(guest, number):
    with guest.host("import time\nwhile True: time.sleep(1)", "virtual") as host:
        while not guest.processes():
            time.sleep(0.001)
        host.send_signal(number)
        host.communicate(timeout=60)
    assert host.returncode == -number
    assert guest.processes() == []


def test_a_signal_does_not_wait_for_a_process_that_computes_for_ever(guest):
    """No other process of the guest runs, so the program does not get to know of the signal."""
    spin = f"import os\nif not os.fork():\n    print('up', flush=True)\n    {SPIN}\nos.wait()"
    with guest.host(spin, "virtual") as host:
        assert host.stdout.readline() == b"up\n"
        host.send_signal(signal.SIGTERM)
        host.communicate(timeout=50)  # MIN_STALL_S is more
    assert host.returncode == -signal.SIGTERM
    assert guest.processes() == []


def test_a_second_signal_ends_a_program_that_ignores_the_first(guest):
    with guest.host(STUBBORN) as host:
        assert host.stdout.readline() == b"up\n"
        host.send_signal(signal.SIGINT)
        assert host.stdout.readline() == b"no\n"
        host.send_signal(signal.SIGINT)
        host.communicate(timeout=60)
    assert host.returncode == -signal.SIGINT
    assert guest.processes() == []


def test_ctrl_z_stops_virtual_time_until_the_run_goes_on(guest):
    with guest.host(TICKS, clock="virtual") as host:
        undisturbed, _ = host.communicate(timeout=60)
    with guest.host(TICKS, clock="virtual") as host:
        first = host.stdout.readline()
        host.send_signal(signal.SIGTSTP)
        os.waitid(os.P_PID, host.pid, os.WSTOPPED)
        host.send_signal(signal.SIGCONT)
        rest, _ = host.communicate(timeout=60)
    assert undisturbed.count(b"\n") == 1500
    assert first + rest == undisturbed


def test_sigkill_of_the_host_s_process_takes_the_guest_along(guest):
    with guest.host(SLEEP) as host:
        assert host.stdout.readline() == b"up\n"
        assert guest.processes() != []
        host.kill()
    guest.wait_until_gone()


def test_sigkill_of_the_kernel_is_reported(guest):
    with guest.host(SLEEP) as host:
        assert host.stdout.readline() == b"up\n"
        os.kill(min(guest.processes()), signal.SIGKILL)
        _, errors = host.communicate(timeout=30)
    assert errors.endswith(
        b"the embedded kernel ended before its program did, killed by SIGKILL from outside, by a "
        b"person or for lack of memory (dmesg says so)\n"
    )
    assert guest.processes() == []
