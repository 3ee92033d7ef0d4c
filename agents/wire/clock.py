"""Time as the agents see it: one monotonic clock, and how modelled compute time passes on it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Protocol


class Clock(Protocol):
    """Stamps events and lets the modelled duration of a computation pass."""

    def now_ns(self) -> int: ...

    async def compute(self, work: Callable[[], float]) -> None:
        """Do the work; return when as much time has passed as it says it takes, in seconds."""
        ...


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop that knows when it last woke up: on a virtual clock, that is now.

    Reading the clock is a system call there, which costs as much as handling several packets.
    """

    now_ns = 0

    def time(self) -> float:
        """Seconds of the clock; asyncio asks after every wake-up."""
        self.now_ns = time.monotonic_ns()
        return self.now_ns / 1e9


@dataclass(frozen=True, slots=True)
class VirtualClock:
    """The embedded kernel's virtual clock: working takes no time, waiting takes what it says."""

    epoch_ns: int
    loop: VirtualLoop

    def now_ns(self) -> int:
        return self.loop.now_ns - self.epoch_ns

    async def compute(self, work: Callable[[], float]) -> None:
        await asyncio.sleep(work())


@dataclass(frozen=True, slots=True)
class RealClock:
    """The host's clock: the work runs beside the event loop and counts towards its duration.

    Work that takes longer than it is modelled to take makes the result wrong; `late` hears by how
    many seconds.
    """

    epoch_ns: int
    late: Callable[[float], None]

    def now_ns(self) -> int:
        return time.monotonic_ns() - self.epoch_ns

    async def compute(self, work: Callable[[], float]) -> None:
        start = time.monotonic()
        modelled_s = await asyncio.to_thread(work)
        left_s = start + modelled_s - time.monotonic()
        if left_s < 0:
            self.late(-left_s)
        await asyncio.sleep(max(0.0, left_s))


@dataclass(slots=True)
class Punctuality:
    """How late this process's timers are on a real clock, because the host is too busy.

    Every `PERIOD_S` a timer is set; what it is late counts, in seconds, against the time watched.
    """

    PERIOD_S: ClassVar[float] = 0.02

    late_s: float = 0.0
    watched_s: float = 0.0

    async def watch(self) -> None:
        """Watch until cancelled."""
        while True:
            start_s = time.monotonic()
            await asyncio.sleep(self.PERIOD_S)
            took_s = time.monotonic() - start_s
            self.late_s += max(0.0, took_s - self.PERIOD_S)
            self.watched_s += took_s
