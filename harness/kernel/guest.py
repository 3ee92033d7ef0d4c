"""The first process inside the embedded kernel: prepares the guest, runs one program, powers off.

`boot` starts it by path, before anything is mounted, so it uses the standard library only. Its
argument is a private folder on the host with `request.json`. It removes the folder as soon as it
has read the request, so that no guest leaves a file behind.

Three serial lines connect it to the host. `/dev/ttyS0` carries the output of the program.
`/dev/ttyS1` carries one-line reports to the host: `beat <virtual time> <waited>` every BEAT_S of
virtual time, both in ns, and `exit <code>` at the end. `waited` is the virtual time that passed
while all processes waited. The host sends single bytes: INTERRUPT passes SIGINT to
the program, NUDGE passes SIGUSR1. When the host hangs up, the guest powers off. `/dev/ttyS2`
carries the program's standard input in blocks: a byte with the length, then as many bytes; a block
of length 0 is the end.
"""

import ctypes
import fcntl
import json
import os
import resource
import shutil
import signal
import socket
import struct
import sys
import termios
import time
import tty
from collections.abc import Sequence
from pathlib import Path
from select import POLLIN, POLLOUT, poll
from typing import Any

BEAT_S = 0.1
INTERRUPT = b"i"
NUDGE = b"n"
SIGNALS = {INTERRUPT: signal.SIGINT, NUDGE: signal.SIGUSR1}
OPEN_FILES = 65536
WAITED = "/proc/waited_ns"

SIOCGIFFLAGS = 0x8913
SIOCSIFFLAGS = 0x8914
IFF_UP = 1
MS_BIND = 4096
RB_POWER_OFF = 0x4321FEDC
TFD_TIMER_ABSTIME = 1

_libc = ctypes.CDLL(None, use_errno=True)


def main() -> None:
    """Runs the request of the folder named on the command line; never returns."""
    folder = Path(sys.argv[1])
    request = json.loads((folder / "request.json").read_text())
    shutil.rmtree(folder)
    _mount_everything(request["visible"])
    _lift_tcp_limit()
    _keep_memory_in_order()
    _raise_loopback()
    report = _open_raw("/dev/ttyS1")
    output = _open_raw("/dev/ttyS0")
    source, sink = os.pipe2(os.O_CLOEXEC)
    time.sleep(request["settle_s"])
    child = _start(request, source, output)
    os.close(source)
    code = _supervise(child, report, _Input(_open_raw("/dev/ttyS2"), sink))
    os.sync()
    termios.tcdrain(output)
    _report(report, f"exit {code}")
    termios.tcdrain(report)
    _libc.reboot(RB_POWER_OFF)


def _mount_everything(visible: Sequence[str]) -> None:
    """Gives the guest its own kernel file systems and scratch space.

    `visible` are host folders that must stay visible although one of the mounts hides them.
    """
    # A handle still leads to a folder that a mount hides, so it can be bound there afterwards.
    handles = {path: os.open(path, os.O_PATH) for path in visible}
    _mount("proc", "/proc")
    _mount("sysfs", "/sys")
    _mount("devtmpfs", "/dev")
    for folder in ("/dev/pts", "/dev/shm"):
        Path(folder).mkdir(exist_ok=True)
    _mount("devpts", "/dev/pts", "ptmxmode=0666,mode=0620")
    _mount("tmpfs", "/dev/shm", "mode=1777")
    _mount("tmpfs", "/run", "mode=0755")
    scratch = Path("/run/tmp")
    scratch.mkdir()
    scratch.chmod(0o1777)
    for link, target in (("fd", "fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")):
        Path("/dev", link).symlink_to(f"/proc/self/{target}")
    for path, handle in handles.items():
        if not Path(path).exists():
            Path(path).mkdir(parents=True)
            _mount("", path, source=f"/proc/self/fd/{handle}", flags=MS_BIND)
        os.close(handle)


def _mount(
    kind: str, target: str, options: str = "", *, source: str = "none", flags: int = 0
) -> None:
    arguments = (source.encode(), target.encode(), kind.encode(), flags, options.encode())
    if _libc.mount(*arguments) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"cannot mount {kind or source}: {os.strerror(error)}", target)


def _raise_loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        ask = struct.pack("16sH14x", b"lo", 0)
        (flags,) = struct.unpack_from("H", fcntl.ioctl(control, SIOCGIFFLAGS, ask), 16)
        fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", flags | IFF_UP))


def _lift_tcp_limit() -> None:
    """Lets TCP use all of the guest's memory.

    By default TCP may use about a tenth of it. Beyond that, sockets of different sites would wait
    for each other, some until their connection times out. Sites share a kernel, but they stand for
    different machines.
    """
    pages = str(os.sysconf("SC_PHYS_PAGES"))
    Path("/proc/sys/net/ipv4/tcp_mem").write_text(" ".join([pages] * 3))


def _keep_memory_in_order() -> None:
    """Has pages that are freed return to their large blocks, and not wait in a list.

    From that list they would come in the reverse order. Then the host needs a mapping for each
    page, and a process cannot have more than vm.max_map_count, 65530 by default: 256 MB.
    """
    Path("/proc/sys/vm/percpu_pagelist_high_fraction").write_text("1000000")


def _open_raw(line: str) -> int:
    handle = os.open(line, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    tty.setraw(handle)
    return handle


def _start(request: dict[str, Any], source: int, output: int) -> int:
    """Forks the requested program; returns its process id."""
    child = os.fork()
    if child:
        return child
    os.setsid()
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    os.dup2(source, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    resource.setrlimit(resource.RLIMIT_NOFILE, (OPEN_FILES, OPEN_FILES))
    argv, folder = request["argv"], request["cwd"]
    try:
        os.chdir(folder)
        os.execvpe(argv[0], argv, request["env"])
    except OSError as error:
        os.write(2, f"cannot run {argv[0]} in {folder}: {error.strerror}\n".encode())
        os._exit(127)


class _Input:
    """Passes the blocks of the host on to the program, which may read them late or never.

    Without any block the program's standard input stays open and silent.
    """

    def __init__(self, line: int, sink: int) -> None:
        os.set_blocking(line, False)
        os.set_blocking(sink, False)
        self._line, self._sink = line, sink
        self._received = self._waiting = b""
        self._ended = False

    def wanted(self) -> tuple[int, int]:
        """The descriptor and the event that the next step waits for."""
        return (self._sink, POLLOUT) if self._waiting else (self._line, POLLIN)

    def step(self) -> None:
        """Reads what has come, and writes as much as there is room for."""
        if not self._waiting:
            self._received += os.read(self._line, 4096)
            while self._received and len(self._received) > self._received[0] and not self._ended:
                end = 1 + self._received[0]
                self._ended = end == 1
                self._waiting += self._received[1:end]
                self._received = self._received[end:]
        try:
            if self._waiting:
                self._waiting = self._waiting[os.write(self._sink, self._waiting) :]
        except BlockingIOError:
            return
        except BrokenPipeError:
            self._waiting = b""
        if self._ended and not self._waiting:
            os.close(self._sink)


def _supervise(child: int, report: int, given: _Input) -> int:
    """Reports beats, passes input on and reaps processes until the program ends.

    Returns the program's exit code. For a program that a signal ended, it is 128 plus the signal's
    number, as in a shell.
    """
    wake_read, wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    events = poll()
    events.register(wake_read, POLLIN)
    events.register(report, POLLIN)
    beat = _start_beats()
    events.register(beat, POLLIN)
    waited = os.open(WAITED, os.O_RDONLY | os.O_CLOEXEC)
    while True:
        while True:
            try:
                dead, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                dead = 0
            if dead == child:
                code = os.waitstatus_to_exitcode(status)
                return code if code >= 0 else 128 - code
            if dead == 0:
                break
        waited_ns = int(os.pread(waited, 32, 0))
        _report(report, f"beat {time.monotonic_ns()} {waited_ns}")
        events.register(*given.wanted())
        ready = events.poll()
        events.unregister(given.wanted()[0])
        for handle, _ in ready:
            if handle in (wake_read, beat):
                os.read(handle, 512)
            elif handle == given.wanted()[0]:
                given.step()
            elif number := SIGNALS.get(os.read(report, 1)):
                os.kill(child, number)
            else:
                _libc.reboot(RB_POWER_OFF)


def _start_beats() -> int:
    """A file descriptor that becomes readable at every multiple of BEAT_S of the monotonic clock.

    Each report of a beat reads the clock, which takes virtual time. Beats at fixed times make that
    independent of the time at which they began.
    """
    handle = _libc.timerfd_create(time.CLOCK_MONOTONIC, os.O_CLOEXEC)
    period_ns = round(BEAT_S * 1e9)
    seconds, rest_ns = divmod(time.monotonic_ns() // period_ns * period_ns + period_ns, 10**9)
    times = (ctypes.c_long * 4)(0, period_ns, seconds, rest_ns)  # struct itimerspec
    if handle < 0 or _libc.timerfd_settime(handle, TFD_TIMER_ABSTIME, times, None) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"cannot set a timer: {os.strerror(error)}")
    return int(handle)


def _report(report: int, line: str) -> None:
    os.write(report, f"{line}\n".encode())


if __name__ == "__main__":
    main()
