"""A file descriptor that becomes readable at a given time, to the nanosecond (Linux's timerfd).

A wait with a timeout is exact only to a millisecond, which is visible under a virtual clock.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import time

START_STEP_NS, START_PHASE_NS = 100_000_000, 55_000_000
"""A run's clock starts this long after a multiple of the step on the machine's clock."""

_MONOTONIC, _ABSOLUTE = 1, 1
_CLOSE_ON_EXEC, _NO_WAIT = os.O_CLOEXEC, os.O_NONBLOCK
_libc = ctypes.CDLL(None, use_errno=True)


class Alarm:
    """One alarm on the clock of `time.monotonic_ns`."""

    def __init__(self) -> None:
        self.fd = _check(_libc.timerfd_create(_MONOTONIC, _CLOSE_ON_EXEC | _NO_WAIT))

    def close(self) -> None:
        """Free the descriptor."""
        os.close(self.fd)

    def set(self, at_ns: int | None) -> None:
        """Make `fd` readable at a time (ns); at once if it is past, never if it is None."""
        # An alarm that has gone off keeps `fd` readable until it is read.
        with contextlib.suppress(BlockingIOError):
            os.read(self.fd, 8)
        seconds, rest_ns = divmod(0 if at_ns is None else max(at_ns, 1), 10**9)
        when = (ctypes.c_long * 4)(0, 0, seconds, rest_ns)  # struct itimerspec; 0 is never
        _check(_libc.timerfd_settime(self.fd, _ABSOLUTE, when, None))


def await_readable(fd: int, timeout_s: float | None = None) -> bool:
    """Wait until there is something to read, or its end; False if that took too long.

    Unlike `select.select`, this takes descriptors of any number.
    """
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(None if timeout_s is None else timeout_s * 1e3))


def wait_for_start() -> int:
    """Wait for the next time at which a run's clock may start, and return it (monotonic, in ns).

    Each reading of the embedded kernel's clock advances it by 256 ns. The number of readings so far
    depends on where things are installed. A start at a fixed step of the clock removes that
    difference. The phase keeps away from the kernel's ticks and the guest's beats, which are at
    full steps.
    """
    at_ns = START_PHASE_NS
    at_ns += -(-(time.monotonic_ns() - START_PHASE_NS) // START_STEP_NS) * START_STEP_NS
    with contextlib.closing(Alarm()) as alarm:
        alarm.set(at_ns)
        await_readable(alarm.fd)
    return at_ns


def _check(result: int) -> int:
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return result
