"""Lets each optimizer step of this process take the time that the scenario says (`compute`).

On a virtual clock computing takes no time. Before each step of the program's optimizer, the process
sleeps for the next time in its file, and reports that it computes. Only one optimizer counts: the
first one that takes a step, or all those of the classes in `optimizers`. A step inside another one
does not count: it is that of an outer optimizer, as of DiLoCo, whose time is that of the inner one.

Nothing here fails the program.
"""

from __future__ import annotations

import functools
import importlib
import itertools
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

FILE, OPTIMIZERS = "TRUNKLINE_COMPUTE", "TRUNKLINE_OPTIMIZERS"
"""Environment variables: the file with a time in seconds per line; names of classes, or nothing."""


class Steps:
    """The steps of this process.

    Attributes:
        write_report: writes an event to the run's log.
        times_s: the times of the steps; after the last one, the first one follows.
        first: the optimizer that took the first step.
        under_way: by thread, the optimizers whose steps have begun.
    """

    def __init__(self, write_report: Callable[..., None]) -> None:
        self.write_report = write_report
        self.times_s = [float(line) for line in Path(os.environ[FILE]).read_text().split()]
        self.numbers = itertools.count()
        self.first: Callable[[], Any] | None = None
        self.under_way = threading.local()

    def before(self, optimizer: Any, *_: Any) -> None:
        """Compute, if this step counts."""
        own = self.under_way.__dict__.setdefault("optimizers", [])
        if optimizer in own:  # its step before has raised an exception
            del own[own.index(optimizer) :]
        is_outer = bool(own)
        own.append(optimizer)
        if not is_outer and self._counts(optimizer):
            self.compute()

    def after(self, optimizer: Any, *_: Any) -> None:
        """Note that a step has ended."""
        own = self.under_way.__dict__.setdefault("optimizers", [])
        if optimizer in own:
            del own[own.index(optimizer) :]

    def compute(self) -> None:
        """Sleep for the time of the next step, and report it."""
        number = next(self.numbers)
        self._report("compute_started", number)
        time.sleep(self.times_s[number % len(self.times_s)])
        self._report("compute_finished", number)

    def _report(self, event: str, number: int) -> None:
        try:
            self.write_report(event, time.monotonic_ns(), iteration=number, process=os.getpid())
        except (KeyError, OSError) as error:
            sys.stderr.write(f"trunkline: {event} is not reported: {error}\n")

    def _counts(self, optimizer: Any) -> bool:
        named = os.environ.get(OPTIMIZERS, "").split()
        if named:
            return type(optimizer).__name__ in named
        if self.first is None or self.first() is None:
            self.first = weakref.ref(optimizer)
        return self.first() is optimizer


def install(timing: Any) -> None:
    """Have the steps of optimizers computed, from the import of torch on if it is still to come.

    `timing` is the module `call_timing`, which this file cannot import in a program.
    """
    if FILE in os.environ:
        timing.await_torch(functools.partial(_hook, timing.write_report))


def _hook(write_report: Callable[..., None], torch: Any) -> None:
    """Have all optimizers of this PyTorch call us before and after each step."""
    try:
        steps = Steps(write_report)
        optimizers = importlib.import_module(f"{torch.__name__}.optim.optimizer")
        optimizers.register_optimizer_step_pre_hook(steps.before)
        optimizers.register_optimizer_step_post_hook(steps.after)
    except Exception as error:
        sys.stderr.write(f"trunkline: the steps of this PyTorch take no time: {error!r}\n")
