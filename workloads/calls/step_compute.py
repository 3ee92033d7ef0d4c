"""Lets each optimizer step of this process take the time that the scenario says (`compute`).

On a virtual clock computing takes no time. Before each step of the program's optimizer, the process
sleeps for the next time in its file, and reports that it computes. Only one optimizer counts: the
first one that takes a step, or all those of the classes in `optimizers`. A step inside another one
does not count: it is that of an outer optimizer, as of DiLoCo, whose time is that of the inner one.

Nothing here fails the program.
"""

from __future__ import annotations

import importlib
import itertools
import json
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
        times_s: the times of the steps; after the last one, the first one follows.
        first: the optimizer that took the first step.
        under_way: by thread, the optimizers whose steps have begun.
    """

    def __init__(self) -> None:
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
        _report("compute_started", iteration=number)
        time.sleep(self.times_s[number % len(self.times_s)])
        _report("compute_finished", iteration=number)

    def _counts(self, optimizer: Any) -> bool:
        named = os.environ.get(OPTIMIZERS, "").split()
        if named:
            return type(optimizer).__name__ in named
        if self.first is None or self.first() is None:
            self.first = weakref.ref(optimizer)
        return self.first() is optimizer


_steps: Steps | None = None


def install(finder: Callable[[Callable[[Any], None]], Any]) -> None:
    """Have the steps of optimizers computed, from the import of torch on if it is still to come.

    `finder` makes what finds torch and calls a function with it (`call_timing.Finder`).
    """
    if FILE not in os.environ:
        return
    if "torch" in sys.modules:
        hook(sys.modules["torch"])
    else:
        sys.meta_path.insert(0, finder(hook))


def hook(torch: Any) -> None:
    """Have all optimizers of this PyTorch call us before and after each step."""
    global _steps
    try:
        _steps = Steps()
        optimizers = importlib.import_module(f"{torch.__name__}.optim.optimizer")
        optimizers.register_optimizer_step_pre_hook(_steps.before)
        optimizers.register_optimizer_step_post_hook(_steps.after)
    except Exception as error:
        sys.stderr.write(f"trunkline: the steps of this PyTorch take no time: {error!r}\n")


def _report(event: str, **fields: object) -> None:
    """Write one event of this site to the run's event log."""
    line = json.dumps({"event": event, "monotonic_ns": time.monotonic_ns(), **fields})
    try:
        with Path(os.environ["TRUNKLINE_REPORTS"]).open("ab", buffering=0) as reports:
            reports.write(line.encode() + b"\n")
    except (KeyError, OSError) as error:
        sys.stderr.write(f"trunkline: {event} is not reported: {error}\n")
