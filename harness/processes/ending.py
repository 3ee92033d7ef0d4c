"""Signals that end a process by an exception, so that it cleans up as after Ctrl-C.

Python drops an exception that a signal handler raises while a finalizer or a callback runs, such as
`Popen.__del__`, and reports it to `sys.unraisablehook`. The signal would then be lost. So the hook
has it delivered again, after AGAIN_S.
"""

from __future__ import annotations

import signal
import sys
from typing import Any, NoReturn

AGAIN_S = 0.001
"""A finalizer is over by then; otherwise the signal is lost and delivered once more."""

_numbers: set[int] = set()
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


def _listen() -> None:
    for number in _numbers:
        signal.signal(number, _raise)


def _raise(number: int, _: object) -> NoReturn:
    for each in _numbers:
        signal.signal(each, signal.SIG_IGN)
    raise Terminated(number)


def _deliver_again(dropped: Any) -> None:
    error = dropped.exc_value
    if not isinstance(error, KeyboardInterrupt):
        _report(dropped)
        return
    number = error.args[0] if isinstance(error, Terminated) else signal.SIGINT
    _listen()
    # A signal that is raised here would be lost in this hook.
    signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(number))
    signal.setitimer(signal.ITIMER_REAL, AGAIN_S)
