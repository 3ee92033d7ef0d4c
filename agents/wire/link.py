"""One stream socket between two agents, with the queue of frames to send.

Payload is received directly into its final memory. A receiver is woken for large parts of a chunk,
not for every packet. Chunks wait in the sender's queue and not in the socket, so that the
discipline can choose the next one.
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
    stamp_header,
)
from trunkline.agents.wire.messages import Control, ProtocolError

UNSENT_BYTES = (16 * 1024, 256 * 1024)
"""Bounds of the unsent bytes that the kernel may hold, which is otherwise one chunk.

A discipline can preempt neither these bytes nor the chunk that is being sent, so an urgent chunk
waits for at most two others. The sender is woken when half of these bytes are left.
"""

RECEIVE_LOWAT_BYTES = 1024 * 1024
"""A receiver that waits for a chunk is woken once per this many bytes and at the chunk's end.

This needs a receive buffer of fixed size (`dial.RECEIVE_BUFFER_BYTES`). If the kernel tuned the
buffer, TCP's window would close before the receiver reads, and TCP would start three times slower.
"""

WORTH_WAITING_BYTES = 64 * 1024
"""The receiver waits for the rest of a frame instead of reading on, if it is at least this long."""

READS_PER_WAKE = 16
"""How often one connection is read per wake-up before other connections get their turn."""


_RESET = struct.pack("ii", 1, 0)


class ConnectionLostError(Exception):
    """The connection is lost: the peer is gone or sent invalid data; the message says which."""


class Timing(Protocol):
    """Stamps the frames that a connection sends, and learns when stamped frames arrive."""

    def stamp(self, now_ns: int) -> Stamp:
        """The stamp of a frame whose first byte enters the socket now."""
        ...

    def on_arrived(self, peer: str, sent: Stamp, size: int | None) -> None:
        """Take in that a whole frame with this stamp has arrived.

        `size` is the size of its chunk in bytes: 0 for a beat, None for a control frame.
        """


@dataclass(slots=True)
class Outgoing:
    """A frame to send, with the functions to call when it was sent or dropped.

    `sent` gets two times, in nanoseconds of the agents' clock: when the first byte was handed to
    the socket, and when the socket had taken the last one. Chunks have their parsed header in
    `chunk` and a `flow` for the discipline. Control messages have neither and go first.
    """

    header: bytes
    payload: memoryview | None = None
    chunk: ChunkHeader | None = None
    flow: Flow | None = None
    sent: Callable[[int, int], None] | None = None
    dropped: Callable[[], None] | None = None


class Connection:
    """Passes received frames to a callback, and sends frames from a queue with a discipline."""

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
        on_timed = partial(timing.on_arrived, peer) if timing else None
        self._reader = FrameReader(allocate, on_timed=on_timed)
        self._lowat = 1
        self._control: deque[Outgoing] = deque()
        self._queue: Queue[Outgoing] = Queue(discipline)
        self._current: Outgoing | None = None
        self._left: list[memoryview] = []
        self._start_ns = 0
        self._has_begun = False
        self._closed = False
        self._writing = False
        self._read_bytes = 0
        self._heard_bytes = 0
        self._drained: asyncio.Event = asyncio.Event()
        self._drained.set()
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(sock.fileno(), self._on_readable)

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
            self._on_writable()

    def drop(self, unwanted: Callable[[Outgoing], bool]) -> None:
        """Drop these queued chunks. A chunk that is partly sent is sent to its end.

        The rest of such a chunk is copied, so its memory may change from now on.
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
        """Send a heartbeat, unless a frame is being sent: its bytes serve as well."""
        if self._current is None:
            self.put(Outgoing(BEAT))

    def poll_alive(self) -> bool:
        """Whether any byte has arrived since the last call.

        Bytes that are not read yet count as well: a receiver may sleep while a slow link brings the
        rest of a chunk.
        """
        if self._closed:
            return True
        (waiting,) = struct.unpack("i", fcntl.ioctl(self._sock, termios.FIONREAD, bytes(4)))
        arrived: int = self._read_bytes + waiting
        heard, self._heard_bytes = arrived > self._heard_bytes, arrived
        return heard

    def lose(self, error: Exception) -> None:
        """Give up the connection, for this reason."""
        if not self._closed:
            self._lose(error)

    def close(self) -> None:
        """Close now and drop all queued frames."""
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

    def _on_readable(self) -> None:
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
                frame = self._reader.advance(count)
                if frame is not None:
                    self._on_frame(self.peer, frame)
            except ProtocolError as error:
                self._lose(ConnectionLostError(f"{self.peer} sent garbage: {error}"))
            if self._closed:
                return
            # Another read would cost a system call for nothing, or for less than a wake-up brings.
            drained = count < sum(map(len, buffers))
            if drained or self._count_wanted() >= max(self._lowat, WORTH_WAITING_BYTES):
                break
        self._await_bytes()

    def _count_wanted(self) -> int:
        """How many bytes must arrive before this connection is woken."""
        return min(len(self._reader.buffer()), RECEIVE_LOWAT_BYTES)

    def _await_bytes(self) -> None:
        """Wait for the rest of the current frame, not for every packet."""
        lowat = self._count_wanted()
        if lowat != self._lowat and self._sock.family == socket.AF_INET:
            self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, lowat)
            self._lowat = lowat

    def _on_writable(self) -> None:
        """Send until the socket takes no more or the queue is empty."""
        while self._load_next():
            assert self._current is not None
            if not self._has_begun:
                self._stamp(self._current.header)
            try:
                count = self._sock.sendmsg(self._left)
            except BlockingIOError:
                self._await_room()
                return
            except OSError as error:
                self._lose_later(error)
                return
            self._has_begun = True
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

    def _lose_later(self, error: Exception) -> None:
        """Give up the connection from the event loop: the caller of `put` expects no callbacks."""
        self._writing = True  # so that `put` does not send again
        self._loop.remove_writer(self._sock.fileno())
        self._loop.call_soon(self._on_broken, error)

    def _on_broken(self, error: Exception) -> None:
        if not self._closed:
            self._on_readable()  # the last frames before the peer closed
        self.lose(error)

    def _await_room(self) -> None:
        if not self._writing:
            self._writing = True
            self._loop.add_writer(self._sock.fileno(), self._on_writable)

    def _load_next(self) -> bool:
        """Take the next frame if the current one is sent; False if there is nothing to send."""
        if self._left:
            return True
        self._current = None
        if not self._closed:
            self._current = self._control.popleft() if self._control else self._queue.pop()
        if self._current is None:
            return False
        self._has_begun = False
        self._left = [memoryview(self._current.header)]
        if self._current.payload is not None:
            self._left.append(self._current.payload)
        return True

    def _stamp(self, header: bytes) -> None:
        """Note that the current frame begins now, also in its header.

        If the socket then takes no byte of it, it begins later, and is stamped again.
        """
        self._start_ns = self._now_ns()
        if self._timing is not None:
            header = stamp_header(header, self._timing.stamp(self._start_ns))
            self._left[0] = memoryview(header)

    def _lose(self, error: Exception) -> None:
        """Reset the connection, so that bytes in the socket cannot arrive later; then tell."""
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
