"""Signals that end a process by an exception, so that it cleans up as after Ctrl-C.

Python drops an exception that a signal handler raises while a finalizer or a callback runs, such as
`Popen.__del__`, and reports it to `sys.unraisablehook`. The signal would then be lost. So the hook
has it delivered again, after AGAIN_S. Nor may an exception end an import: modules in C replace it
by an error of their own, or ignore it. So a signal waits until no import is going on.
"""

from __future__ import annotations

import signal
import sys
import time
from types import FrameType
from typing import Any

AGAIN_S = 0.001
"""A finalizer is over by then; otherwise the signal is lost and delivered once more."""

IMPORTS_S = 2.0
"""A signal waits this long at most for imports, because a user's file may not end."""

IMPORTER = "<frozen importlib._bootstrap>"

_numbers: set[int] = set()
_noted_s: dict[int, float] = {}
_report = sys.unraisablehook


class Terminated(KeyboardInterrupt):
    """A signal (its argument) asks this process to end; like Ctrl-C, but with another exit code."""


def end_by(*numbers: int) -> None:
    """Have each of these signals raise `Terminated`; signals that are ignored stay ignored.

    The first signal that takes effect turns the others off, because they must not interrupt the
    cleaning up. Ctrl-C is not lost in a finalizer either.
    """
    _numbers.clear()
    _numbers.update(each for each in numbers if signal.getsignal(each) is not signal.SIG_IGN)
    _listen()
    sys.unraisablehook = _deliver_again


def interrupt_by_ctrl_c() -> None:
    """Have Ctrl-C raise KeyboardInterrupt, but not in an import; stays ignored if it is ignored."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, _interrupt)


def _listen() -> None:
    for number in _numbers:
        signal.signal(number, _raise)


def _raise(number: int, frame: FrameType | None) -> None:
    if _must_wait(number, frame):
        _deliver_later(number)
        return
    for each in _numbers:
        signal.signal(each, signal.SIG_IGN)
    raise Terminated(number)


def _interrupt(number: int, frame: FrameType | None) -> None:
    if _must_wait(number, frame):
        _deliver_later(number)
        return
    raise KeyboardInterrupt


def _must_wait(number: int, frame: FrameType | None) -> bool:
    """Whether an import is going on, and the signal has not waited for long."""
    while frame is not None and frame.f_code.co_filename != IMPORTER:
        frame = frame.f_back
    if frame is None:
        _noted_s.pop(number, None)
        return False
    now_s = time.monotonic()
    return now_s < _noted_s.setdefault(number, now_s) + IMPORTS_S


def _deliver_later(number: int) -> None:
    signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(number))
    signal.setitimer(signal.ITIMER_REAL, AGAIN_S)


def _deliver_again(dropped: Any) -> None:
    error = dropped.exc_value
    if not isinstance(error, KeyboardInterrupt):
        _report(dropped)
        return
    number = error.args[0] if isinstance(error, Terminated) else signal.SIGINT
    _listen()
    _deliver_later(number)  # raised here, it would be lost in this hook
