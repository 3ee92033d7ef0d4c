"""An event loop and connections whose every step the owner of the loop chooses.

The loop runs callbacks that are ready. When there are none it calls `step`, which does one thing:
it lets a frame arrive, lets time go on to the next timer, breaks a connection. Agents run on it
unchanged: an `End` is what they take for a socket.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
import itertools
import os
import socket
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from trunkline.agents.wire.framing import BEAT

RUNNING: contextvars.ContextVar[Any] = contextvars.ContextVar("RUNNING", default=None)
"""The process to which the code that runs now belongs; its timers and callbacks have it as well."""

HELLO = b"hello"
"""The first frame on a connection: the called process accepts it."""


class SteppedLoop(asyncio.BaseEventLoop):
    """Never waits: when nothing is ready, `step` decides what happens next."""

    def __init__(self) -> None:
        super().__init__()
        self.step: Callable[[], None] = lambda: None
        self.now_s = 0.0
        self.readers: dict[int, asyncio.Handle] = {}
        self.writers: dict[int, asyncio.Handle] = {}
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._count = itertools.count()
        self._idle = os.pipe()

    def time(self) -> float:
        return self.now_s

    def call_at(self, when, callback, *args, context=None):
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        heapq.heappush(self._timers, (when, next(self._count), timer))
        return timer

    def next_timer(self, may_run: Callable[[Any], bool]) -> tuple[float, int, Any] | None:
        """The earliest timer of a process that may run; None if there is none."""
        while self._timers and self._timers[0][2].cancelled():
            heapq.heappop(self._timers)
        for each in sorted(self._timers):
            if not each[2].cancelled() and may_run(owner_of(each[2])):
                return each
        return None

    def fire(self, timer: tuple[float, int, Any]) -> None:
        """Time goes on to this timer, which fires."""
        self._timers.remove(timer)
        heapq.heapify(self._timers)
        self.now_s = max(self.now_s, timer[0])
        self._ready.append(timer[2])

    def add_reader(self, fd, callback, *args):
        self.readers[fd] = asyncio.Handle(callback, args, self)

    def add_writer(self, fd, callback, *args):
        self.writers[fd] = asyncio.Handle(callback, args, self)

    def remove_reader(self, fd):
        return _cancel(self.readers.pop(fd, None))

    def remove_writer(self, fd):
        return _cancel(self.writers.pop(fd, None))

    def run_soon(self, handle: asyncio.Handle) -> None:
        self._ready.append(handle)

    def descriptor(self) -> int:
        """A file descriptor of its own for an end of a connection; there is nothing to read."""
        return os.dup(self._idle[0])

    def close(self) -> None:
        super().close()
        for fd in self._idle:
            os.close(fd)

    def _run_once(self) -> None:
        if not self._ready:
            self.step()
        for _ in range(len(self._ready)):
            handle = self._ready.popleft()
            if not handle.cancelled():
                handle._run()

    def _timer_handle_cancelled(self, handle) -> None:
        pass

    def _write_to_self(self) -> None:
        pass


def _cancel(handle: asyncio.Handle | None) -> bool:
    if handle is not None:
        handle.cancel()
    return handle is not None


def owner_of(handle: asyncio.Handle) -> Any:
    """The process that a timer or callback belongs to."""
    return handle._context.get(RUNNING)


@dataclass(eq=False)
class End:
    """One end of a connection; `inbox` are the frames on their way to it, first in, first out.

    `room` is how many frames may be under way from here. `weight` says how likely the next of them
    arrives before others. `is_open(a, b)` says whether frames get from a to b at present.
    """

    loop: SteppedLoop
    owner: Any
    room: int
    weight: float
    is_open: Callable[[Any, Any], bool]
    far: End = field(init=False)
    inbox: deque[bytes] = field(default_factory=deque)
    closed: bool = False
    _arrived: bytearray = field(default_factory=bytearray)
    _ended: bool = False
    _error: OSError | None = None
    _fd: int = -1
    family: int = socket.AF_UNIX

    def __post_init__(self) -> None:
        self._fd = self.loop.descriptor()

    # -- what agents use ----------------------------------------------------------------------

    def fileno(self) -> int:
        return self._fd

    def setblocking(self, flag: bool) -> None:
        assert not flag

    def sendmsg(self, buffers: list[memoryview]) -> int:
        """Put one whole frame on its way."""
        frame = b"".join(buffers)
        if frame == BEAT:
            self._beat()
            return len(frame)
        if len(self.far.inbox) >= self.room:
            raise BlockingIOError
        self.far.inbox.append(frame)
        return len(frame)

    def recvmsg_into(self, buffers: list[memoryview]) -> tuple[int]:
        if not self._arrived:
            if self._error is not None:
                raise self._error
            if self._ended:
                return (0,)
            raise BlockingIOError
        count = 0
        for buffer in buffers:
            part = self._arrived[: len(buffer)]
            buffer[: len(part)] = part
            del self._arrived[: len(part)]
            count += len(part)
        return (count,)

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            os.close(self._fd)

    def _beat(self) -> None:
        """A heartbeat arrives at once, or behind frames that are heard of as well."""
        far = self.far
        if not far.inbox and self.is_open(self.owner, far.owner) and not far.closed:
            far._arrived += BEAT
            self._wake(far)

    def _wake(self, end: End) -> None:
        if (reader := self.loop.readers.get(end.fileno())) and not end.closed:
            self.loop.run_soon(reader)

    # -- steps ---------------------------------------------------------------------------------

    def arrive(self) -> None:
        """The next frame arrives here."""
        self._arrived += self.inbox.popleft()
        self._wake(self)

    def end(self) -> None:
        """This end hears that the other one is closed; what was under way is lost."""
        self.inbox.clear()
        self._ended = True
        self._wake(self)

    def break_off(self) -> None:
        """This end gets an error; what was under way is lost."""
        self.inbox.clear()
        self._error = ConnectionResetError("broken by the network")
        self._wake(self)

    @property
    def can_send(self) -> bool:
        """Whether this end waits for room, and there is some."""
        return (
            not self.closed
            and self.fileno() in self.loop.writers
            and len(self.far.inbox) < self.room
        )

    def send(self) -> None:
        self.loop.run_soon(self.loop.writers[self.fileno()])

    @property
    def hears_nothing_more(self) -> bool:
        return self._ended or self._error is not None
