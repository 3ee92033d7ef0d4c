"""The wire format of messages and chunks: a fixed header, then a body (pure).

A control frame's body is JSON (`agents.wire.messages`). A chunk frame's body is its remaining
source route and then its payload, which is received into its final memory without a copy.

    magic 2 | version 1 | kind 1 | body length 4 | task 4 | block 4 | chunk 4 | source 2 | route 1 |
    flags 1 | time 8

The time, in nanoseconds of the sender's clock, is when the frame's first byte entered the socket.
The upper four bits of the flags are the rank of the controller whose clock the sender's clock
follows. A beat is a header without a body: a heartbeat on an idle connection. On a connection with
several lanes, another header without a body precedes each other frame and has, in place of the
task, the frame's number.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, NamedTuple

from pydantic import Field, TypeAdapter, ValidationError

from trunkline.agents.wire.messages import Control, ProtocolError

MAGIC = 0x544C
VERSION = 4
HEADER = struct.Struct("!HBBIIIIHBBq")
CONTROL, CHUNK_IN, CHUNK_OUT, ALIVE, NUMBER = range(5)
ORIGINAL, EARLY, AUXILIARY, MORE = 1, 2, 4, 8
FLAG_BITS = 4
MAX_CONTROL_BYTES = 16 * 2**20
MAX_HELLO_BYTES = 1024
MAX_CHUNK_BYTES = 64 * 2**20


class Stamp(NamedTuple):
    """When a frame's first byte entered the socket, and the rank of the clock's controller.

    Times of clocks that follow different controllers cannot be compared.
    """

    time_ns: int
    controller: int


UNTIMED = Stamp(-(2**63), 0)
"""The stamp of a frame whose sender's clock is not synchronized."""

_CONTROL: TypeAdapter[Control] = TypeAdapter(Annotated[Control, Field(discriminator="type")])
"""Messages to and from JSON."""

_STAMP = struct.Struct("!Bq")
_STAMP_AT = HEADER.size - _STAMP.size

BEAT = HEADER.pack(MAGIC, VERSION, ALIVE, 0, 0, 0, 0, 0, 0, 0, UNTIMED.time_ns)
"""The frame of a heartbeat."""

Timed = Callable[[Stamp, int | None], None]
"""Called for every complete frame with a stamp: the stamp, and the bytes of the frame's chunk.

The bytes are 0 for a beat and None for a control frame.
"""


@dataclass(frozen=True, slots=True)
class ChunkHeader:
    """The header of a chunk; sites are given by rank.

    inward: whether the chunk is on its way to the aggregator.
    source: the tree node that sent the chunk.
    route: the hops that remain after the next one; on an `auxiliary` path, the whole path from the
        source to the destination.
    original: whether the payload is the source's own contribution, not yet weighted.
    early: whether the chunk is of an offer: `task` is then the offer's number, `block` unused.
    auxiliary: whether the chunk is on an auxiliary path (NetStorm's IS_AUX and PATH).
    more: whether a relay waits for more chunks of the block before it sends this one on.
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
    more: bool = False


def encode(message: Control) -> bytes:
    """A whole control frame."""
    body = _CONTROL.dump_json(message)
    return HEADER.pack(MAGIC, VERSION, CONTROL, len(body), 0, 0, 0, 0, 0, 0, UNTIMED.time_ns) + body


def encode_number(number: int) -> bytes:
    """The header before the frame with this number, which counts from 1."""
    return HEADER.pack(MAGIC, VERSION, NUMBER, 0, number, 0, 0, 0, 0, 0, UNTIMED.time_ns)


def encode_chunk(header: ChunkHeader) -> bytes:
    """A chunk frame without its payload, which has `header.size` bytes."""
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
            ORIGINAL * header.original
            | EARLY * header.early
            | AUXILIARY * header.auxiliary
            | MORE * header.more,
            UNTIMED.time_ns,
        )
        + route
    )


def stamp_header(header: bytes, sent: Stamp) -> bytes:
    """Write the stamp into an encoded frame, given from its header on."""
    flags = header[_STAMP_AT] | sent.controller << FLAG_BITS
    stamp = _STAMP.pack(flags, sent.time_ns)
    return b"".join((header[:_STAMP_AT], stamp, header[HEADER.size :]))


Frame = Control | tuple[ChunkHeader, memoryview]
"""A control message, or a chunk's header and its payload in the memory from `allocate`."""


class FrameReader:
    """Cuts a byte stream into frames: receive `n` bytes into `buffers()`, then call `advance(n)`.

    `allocate` returns the memory for a chunk's payload: exactly `header.size` bytes. A control
    frame longer than `max_control_bytes` is refused by its header alone. `on_timed` is called for
    every complete frame with a stamp. If frames are `numbered`, `number` is that of the frame that
    `advance` has returned last; otherwise None.
    """

    def __init__(
        self,
        allocate: Callable[[ChunkHeader], memoryview],
        max_control_bytes: int = MAX_CONTROL_BYTES,
        on_timed: Timed | None = None,
        *,
        numbered: bool = False,
    ) -> None:
        self.number: int | None = None
        self._next_number: int | None = None
        self._numbered = numbered
        self._allocate = allocate
        self._max_control_bytes = max_control_bytes
        self._on_timed = on_timed
        self._header = bytearray(HEADER.size)
        self._chunk: ChunkHeader | None = None
        self._fields: tuple[int, ...] = ()
        self._target = memoryview(self._header)
        self._got = 0
        self._complete: Callable[[], Frame | None] = self._read_header
        self._ends_frame = False

    def buffer(self) -> memoryview:
        """The memory for the next bytes; never empty."""
        return self._target[self._got :]

    def buffers(self) -> list[memoryview]:
        """`buffer()` and, if a frame ends with it, the memory for the next frame's header."""
        if self._ends_frame:
            return [self.buffer(), memoryview(self._header)]
        return [self.buffer()]

    def advance(self, count: int) -> Frame | None:
        """Take in `count` bytes from `buffers()`; returns the frame that they complete, if any.

        Raises ProtocolError.
        """
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
        self, target: memoryview, complete: Callable[[], Frame | None], *, ends_frame: bool = False
    ) -> None:
        self._target, self._got, self._complete = target, 0, complete
        self._ends_frame = ends_frame

    def _read_header(self) -> Frame | None:
        self._fields = HEADER.unpack(self._header)
        magic, version, kind, length, *fields, route, _, _ = self._fields
        if magic != MAGIC or version != VERSION:
            raise ProtocolError(f"not a version {VERSION} frame: magic {magic:#x}, {version}")
        if self._numbered and (self._next_number is None) != (kind in (NUMBER, ALIVE)):
            raise ProtocolError(f"a frame of kind {kind} with the number {self._next_number}")
        if kind == CONTROL:
            if not 0 < length <= self._max_control_bytes or any(fields):
                raise ProtocolError(f"a control frame of {length} bytes, fields {fields}")
            self._expect(memoryview(bytearray(length)), self._read_control, ends_frame=True)
        elif kind in (CHUNK_IN, CHUNK_OUT):
            if not 2 * route < length <= MAX_CHUNK_BYTES:
                raise ProtocolError(f"a chunk frame of {length} bytes, {route} hops to go")
            if not route:
                return self._read_route()
            self._expect(memoryview(bytearray(2 * route)), self._read_route)
        elif kind == ALIVE and not length:
            self._expect(memoryview(self._header), self._read_header)
            self._tell_time(0)
        elif kind == NUMBER and self._numbered and not length:
            self._next_number = self._fields[4]
            self._expect(memoryview(self._header), self._read_header)
        else:
            raise ProtocolError(f"a frame of kind {kind} and {length} bytes")
        return None

    def _read_route(self) -> Frame | None:
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
            more=bool(flags & MORE),
        )
        self._expect(self._allocate(self._chunk), self._read_payload, ends_frame=True)
        return None

    def _read_payload(self) -> Frame:
        assert self._chunk is not None
        frame = (self._chunk, self._target)
        self.number, self._next_number = self._next_number, None
        self._expect(memoryview(self._header), self._read_header)
        self._tell_time(self._chunk.size)
        return frame

    def _read_control(self) -> Frame:
        message = _decode_message(bytes(self._target))
        self.number, self._next_number = self._next_number, None
        self._expect(memoryview(self._header), self._read_header)
        self._tell_time(None)
        return message

    def _tell_time(self, size: int | None) -> None:
        *_, flags, sent_ns = self._fields
        if self._on_timed is not None and sent_ns != UNTIMED.time_ns:
            self._on_timed(Stamp(sent_ns, flags >> FLAG_BITS), size)


def _decode_message(text: bytes) -> Control:
    try:
        return _CONTROL.validate_json(text)
    except ValidationError as error:
        raise ProtocolError(f"no valid message: {error}") from None


def no_chunks(header: ChunkHeader) -> memoryview:
    """The `allocate` of a connection that carries control messages only."""
    raise ProtocolError(f"a chunk on a control connection: {header}")
