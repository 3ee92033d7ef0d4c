"""The timer for a policy's next tick."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True)
class Alarm:
    """Calls `ring` at the time that was set last; `now_ns` is the time since the run's start.

    A ring may be too early by a rounding error. The caller then sets the alarm again, which lets at
    least a nanosecond pass.
    """

    now_ns: Callable[[], int]
    ring: Callable[[], None]
    _timer: asyncio.TimerHandle | None = field(init=False, default=None)

    def set(self, at_s: float | None) -> None:
        """Ring at this time in seconds since the run's start, and at no other; None: not at all."""
        self.cancel()
        if at_s is not None:
            left_ns = max(1, math.ceil(at_s * 1e9) - self.now_ns())
            self._timer = asyncio.get_running_loop().call_later(left_ns / 1e9, self.ring)

    def cancel(self) -> None:
        """Do not ring."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
