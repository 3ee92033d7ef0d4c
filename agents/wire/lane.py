"""One stream socket of a connection: it sends one frame after the other, and cuts received bytes.

A connection has one lane, or several to the same peer. What to send next, and what to do with
received frames, decides the connection (`agents.wire.link`).
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import socket
import struct
import termios
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from trunkline.agents.planning.disciplines import Flow
from trunkline.agents.wire.framing import (
    ChunkHeader,
    Frame,
    FrameReader,
    Stamp,
    encode_number,
    stamp_header,
)
from trunkline.agents.wire.messages import ProtocolError

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

_TCP_INFO_BYTES, _TOTAL_RETRANS = 104, 100
"""The length of Linux's `tcp_info` up to `tcpi_total_retrans`, and where that is (linux/tcp.h)."""


def lane_name(site: str, lane: int) -> str:
    """The name in which a site calls for this lane; the first lane is 0."""
    return f"{site}/{lane}" if lane else site


def split_name(name: str) -> tuple[str, int]:
    """The site and the lane of `lane_name`."""
    site, _, lane = name.partition("/")
    return site, int(lane or 0)


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


class Owner(Protocol):
    """The connection of a lane."""

    peer: str
    closed: bool
    greeted: asyncio.Event

    def take_next(self) -> tuple[Outgoing, int | None] | None:
        """The next frame to send, and its number if frames are numbered."""
        ...

    def on_frame(self, frame: Frame, number: int | None) -> None:
        """Take in a frame. Raises ProtocolError."""

    def on_idle(self) -> None:
        """Note that a lane has sent all that there was."""

    def lose(self, error: Exception) -> None:
        """Give up the connection."""


class Lane:
    """Sends frames of its connection over a socket, and receives frames from it."""

    def __init__(
        self,
        sock: socket.socket,
        owner: Owner,
        reader: FrameReader,
        now_ns: Callable[[], int],
        chunk_bytes: int,
        timing: Timing | None,
    ) -> None:
        sock.setblocking(False)
        if sock.family == socket.AF_INET:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            unsent_bytes = max(UNSENT_BYTES[0], min(chunk_bytes, UNSENT_BYTES[1]))
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, unsent_bytes)
        self.current: Outgoing | None = None
        self.is_sending = False
        self.sock = sock
        self._owner = owner
        self._reader = reader
        self._now_ns = now_ns
        self._timing = timing
        self._lowat = 1
        self._left: list[memoryview] = []
        self._start_ns = 0
        self._has_begun = False
        self._received_bytes = 0
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(sock.fileno(), self._on_readable)

    @property
    def arrived_bytes(self) -> int:
        """The bytes that have arrived. Those that are not read yet count as well.

        A receiver may sleep while a slow link brings the rest of a chunk.
        """
        (waiting,) = struct.unpack("i", fcntl.ioctl(self.sock, termios.FIONREAD, bytes(4)))
        return self._received_bytes + int(waiting)

    @property
    def resent_packets(self) -> int | None:
        """The packets that TCP has sent again on this socket; None if it is not TCP's."""
        if self.sock.family != socket.AF_INET:
            return None
        info = self.sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_BYTES)
        return int(struct.unpack_from("I", info, _TOTAL_RETRANS)[0])

    def send(self) -> None:
        """Send until the socket takes no more or nothing is left to send."""
        while self._load_next():
            assert self.current is not None
            if not self._has_begun:
                self._stamp()
            try:
                count = self.sock.sendmsg(self._left)
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
            if self.current.sent:
                self.current.sent(self._start_ns, self._now_ns())
        if self.is_sending:
            self.is_sending = False
            self._loop.remove_writer(self.sock.fileno())
        self._owner.on_idle()

    def detach(self, unwanted: Callable[[Outgoing], bool]) -> None:
        """Copy the rest of such a frame that is being sent, so that its memory may change."""
        if self.current is not None and self._left and unwanted(self.current):
            self._left = [memoryview(bytes(part)) for part in self._left]

    def close(self) -> Outgoing | None:
        """Close now; return the frame that is only partly sent, if there is one."""
        self._loop.remove_reader(self.sock.fileno())
        self._loop.remove_writer(self.sock.fileno())
        self.sock.close()
        return self.current if self._left else None

    def reset(self) -> None:
        """Make the next `close` reset the connection, so that no bytes in it arrive later."""
        if self.sock.family == socket.AF_INET:
            with contextlib.suppress(OSError):
                self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)

    def _load_next(self) -> bool:
        """Take the next frame if the current one is sent; False if there is nothing to send."""
        if self._left:
            return True
        self.current = None
        taken = self._owner.take_next()
        if taken is None:
            return False
        self.current, number = taken
        self._has_begun = False
        self._left = [memoryview(self.current.header)]
        if self.current.payload is not None:
            self._left.append(self.current.payload)
        if number is not None:
            self._left.insert(0, memoryview(encode_number(number)))
        return True

    def _stamp(self) -> None:
        """Note that the current frame begins now, also in its header.

        If the socket then takes no byte of it, it begins later, and is stamped again.
        """
        assert self.current is not None
        self._start_ns = self._now_ns()
        if self._timing is not None:
            header = stamp_header(self.current.header, self._timing.stamp(self._start_ns))
            at = len(self._left) - 1 - (self.current.payload is not None)
            self._left[at] = memoryview(header)

    def _await_room(self) -> None:
        if not self.is_sending:
            self.is_sending = True
            self._loop.add_writer(self.sock.fileno(), self.send)

    def _lose_later(self, error: Exception) -> None:
        """Give up the connection from the event loop: the caller of `put` expects no callbacks."""
        self.is_sending = True  # so that `put` does not send again
        self._loop.remove_writer(self.sock.fileno())
        self._loop.call_soon(self._on_broken, error)

    def _on_broken(self, error: Exception) -> None:
        if not self._owner.closed:
            self._on_readable()  # the last frames before the peer closed
        self._owner.lose(error)

    def _on_readable(self) -> None:
        for _ in range(READS_PER_WAKE):
            buffers = self._reader.buffers()
            try:
                count = self.sock.recvmsg_into(buffers)[0]
            except BlockingIOError:
                break
            except OSError as error:
                self._owner.lose(error)
                return
            if not count:
                peer = self._owner.peer
                self._owner.lose(ConnectionLostError(f"{peer} closed the connection"))
                return
            self._received_bytes += count
            self._owner.greeted.set()
            try:
                frame = self._reader.advance(count)
                if frame is not None:
                    self._owner.on_frame(frame, self._reader.number)
            except ProtocolError as error:
                peer = self._owner.peer
                self._owner.lose(ConnectionLostError(f"{peer} sent garbage: {error}"))
            if self._owner.closed:
                return
            # Another read would cost a system call for nothing, or for less than a wake-up brings.
            drained = count < sum(map(len, buffers))
            if drained or self._count_wanted() >= max(self._lowat, WORTH_WAITING_BYTES):
                break
        self._await_bytes()

    def _count_wanted(self) -> int:
        """How many bytes must arrive before this lane is woken."""
        return min(len(self._reader.buffer()), RECEIVE_LOWAT_BYTES)

    def _await_bytes(self) -> None:
        """Wait for the rest of the current frame, not for every packet."""
        lowat = self._count_wanted()
        if lowat != self._lowat and self.sock.family == socket.AF_INET:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, lowat)
            self._lowat = lowat
