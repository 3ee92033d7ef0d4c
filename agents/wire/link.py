"""One stream socket between two agents, and the one sender that owns its outgoing queue.

Sockets are non-blocking and stay out of the way: bytes are received directly where they belong,
and a woken receiver finds as much of a chunk as the kernel will hold, not one packet. What waits
to be sent waits in the sender's queue, where a discipline can see it, not in the socket.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import socket
import struct
import termios
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from trunkline.agents.planning.disciplines import DISCIPLINES, Discipline, Flow, Queue
from trunkline.agents.wire.framing import (
    BEAT,
    ChunkHeader,
    Frame,
    FrameReader,
    Stamp,
    encode,
    timed,
)
from trunkline.agents.wire.messages import Control, ProtocolError

UNSENT_BYTES = (16 * 1024, 256 * 1024)
"""Unsent bytes that the kernel may hold: one chunk, but within these bounds.

A discipline cannot preempt them, but neither the chunk that is being sent: what is urgent waits for
two chunks at most. The sender is woken when half of them are left.
"""

RECEIVE_LOWAT_BYTES = 1024 * 1024
"""A receiver that waits for a chunk is woken once per this many bytes, or at its end.

Its socket needs a receive buffer of fixed size (`dial.RECEIVE_BUFFER_BYTES`): where the kernel
tunes the buffer, the window closes before the receiver reads, and TCP starts three times as slowly.
"""

WORTH_WAITING_BYTES = 64 * 1024
"""What is at least this long is not read in pieces, but waited for."""

READS_PER_WAKE = 16
"""Reads of one connection before others get their turn."""


_RESET = struct.pack("ii", 1, 0)


class ConnectionLostError(Exception):
    """The peer is gone, or sent garbage; the message says which."""


class Timing(Protocol):
    """Keeps the time of what a connection carries."""

    def stamp(self, now_ns: int) -> Stamp:
        """What a frame carries whose first byte enters the socket now."""
        ...

    def arrived(self, peer: str, sent: Stamp, size: int | None) -> None:
        """A whole frame is here that entered the socket then.

        It brings a chunk of `size` bytes; a beat has 0, a control frame None.
        """


@dataclass(slots=True)
class Outgoing:
    """A frame to send: its header, its payload, and whom to tell when the socket has taken it.

    `sent` gets the times, in nanoseconds of the agents' clock, at which the first byte was handed
    to the socket and the last one taken by it. Of a chunk, `chunk` is the parsed header, and
    `flow` what the discipline goes by; control messages have neither and go first.
    """

    header: bytes
    payload: memoryview | None = None
    chunk: ChunkHeader | None = None
    flow: Flow | None = None
    sent: Callable[[int, int], None] | None = None
    dropped: Callable[[], None] | None = None


class Connection:
    """Frames in through callbacks, frames out through a queue with a discipline."""

    def __init__(
        self,
        sock: socket.socket,
        peer: str,
        on_frame: Callable[[str, Frame], None],
        on_lost: Callable[[str, Exception], None],
        allocate: Callable[[ChunkHeader], memoryview],
        now_ns: Callable[[], int],
        discipline: Discipline = DISCIPLINES["fcfs"],
        chunk_bytes: int = 64 * 1024,
        timing: Timing | None = None,
    ) -> None:
        sock.setblocking(False)
        if sock.family == socket.AF_INET:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            unsent_bytes = max(UNSENT_BYTES[0], min(chunk_bytes, UNSENT_BYTES[1]))
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, unsent_bytes)
        self.peer = peer
        self._sock = sock
        self._on_frame = on_frame
        self._on_lost = on_lost
        self._now_ns = now_ns
        self._timing = timing
        on_timed = partial(timing.arrived, peer) if timing else None
        self._reader = FrameReader(allocate, on_timed=on_timed)
        self._lowat = 1
        self._control: deque[Outgoing] = deque()
        self._queue: Queue[Outgoing] = Queue(discipline)
        self._current: Outgoing | None = None
        self._left: list[memoryview] = []
        self._start_ns = 0
        self._closed = False
        self._writing = False
        self._read_bytes = 0
        self._heard_bytes = 0
        self._drained: asyncio.Event = asyncio.Event()
        self._drained.set()
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(sock.fileno(), self._readable)

    def tell(self, message: Control) -> None:
        """Queue a control message."""
        self.put(Outgoing(encode(message)))

    def put(self, frame: Outgoing) -> None:
        """Queue a frame; on a lost connection it is dropped at once."""
        if self._closed:
            if frame.dropped:
                frame.dropped()
            return
        if frame.flow is None:
            self._control.append(frame)
        else:
            self._queue.push(frame, frame.flow)
        self._drained.clear()
        if not self._writing:
            self._writable()

    def drop(self, unwanted: Callable[[Outgoing], bool]) -> None:
        """Drop these queued chunks; one that is partly sent goes on to its end.

        Its rest is copied, so that its memory may change from now on.
        """
        self._detach(unwanted)
        _tell_dropped(self._queue.drop(unwanted))

    def forget(self, flows: Collection[Flow]) -> None:
        """Drop all queued chunks of these flows, of which no more will come."""
        self._detach(lambda frame: frame.flow in flows)
        _tell_dropped(self._queue.forget(flows))

    def _detach(self, unwanted: Callable[[Outgoing], bool]) -> None:
        if self._current is not None and self._left and unwanted(self._current):
            self._left = [memoryview(bytes(part)) for part in self._left]

    async def drain(self) -> None:
        """Return when everything queued is in the socket, or the connection is lost."""
        await self._drained.wait()

    def beat(self) -> None:
        """Give a sign of life; what waits in the socket is one already."""
        if self._current is None:
            self.put(Outgoing(BEAT))

    def heard(self) -> bool:
        """Whether the peer has given a sign of life since the last call.

        Any byte that has arrived is one, read or not: a receiver that waits for the rest of a chunk
        may sleep while a slow link brings it.
        """
        if self._closed:
            return True
        (waiting,) = struct.unpack("i", fcntl.ioctl(self._sock, termios.FIONREAD, bytes(4)))
        arrived: int = self._read_bytes + waiting
        heard, self._heard_bytes = arrived > self._heard_bytes, arrived
        return heard

    def lose(self, error: Exception) -> None:
        """Give the connection up, for this reason."""
        if not self._closed:
            self._lose(error)

    def close(self) -> None:
        """Close now; whatever is queued is dropped."""
        if self._closed:
            return
        self._closed = True
        self._loop.remove_reader(self._sock.fileno())
        self._loop.remove_writer(self._sock.fileno())
        self._sock.close()
        _tell_dropped([self._current] if self._current and self._left else [])
        self._control.clear()
        self.drop(lambda frame: True)
        self._drained.set()

    def _readable(self) -> None:
        for _ in range(READS_PER_WAKE):
            buffers = self._reader.buffers()
            try:
                count = self._sock.recvmsg_into(buffers)[0]
            except BlockingIOError:
                break
            except OSError as error:
                self._lose(error)
                return
            if not count:
                self._lose(ConnectionLostError(f"{self.peer} closed the connection"))
                return
            self._read_bytes += count
            try:
                frame = self._reader.filled(count)
                if frame is not None:
                    self._on_frame(self.peer, frame)
            except ProtocolError as error:
                self._lose(ConnectionLostError(f"{self.peer} sent garbage: {error}"))
            if self._closed:
                return
            # Asking costs a call where no more is there, or less than the next wake-up brings.
            drained = count < sum(map(len, buffers))
            if drained or self._wanted() >= max(self._lowat, WORTH_WAITING_BYTES):
                break
        self._await_bytes()

    def _wanted(self) -> int:
        """For how many bytes to be woken."""
        return min(len(self._reader.buffer()), RECEIVE_LOWAT_BYTES)

    def _await_bytes(self) -> None:
        """Be woken when the rest of what is being read is there, not at every packet."""
        lowat = self._wanted()
        if lowat != self._lowat and self._sock.family == socket.AF_INET:
            self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, lowat)
            self._lowat = lowat

    def _writable(self) -> None:
        """Send until the socket takes no more or the queue is empty."""
        while self._next():
            assert self._current is not None
            try:
                count = self._sock.sendmsg(self._left)
            except BlockingIOError:
                self._await_room()
                return
            except OSError as error:
                self._break(error)
                return
            while self._left and count >= len(self._left[0]):
                count -= len(self._left.pop(0))
            if self._left:
                self._left[0] = self._left[0][count:]
                self._await_room()
                return
            if self._current.sent:
                self._current.sent(self._start_ns, self._now_ns())
        if self._writing:
            self._writing = False
            self._loop.remove_writer(self._sock.fileno())
        self._drained.set()

    def _break(self, error: Exception) -> None:
        """The peer is gone. Whoever sends may be amid anything, so all calls back come later."""
        self._writing = True  # so that nobody tries again
        self._loop.remove_writer(self._sock.fileno())
        self._loop.call_soon(self._broken, error)

    def _broken(self, error: Exception) -> None:
        if not self._closed:
            self._readable()  # what the peer said before it closed
        self.lose(error)

    def _await_room(self) -> None:
        if not self._writing:
            self._writing = True
            self._loop.add_writer(self._sock.fileno(), self._writable)

    def _next(self) -> bool:
        """Make sure that there is something left to send of the current frame."""
        if self._left:
            return True
        self._current = None
        if not self._closed:
            self._current = self._control.popleft() if self._control else self._queue.pop()
        if self._current is None:
            return False
        self._start_ns = self._now_ns()
        header = self._current.header
        if self._timing is not None:
            header = timed(header, self._timing.stamp(self._start_ns))
        self._left = [memoryview(header)]
        if self._current.payload is not None:
            self._left.append(self._current.payload)
        return True

    def _lose(self, error: Exception) -> None:
        """Nothing that is still in the socket may get through later: the peer hears of a reset."""
        if self._sock.family == socket.AF_INET:
            with contextlib.suppress(OSError):
                self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        with contextlib.suppress(OSError):
            self.close()
        self._on_lost(self.peer, error)


def _tell_dropped(frames: list[Outgoing]) -> None:
    for frame in frames:
        if frame.dropped:
            frame.dropped()
