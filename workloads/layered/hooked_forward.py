"""Runs a PyTorch module's forward computation layer by layer, as the layers' parameters arrive.

A pre-hook of each layer waits until the layer may be computed. The module's own `forward` is not
changed: it runs in a thread of its own, which is in step with the thread that calls `advance`.
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
    """One forward computation at a time of a module with these layers, in the order of their use.

    `advance` raises what the computation raises.
    """

    def __init__(self, layers: Sequence[torch.nn.Module]) -> None:
        self._may: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._reached: queue.SimpleQueue[int | BaseException | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._waiting: int | None = None
        self._result: Any = None
        for number, layer in enumerate(layers):
            layer.register_forward_pre_hook(partial(self._wait, number))

    def start(self, work: Callable[[], Any]) -> None:
        """Begin `work`, which computes the module; it waits before its first layer."""
        self.abort()
        self._thread = threading.Thread(target=self._run, args=(work,), daemon=True)
        self._thread.start()
        self._take()

    def advance(self, number: int) -> None:
        """Compute a layer whose parameters are here; return when the next one waits for its own.

        Raises RuntimeError if the computation waits for another layer.
        """
        if self._waiting != number:
            raise RuntimeError(f"layer {number} is to be computed, but {self._waiting} waits")
        self._may.put(True)
        self._take()

    def take_result(self) -> Any:
        """What `work` has returned. Raises RuntimeError if a layer still waits."""
        if self._thread is None or self._waiting is not None:
            raise RuntimeError(f"layer {self._waiting} has not been computed")
        self._thread.join()
        self._thread = None
        return self._result

    def abort(self) -> None:
        """End a computation that waits for a layer."""
        if self._thread is not None:
            if self._waiting is not None:
                self._may.put(False)
                self._reached.get()
            self._thread.join()
            self._thread = self._waiting = self._result = None

    def _take(self) -> None:
        found = self._reached.get()
        if isinstance(found, BaseException):
            self._waiting = None
            raise found
        self._waiting = found

    def _run(self, work: Callable[[], Any]) -> None:
        try:
            self._result = work()
            self._reached.put(None)
        except BaseException as error:
            self._reached.put(error)

    def _wait(self, number: int, *_: Any) -> None:
        """The pre-hook: only computations in the thread of `start` wait."""
        if threading.current_thread() is self._thread:
            self._reached.put(number)
            if not self._may.get():
                raise _AbortedError
