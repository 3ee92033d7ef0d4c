"""What happens next in the fluid model (pure)."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True)
class Agenda:
    """Calls that are planned, in the order of their times; `run` lets time pass.

    Calls of the same time are made in the order in which they were planned.
    """

    now_s: float = 0.0
    _planned: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    _count: int = 0

    def call_at(self, time_s: float, what: Callable[[], None]) -> None:
        """Call a function at a time in seconds."""
        self._count += 1
        heapq.heappush(self._planned, (time_s, self._count, what))

    def cancel(self, what: Callable[[], None]) -> None:
        """Do not make the planned calls of this function."""
        self._planned = [entry for entry in self._planned if entry[2] != what]
        heapq.heapify(self._planned)

    def run(self, until_s: float = math.inf) -> None:
        """Let time pass until `until_s`, or until nothing is left to happen."""
        while self._planned and self._planned[0][0] <= until_s:
            self.now_s, _, what = heapq.heappop(self._planned)
            what()
        if until_s < math.inf:
            self.now_s = until_s
