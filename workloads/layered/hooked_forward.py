"""Runs a PyTorch module's forward computation branch by branch, as their parameters arrive.

The `forward` of each branch waits until the branch may be computed. The module's own code is not
changed: it runs in a thread of its own, which is in step with the thread that calls `advance`.

When the module calls a branch of a base, the input of all of its branches is known: so they can be
computed in any order, before the module calls them. Gradients are the same to the bit in each
order, because each branch has a view of the input of its own. Autograd goes back through nodes in
the reverse order of their creation, and the views are created in the order of the branches. This
does not hold for branches that draw random numbers, as dropout does.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


class _AbortedError(Exception):
    """The computation is not needed any more."""


class HookedForward:
    """One forward computation at a time of a module that consists of these bases.

    Each base is its branches: submodules with one input and one output. All branches of a base have
    the same input. The module calls the bases in this order. Branches are numbered through all
    bases. `advance` raises what the computation raises.
    """

    def __init__(self, bases: Sequence[Sequence[torch.nn.Module]]) -> None:
        self._may: queue.SimpleQueue[int | None] = queue.SimpleQueue()
        self._reached: queue.SimpleQueue[frozenset[int] | BaseException] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._left = frozenset[int]()
        self._result: Any = None
        self._outputs: dict[int, tuple[Any, Any]] = {}
        self._computes: list[Callable[[Any], Any]] = []
        first = 0
        for branches in bases:
            numbers = range(first, first := first + len(branches))
            for number, branch in zip(numbers, branches, strict=True):
                self._computes.append(branch.forward)
                branch.forward = partial(self._call, numbers, number)

    def start(self, work: Callable[[], Any]) -> None:
        """Begin `work`, which computes the module; it waits before its first branch."""
        self.abort()
        self._thread = threading.Thread(target=self._run, args=(work,), daemon=True)
        self._thread.start()
        self._take()

    def advance(self, number: int) -> None:
        """Compute a branch whose parameters are here; return when it is computed.

        After the last branch of a base, return when the next base waits for its own parameters.
        Raises RuntimeError if the computation does not wait for this branch.
        """
        if number not in self._left:
            raise RuntimeError(f"branch {number} is to be computed, but {self._waits()}")
        self._may.put(number)
        self._take()

    def take_result(self) -> Any:
        """What `work` has returned. Raises RuntimeError if a branch still waits."""
        if self._thread is None or self._left:
            raise RuntimeError(f"there is no result: {self._waits()}")
        self._thread.join()
        self._thread = None
        return self._result

    def abort(self) -> None:
        """End a computation that waits for a branch."""
        if self._thread is not None:
            if self._left:
                self._may.put(None)
                self._reached.get()
            self._thread.join()
            self._thread = self._result = None
            self._left = frozenset()

    def _waits(self) -> str:
        branches = ", ".join(map(str, sorted(self._left)))
        return f"branch {branches} waits" if branches else "none waits"

    def _take(self) -> None:
        """Wait until the computation waits for branches, or all is done."""
        found = self._reached.get()
        if isinstance(found, BaseException):
            self._left = frozenset()
            raise found
        self._left = found

    def _run(self, work: Callable[[], Any]) -> None:
        self._outputs.clear()
        try:
            self._result = work()
            self._reached.put(frozenset())
        except BaseException as error:
            self._reached.put(error)

    def _call(self, numbers: range, number: int, given: Any) -> Any:
        """A branch's `forward`: only computations in the thread of `start` wait."""
        if threading.current_thread() is not self._thread:
            return self._computes[number](given)
        if number not in self._outputs:
            self._compute_base(numbers, given)
        known, output = self._outputs.pop(number)
        if known is not given:
            raise RuntimeError(f"branch {number} has another input than the others of its base")
        return output

    def _compute_base(self, numbers: range, given: Any) -> None:
        """Compute all branches of a base, each when it may be."""
        inputs = [given.view_as(given) if len(numbers) > 1 else given for _ in numbers]
        left = frozenset(numbers)
        while left:
            self._reached.put(left)
            number = self._may.get()
            if number is None:
                raise _AbortedError
            output = self._computes[number](inputs[number - numbers.start])
            self._outputs[number] = given, output
            left -= {number}
