"""Forks processes that end with us, and holds on to them until they are reaped."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from trunkline.agents.timing.exact_waits import await_readable

FAILED = 70
"""The exit code of a forked process after an exception."""

HANDLERS: Mapping[int, Any] = {signal.SIGINT: signal.SIG_IGN, signal.SIGTERM: signal.SIG_DFL}
"""The default signal handlers of a forked process: Ctrl-C is for its parent, SIGTERM ends it."""

_STOPPED = os.WSTOPPED | os.WEXITED | os.WNOWAIT
_HELD = {signal.SIGINT, signal.SIGTERM}
_PARENT_DEATH_SIGNAL = 1
_prctl = ctypes.CDLL(None).prctl
"""Looked up before any fork: a forked process that writes to no page of ctypes starts sooner."""


@dataclass(slots=True, eq=False)
class Handle:
    """A process, or an agent in one.

    `pidfd` becomes readable when it ends, and never stands for a later process with its number.
    """

    pid: int
    pidfd: int

    def send(self, number: int) -> None:
        """Send a signal; nothing happens if the process has ended."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.pidfd, number)

    def await_end(self, most_s: float) -> bool:
        """Wait until it has ended, so many seconds at most; False if that was too short."""
        return await_readable(self.pidfd, most_s)


@dataclass(slots=True, eq=False)
class Process(Handle):
    """A process that this one has forked.

    Attributes:
        code: its exit code, or minus the number of the signal that ended it; None before `wait`.
    """

    code: int | None = None

    @property
    def has_ended(self) -> bool:
        """Whether it has ended, also if it was not reaped yet."""
        flags = os.WEXITED | os.WNOWAIT | os.WNOHANG
        return self.code is not None or os.waitid(os.P_PIDFD, self.pidfd, flags) is not None

    def await_stop(self, most_s: float) -> bool:
        """Wait until it is stopped or has ended, after SIGSTOP was sent to it; see `SharedAgent`.

        The kernel obeys at once, so there is no limit.
        """
        del most_s
        return os.waitid(os.P_PIDFD, self.pidfd, _STOPPED) is not None

    def wait(self) -> int:
        """Wait until the process has ended, and reap it; returns `code`."""
        if self.code is None:
            self.code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.code

    def destroy(self) -> None:
        """Kill the process; it may have ended."""
        self.send(signal.SIGKILL)

    def end(self) -> None:
        """Kill the process if it runs, reap it, and free its descriptor."""
        if self.code is None:
            self.destroy()
            with contextlib.suppress(ChildProcessError):  # `wait` was interrupted after reaping
                self.wait()
        os.close(self.pidfd)


def fork(
    act: Callable[[], int],
    handlers: Mapping[int, Any] = HANDLERS,
    last_signal: int = signal.SIGKILL,
) -> Process:
    """Fork a process that calls `act` and exits with the code that it returns.

    The process gets the `last_signal` when this one ends. An exception ends it with a traceback and
    the code FAILED. A caller that must record the process before a signal interrupts it calls this
    in `signals_held`.
    """
    parent = os.getpid()
    with signals_held():
        pid = os.fork()
        if pid == 0:
            _act_and_exit(act, handlers, parent, last_signal)
        return Process(pid, os.pidfd_open(pid))


@contextlib.contextmanager
def signals_held() -> Iterator[None]:
    """Delay SIGINT and SIGTERM until the block ends.

    Forks need this: right after a fork, Python runs functions of its library, and drops an
    exception that a signal handler raises in them.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _HELD)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _act_and_exit(
    act: Callable[[], int], handlers: Mapping[int, Any], parent: int, last_signal: int
) -> None:
    """Run as the forked process; never returns."""
    code = FAILED
    try:
        end_with(parent, handlers, last_signal)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _HELD)
        code = act()
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def end_with(
    parent: int, handlers: Mapping[int, Any] = HANDLERS, last_signal: int = signal.SIGKILL
) -> None:
    """Have the kernel end this forked process when its parent ends; set its signal handlers."""
    for number, handler in handlers.items():
        signal.signal(number, handler)
    _prctl(_PARENT_DEATH_SIGNAL, last_signal)
    # The first process of a namespace sees no parent. Any other has a new one: ours has ended.
    if os.getppid() not in (parent, 0):
        os.kill(os.getpid(), last_signal)
