"""What agents say to each other: typed messages and their framing, bytes in, bytes out (pure).

Every frame starts with one fixed header. A control frame's body is JSON, checked strictly against
the dataclasses below; a chunk frame's body is its remaining source route and then its bytes,
which are received where they belong, without a copy.

    magic 2 | version 1 | kind 1 | body length 4 | task 4 | block 4 | chunk 4 | source 2 | route 1 |
    flags 1

A beat is a header alone: its sender lives, and has nothing else to say.
"""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter, ValidationError

from agents.part import BlockPart

MAGIC = 0x544C
VERSION = 2
HEADER = struct.Struct("!HBBIIIIHBB")
CONTROL, CHUNK_IN, CHUNK_OUT, ALIVE = range(4)
ORIGINAL, EARLY = 1, 2
MAX_CONTROL_BYTES = 16 * 2**20
MAX_HELLO_BYTES = 1024
MAX_CHUNK_BYTES = 64 * 2**20


BEAT = HEADER.pack(MAGIC, VERSION, ALIVE, 0, 0, 0, 0, 0, 0, 0)
"""What an idle connection carries now and then."""


class ProtocolError(Exception):
    """The peer sent something that is no valid frame; the connection cannot be trusted further."""


@dataclass(frozen=True, slots=True)
class Hello:
    """First message on every connection: who calls, of which run, and when.

    `proof` is that of `agents.identity`; the time is the kernel's monotonic one.
    """

    run: str
    site: str
    called_ns: int
    proof: str
    type: Literal["hello"] = "hello"


@dataclass(frozen=True, slots=True)
class TaskState:
    """A task whose end a member has not heard; `finished` if it has installed the result.

    `left_s` remains of the budget, in seconds.
    """

    task: int
    group: tuple[str, ...]
    weights: dict[str, float]
    scale: float
    blocks: int
    finished: bool
    left_s: float


@dataclass(frozen=True, slots=True)
class Report:
    """Worker to controller, first of all on every connection: what a new one must know.

    `ready` is the iteration that waits for a group, if one does; `left` says that no more will.
    `lost` are the neighbours that it has lost since its last report or cannot reach; `helps` the
    tasks of others that it takes part in, `last_tasks` the latest task that it has heard of from
    each controller.
    """

    ready: int | None
    left: bool
    lost: tuple[str, ...]
    tasks: tuple[TaskState, ...]
    helps: tuple[int, ...]
    last_tasks: tuple[int, ...]
    type: Literal["report"] = "report"


@dataclass(frozen=True, slots=True)
class LinkLost:
    """Worker to controller: the connection to this neighbour broke; what was on it is gone."""

    peer: str
    type: Literal["link_lost"] = "link_lost"


@dataclass(frozen=True, slots=True)
class LinkFound:
    """Worker to controller: connected to this neighbour again."""

    peer: str
    type: Literal["link_found"] = "link_found"


@dataclass(frozen=True, slots=True)
class Begin:
    """Controller to worker, first of all: it is in charge; compute and say when ready.

    `default` is this site's part of the default split: with a non-blocking scatter it sends by
    that as soon as it is ready. Empty where the scatter waits for the task.
    """

    default: tuple[BlockPart, ...]
    type: Literal["begin"] = "begin"


@dataclass(frozen=True, slots=True)
class SiteReady:
    """Worker to controller: an iteration's local work is done.

    `offer` numbers what this site contributes now; it may be on its way by the default split.
    """

    iteration: int
    offer: int
    type: Literal["ready"] = "ready"


@dataclass(frozen=True, slots=True)
class StartTask:
    """Controller to every participant: its part of a task.

    The result is `scale * sum(weights[site] * contribution[site])`. `evaluate` asks this site to
    measure the result's accuracy. `blocks` is how many block numbers the task has used so far,
    those below `floor` are withdrawn; `left_s` is what remains of its budget in seconds.
    `offers` are the contributors' offers that the task takes in, where the scatter did not wait:
    what of them is not in a part of its receiver is dropped, what is missing is sent.
    """

    task: int
    group: tuple[str, ...]
    blocks: int
    floor: int
    left_s: float
    weights: dict[str, float]
    scale: float
    contributes: bool
    receives: bool
    evaluate: bool
    offers: dict[str, int]
    parts: tuple[BlockPart, ...]
    type: Literal["start"] = "start"


@dataclass(frozen=True, slots=True)
class RearrangeTask:
    """Controller to every participant, old and new: other blocks of a running task take over.

    Every trace of the blocks in `withdrawn` is dropped; the new ones, of which `parts` are this
    site's, start afresh. Block numbers are never used again within a task: `blocks` is how many
    it has used so far, the new ones included. With a `floor` all blocks below it are withdrawn,
    and a result that is not whole is begun again: sums may be formed in another order than before.
    """

    task: int
    blocks: int
    floor: int
    withdrawn: tuple[int, ...]
    parts: tuple[BlockPart, ...]
    type: Literal["rearrange"] = "rearrange"


@dataclass(frozen=True, slots=True)
class TaskFinished:
    """Worker to controller: this receiver has installed the whole result.

    Blocks from number `blocks` on were announced too late for it: it has given nothing to them.
    """

    task: int
    blocks: int
    type: Literal["finished"] = "finished"


@dataclass(frozen=True, slots=True)
class Halt:
    """Controller to every participant: drop all blocks so far, install nothing, and answer."""

    task: int
    type: Literal["halt"] = "halt"


@dataclass(frozen=True, slots=True)
class Halted:
    """Member to controller: it has installed the result, or else it will not."""

    task: int
    finished: bool
    type: Literal["halted"] = "halted"


@dataclass(frozen=True, slots=True)
class Refuse:
    """Worker to worker: the sender takes no part in this task, or no longer."""

    task: int
    type: Literal["refuse"] = "refuse"


@dataclass(frozen=True, slots=True)
class Refused:
    """Worker to controller: `site` said that it takes no part in the task."""

    task: int
    site: str
    type: Literal["refused"] = "refused"


@dataclass(frozen=True, slots=True)
class TaskOver:
    """Controller to every participant: forget the task; abandoned unless `completed`."""

    task: int
    completed: bool
    reason: str
    type: Literal["over"] = "over"


@dataclass(frozen=True, slots=True)
class Released:
    """Controller to worker: nobody is left to synchronize with, go on alone."""

    type: Literal["released"] = "released"


@dataclass(frozen=True, slots=True)
class Evaluated:
    """Worker to controller: the accuracy of a task's result, in percent."""

    task: int
    accuracy_percent: float
    type: Literal["evaluated"] = "evaluated"


@dataclass(frozen=True, slots=True)
class Left:
    """Worker to controller: no further rounds; still aggregates and forwards for others."""

    rounds: int
    type: Literal["left"] = "left"


@dataclass(frozen=True, slots=True)
class Stop:
    """Controller to worker: no new rounds; a running task is still finished."""

    type: Literal["stop"] = "stop"


@dataclass(frozen=True, slots=True)
class Bye:
    """Controller to worker: nothing is running any more, exit."""

    type: Literal["bye"] = "bye"


Control = (
    Hello
    | Report
    | LinkLost
    | LinkFound
    | Begin
    | SiteReady
    | StartTask
    | RearrangeTask
    | TaskFinished
    | Halt
    | Halted
    | Refuse
    | Refused
    | TaskOver
    | Released
    | Evaluated
    | Left
    | Stop
    | Bye
)

_CONTROL: TypeAdapter[Control] = TypeAdapter(Annotated[Control, Field(discriminator="type")])


@dataclass(frozen=True, slots=True)
class ChunkHeader:
    """A chunk on its way: sites are ranks, `route` is what remains after the next hop.

    `source` is the tree node that sent it; `original` says that the bytes are that node's own
    contribution, not yet weighted. An `early` one is of no known task yet: `task` is the number of
    its source's offer, `block` means nothing.
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


def encode(message: Control) -> bytes:
    """One control frame."""
    body = _CONTROL.dump_json(message)
    return HEADER.pack(MAGIC, VERSION, CONTROL, len(body), 0, 0, 0, 0, 0, 0) + body


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
            ORIGINAL * header.original | EARLY * header.early,
        )
        + route
    )


Frame = Control | tuple[ChunkHeader, memoryview]
"""A control message, or a chunk's header with its payload in the memory it was given."""


class FrameReader:
    """Cuts a byte stream into frames: fill `buffers()`, then tell how much with `filled(n)`.

    `allocate` names the memory for a chunk's payload; it must have exactly `header.size` bytes.
    Of a longer control frame than allowed nothing is read but its header.
    """

    def __init__(
        self,
        allocate: Callable[[ChunkHeader], memoryview],
        max_control_bytes: int = MAX_CONTROL_BYTES,
    ) -> None:
        self._allocate = allocate
        self._max_control_bytes = max_control_bytes
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
        magic, version, kind, length, *fields, route, _ = self._fields = HEADER.unpack(self._header)
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
        else:
            raise ProtocolError(f"a frame of kind {kind} and {length} bytes")
        return None

    def _got_route(self) -> Frame | None:
        _, _, kind, length, task, block, chunk, source, hops, flags = self._fields
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
        )
        self._expect(self._allocate(self._chunk), self._got_payload, ends_frame=True)
        return None

    def _got_payload(self) -> Frame:
        assert self._chunk is not None
        frame = (self._chunk, self._target)
        self._expect(memoryview(self._header), self._got_header)
        return frame

    def _got_control(self) -> Frame:
        try:
            message = _CONTROL.validate_json(bytes(self._target))
        except ValidationError as error:
            raise ProtocolError(f"no valid message: {error}") from None
        self._expect(memoryview(self._header), self._got_header)
        return message


def no_chunks(header: ChunkHeader) -> memoryview:
    """The `allocate` of a connection that carries control messages only."""
    raise ProtocolError(f"a chunk on a control connection: {header}")


def describe(message: Control) -> str:
    """A short form for error messages."""
    fields = dataclasses.asdict(message)
    return f"{fields.pop('type')} {fields}"[:200]
