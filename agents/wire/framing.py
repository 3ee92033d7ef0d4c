"""How messages and chunks travel: one fixed header, then a body; bytes in, bytes out (pure).

A control frame's body is JSON (`agents.wire.messages`); a chunk frame's body is its remaining
source route and then its bytes, which are received where they belong, without a copy.

    magic 2 | version 1 | kind 1 | body length 4 | task 4 | block 4 | chunk 4 | source 2 | route 1 |
    flags 1 | time 8

The time is that of the sender's own clock, in nanoseconds, at which the frame's first byte entered
the socket; the upper five bits of the flags say which controller's clock that follows. A beat is a
header alone: its sender lives, and has nothing else to say.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from trunkline.agents.wire.messages import Control, ProtocolError, from_json, to_json

MAGIC = 0x544C
VERSION = 3
HEADER = struct.Struct("!HBBIIIIHBBq")
CONTROL, CHUNK_IN, CHUNK_OUT, ALIVE = range(4)
ORIGINAL, EARLY, AUXILIARY = 1, 2, 4
FLAG_BITS = 3
MAX_CONTROL_BYTES = 16 * 2**20
MAX_HELLO_BYTES = 1024
MAX_CHUNK_BYTES = 64 * 2**20


class Stamp(NamedTuple):
    """When a frame's first byte entered the socket, by a clock that follows this controller's.

    Times by the clocks of different controllers cannot be compared.
    """

    time_ns: int
    controller: int


UNTIMED = Stamp(-(2**63), 0)
"""Of a frame whose sender keeps no time."""

_STAMP = struct.Struct("!Bq")
_STAMP_AT = HEADER.size - _STAMP.size

BEAT = HEADER.pack(MAGIC, VERSION, ALIVE, 0, 0, 0, 0, 0, 0, 0, UNTIMED.time_ns)
"""What an idle connection carries now and then."""

Timed = Callable[[Stamp, int | None], None]
"""Hears of every timed frame that is complete: when it was sent, and the bytes of its chunk.

A beat has 0, a control frame None.
"""


@dataclass(frozen=True, slots=True)
class ChunkHeader:
    """A chunk on its way: sites are ranks, `route` is what remains after the next hop.

    `source` is the tree node that sent it; `original` says that the bytes are that node's own
    contribution, not yet weighted. An `early` one is of no known task yet: `task` is the number of
    its source's offer, `block` means nothing. On an `auxiliary` path `route` is the whole path all
    the way, from the source to whom it is for (NetStorm's IS_AUX and PATH).
    """

    inward: bool
    task: int
    block: int
    chunk: int
    source: int
    route: tuple[int, ...]
    original: bool
    size: int
    early: bool = False
    auxiliary: bool = False


def encode(message: Control) -> bytes:
    """One control frame."""
    body = to_json(message)
    return HEADER.pack(MAGIC, VERSION, CONTROL, len(body), 0, 0, 0, 0, 0, 0, UNTIMED.time_ns) + body


def encode_chunk(header: ChunkHeader) -> bytes:
    """All of a chunk frame but its payload of `header.size` bytes."""
    route = struct.pack(f"!{len(header.route)}H", *header.route)
    return (
        HEADER.pack(
            MAGIC,
            VERSION,
            CHUNK_IN if header.inward else CHUNK_OUT,
            len(route) + header.size,
            header.task,
            header.block,
            header.chunk,
            header.source,
            len(header.route),
            ORIGINAL * header.original | EARLY * header.early | AUXILIARY * header.auxiliary,
            UNTIMED.time_ns,
        )
        + route
    )


def timed(header: bytes, sent: Stamp) -> bytes:
    """An encoded header, and what follows it, with the time at which it enters the socket."""
    flags = header[_STAMP_AT] | sent.controller << FLAG_BITS
    stamp = _STAMP.pack(flags, sent.time_ns)
    return b"".join((header[:_STAMP_AT], stamp, header[HEADER.size :]))


Frame = Control | tuple[ChunkHeader, memoryview]
"""A control message, or a chunk's header with its payload in the memory it was given."""


class FrameReader:
    """Cuts a byte stream into frames: fill `buffers()`, then tell how much with `filled(n)`.

    `allocate` names the memory for a chunk's payload; it must have exactly `header.size` bytes.
    Of a longer control frame than allowed nothing is read but its header. `on_timed` hears of every
    frame that is complete and says when it was sent.
    """

    def __init__(
        self,
        allocate: Callable[[ChunkHeader], memoryview],
        max_control_bytes: int = MAX_CONTROL_BYTES,
        on_timed: Timed | None = None,
    ) -> None:
        self._allocate = allocate
        self._max_control_bytes = max_control_bytes
        self._on_timed = on_timed
        self._header = bytearray(HEADER.size)
        self._chunk: ChunkHeader | None = None
        self._fields: tuple[int, ...] = ()
        self._target = memoryview(self._header)
        self._got = 0
        self._complete: Callable[[], Frame | None] = self._got_header
        self._ends_frame = False

    def buffer(self) -> memoryview:
        """The memory that the next bytes belong in; never empty."""
        return self._target[self._got :]

    def buffers(self) -> list[memoryview]:
        """`buffer()` and, where a frame ends with it, the memory of the next one's header."""
        if self._ends_frame:
            return [self.buffer(), memoryview(self._header)]
        return [self.buffer()]

    def filled(self, count: int) -> Frame | None:
        """`count` bytes are in `buffers()`: a frame if complete now. Raises ProtocolError."""
        more = self._got + count - len(self._target)
        if more < 0:
            self._got += count
            return None
        frame = self._complete()
        self._got = more
        if more and more == len(self._target):
            self._complete()
        return frame

    def _expect(
        self,
        target: memoryview,
        complete: Callable[[], Frame | None],
        *,
        ends_frame: bool = False,
    ) -> None:
        self._target, self._got, self._complete = target, 0, complete
        self._ends_frame = ends_frame

    def _got_header(self) -> Frame | None:
        self._fields = HEADER.unpack(self._header)
        magic, version, kind, length, *fields, route, _, _ = self._fields
        if magic != MAGIC or version != VERSION:
            raise ProtocolError(f"not a version {VERSION} frame: magic {magic:#x}, {version}")
        if kind == CONTROL:
            if not 0 < length <= self._max_control_bytes or any(fields):
                raise ProtocolError(f"a control frame of {length} bytes, fields {fields}")
            self._expect(memoryview(bytearray(length)), self._got_control, ends_frame=True)
        elif kind in (CHUNK_IN, CHUNK_OUT):
            if not 2 * route < length <= MAX_CHUNK_BYTES:
                raise ProtocolError(f"a chunk frame of {length} bytes, {route} hops to go")
            if not route:
                return self._got_route()
            self._expect(memoryview(bytearray(2 * route)), self._got_route)
        elif kind == ALIVE and not length:
            self._expect(memoryview(self._header), self._got_header)
            self._tell_time(0)
        else:
            raise ProtocolError(f"a frame of kind {kind} and {length} bytes")
        return None

    def _got_route(self) -> Frame | None:
        _, _, kind, length, task, block, chunk, source, hops, flags, _ = self._fields
        route = struct.unpack(f"!{hops}H", self._target) if hops else ()
        self._chunk = ChunkHeader(
            inward=kind == CHUNK_IN,
            task=task,
            block=block,
            chunk=chunk,
            source=source,
            route=route,
            original=bool(flags & ORIGINAL),
            size=length - 2 * hops,
            early=bool(flags & EARLY),
            auxiliary=bool(flags & AUXILIARY),
        )
        self._expect(self._allocate(self._chunk), self._got_payload, ends_frame=True)
        return None

    def _got_payload(self) -> Frame:
        assert self._chunk is not None
        frame = (self._chunk, self._target)
        self._expect(memoryview(self._header), self._got_header)
        self._tell_time(self._chunk.size)
        return frame

    def _got_control(self) -> Frame:
        message = from_json(bytes(self._target))
        self._expect(memoryview(self._header), self._got_header)
        self._tell_time(None)
        return message

    def _tell_time(self, size: int | None) -> None:
        *_, flags, sent_ns = self._fields
        if self._on_timed is not None and sent_ns != UNTIMED.time_ns:
            self._on_timed(Stamp(sent_ns, flags >> FLAG_BITS), size)


def no_chunks(header: ChunkHeader) -> memoryview:
    """The `allocate` of a connection that carries control messages only."""
    raise ProtocolError(f"a chunk on a control connection: {header}")
