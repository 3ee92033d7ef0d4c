"""Limits the processor time of each call of a user's code while a scenario is read.

A plan or policy that never returns would otherwise leave the user without a word. During a run,
the stall watch of the kernel and `limits.run` end it.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from contextvars import ContextVar
from types import FrameType

CALL_S = 20.0
"""How much processor time one call may use."""

AGAIN_S = 1.0
"""How soon a call that caught the error is interrupted again."""

_is_free: ContextVar[bool] = ContextVar("_is_free", default=False)
"""Whether the next call is to be limited: calls within calls are not limited again."""


class ComputedTooLongError(BaseException):
    """A call used too much processor time. A user's `except Exception` does not catch it."""


@contextlib.contextmanager
def limited_calls() -> Iterator[None]:
    """Limit every call of a user's code in this block, in the main thread.

    Only the main thread can handle signals, and a timer that is in use is left alone.
    """
    is_main = threading.current_thread() is threading.main_thread()
    token = _is_free.set(is_main and signal.getitimer(signal.ITIMER_PROF) == (0.0, 0.0))
    try:
        yield
    finally:
        _is_free.reset(token)


@contextlib.contextmanager
def limited_call() -> Iterator[None]:
    """Interrupt the block if it computes for too long. Raises ComputedTooLongError."""
    if not _is_free.get():
        yield
        return
    token = _is_free.set(False)
    before = signal.signal(signal.SIGPROF, _interrupt)
    signal.setitimer(signal.ITIMER_PROF, CALL_S, AGAIN_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)
        _is_free.reset(token)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise ComputedTooLongError
