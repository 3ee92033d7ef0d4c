"""The agents' clock: it stamps events and lets modelled compute time pass."""

from __future__ import annotations

import asyncio
import selectors
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Protocol

from trunkline.agents.timing.exact_waits import ExactSelector


class Clock(Protocol):
    """Stamps events and lets the modelled duration of a computation pass."""

    def now_ns(self) -> int: ...

    async def compute(self, work: Callable[[], float]) -> None:
        """Do the work, which returns its modelled duration in seconds; return after that time."""
        ...


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop with exact timers.

    It remembers when its clock was read, which on a virtual clock is now. In the embedded kernel,
    reading the clock costs a system call: as much as several packets.
    """

    now_ns = 0

    def __init__(self, selector: selectors.BaseSelector | None = None) -> None:
        """`selector` replaces the one that makes timers exact, for who waits for the loop."""
        super().__init__(selector or ExactSelector(lambda: self.now_ns))

    def time(self) -> float:
        """The clock's time in seconds; asyncio calls this after every wake-up."""
        return self.read_ns() / 1e9

    def read_ns(self) -> int:
        """Read the clock, in ns."""
        self.now_ns = time.monotonic_ns()
        return self.now_ns


@dataclass(frozen=True, slots=True)
class VirtualClock:
    """The embedded kernel's virtual clock: computing takes no time, only waiting does."""

    epoch_ns: int
    loop: VirtualLoop

    def now_ns(self) -> int:
        return self.loop.now_ns - self.epoch_ns

    async def compute(self, work: Callable[[], float]) -> None:
        await asyncio.sleep(work())


@dataclass(frozen=True, slots=True)
class RealClock:
    """The host's clock: the work runs in a thread, and its real time counts as modelled time.

    Work that takes longer than its modelled duration falsifies the run. `on_late` is then called
    with the excess in seconds.
    """

    epoch_ns: int
    on_late: Callable[[float], None]

    def now_ns(self) -> int:
        return time.monotonic_ns() - self.epoch_ns

    async def compute(self, work: Callable[[], float]) -> None:
        start = time.monotonic()
        modelled_s = await asyncio.to_thread(work)
        left_s = start + modelled_s - time.monotonic()
        if left_s < 0:
            self.on_late(-left_s)
        await asyncio.sleep(max(0.0, left_s))


@dataclass(slots=True)
class Punctuality:
    """Measures how late this process's timers fire on a real clock, because the host is busy.

    It sets one timer after the other, each of `PERIOD_S`. `late_s` sums up their lateness,
    `watched_s` the time that they took.
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
