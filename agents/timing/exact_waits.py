"""Waits that end at a given time, to the nanosecond (Linux's timerfd).

A wait with a timeout is exact only to a millisecond, which is visible under a virtual clock.
"""

from __future__ import annotations

import ctypes
import math
import os
import select
import selectors
from collections.abc import Callable

_MONOTONIC, _ABSOLUTE = 1, 1
_CLOSE_ON_EXEC, _NO_WAIT = os.O_CLOEXEC, os.O_NONBLOCK
ROUNDING_NS = 100
"""An alarm is left as it is if it goes off by so much after its time: less than floats round."""

_LONGEST_S = 2e6
"""More milliseconds do not fit into the argument of `poll`."""

_libc = ctypes.CDLL(None, use_errno=True)


class Alarm:
    """One alarm on the clock of `time.monotonic_ns`."""

    def __init__(self) -> None:
        self.fd = _check(_libc.timerfd_create(_MONOTONIC, _CLOSE_ON_EXEC | _NO_WAIT))

    def close(self) -> None:
        """Free the descriptor."""
        os.close(self.fd)

    def set(self, at_ns: int | None) -> None:
        """Make `fd` readable at a time (ns) and not before; at once if it is past; never if None.

        An alarm that has gone off keeps `fd` readable until it is set again.
        """
        seconds, rest_ns = divmod(0 if at_ns is None else max(at_ns, 1), 10**9)
        when = (ctypes.c_long * 4)(0, 0, seconds, rest_ns)  # struct itimerspec; 0 is never
        _check(_libc.timerfd_settime(self.fd, _ABSOLUTE, when, None))


class ExactSelector(selectors.EpollSelector):
    """A selector whose timeouts are exact: asyncio's timers go off when they are due."""

    def __init__(self, now_ns: Callable[[], int]) -> None:
        """`now_ns` gives the time (ns) from which timeouts count: that of the last reading."""
        super().__init__()
        self._now_ns = now_ns
        self._alarm = Alarm()
        self._set_ns = 0
        self.register(self._alarm.fd, selectors.EVENT_READ)

    def close(self) -> None:
        """Free the descriptors."""
        super().close()
        self._alarm.close()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Wait until something is ready, at most `timeout` seconds; None is without end."""
        if timeout is not None and timeout > 0:
            at_ns = self._now_ns() + math.ceil(timeout * 1e9)
            if not 0 <= self._set_ns - at_ns < ROUNDING_NS:
                self._alarm.set(at_ns)
                self._set_ns = at_ns
            timeout = None
        ready = super().select(timeout)
        for number, (key, _) in enumerate(ready):
            if key.fd == self._alarm.fd:
                del ready[number]
                self._alarm.set(None)
                self._set_ns = 0
                break
        return ready


def await_readable(fd: int, timeout_s: float = math.inf) -> bool:
    """Wait until there is something to read, or its end; False if that took too long.

    Unlike `select.select`, this takes descriptors of any number. A limit is at most
    _LONGEST_S; one that is over counts as 0.
    """
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    wait_s = max(0.0, min(timeout_s, _LONGEST_S))
    return bool(poll.poll(None if timeout_s == math.inf else wait_s * 1e3))


def _check(result: int) -> int:
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return result
