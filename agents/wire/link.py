"""A connection between two agents, with the queue of frames to send.

Payload is received directly into its final memory. A receiver is woken for large parts of a chunk,
not for every packet. Chunks wait in the sender's queue and not in the socket, so that the
discipline can choose the next one.

A connection has one stream socket or several (`network.connections`), which are called its lanes.
With several lanes, every frame has a number and goes over a lane that is free. The receiver
delivers frames in the order of their numbers, which is the order in which the sender began them.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections import deque
from collections.abc import Callable, Collection
from functools import partial

from trunkline.agents.planning.disciplines import DISCIPLINES, Discipline, Flow, Queue
from trunkline.agents.wire.framing import BEAT, ChunkHeader, Frame, FrameReader, encode
from trunkline.agents.wire.lane import Lane, Outgoing, Timing
from trunkline.agents.wire.messages import Control, ProtocolError


class Connection:
    """Passes received frames to a callback, and sends frames from a queue with a discipline.

    With `numbered`, more lanes may `join`; both ends must agree on that.
    """

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
        *,
        numbered: bool = False,
    ) -> None:
        self.peer = peer
        self.closed = False
        self.greeted = asyncio.Event()
        """Set when a byte has arrived, or the connection is lost."""
        self._on_frame = on_frame
        self._on_lost = on_lost
        self._allocate = allocate
        self._now_ns = now_ns
        self._chunk_bytes = chunk_bytes
        self._timing = timing
        self._numbered = numbered
        self._sent = 0
        self._delivered = 0
        self._early: dict[int, Frame] = {}
        self._control: deque[Outgoing] = deque()
        self._queue: Queue[Outgoing] = Queue(discipline)
        self._heard_bytes = 0
        self._drained: asyncio.Event = asyncio.Event()
        self._drained.set()
        self._lanes: list[Lane] = []
        self._add_lane(sock)

    @property
    def sock(self) -> socket.socket:
        """The socket of the first lane."""
        return self._lanes[0].sock

    def join(self, sock: socket.socket) -> None:
        """Add a lane, which takes its part of the queue at once."""
        if self.closed:
            sock.close()
            return
        self._add_lane(sock)
        if not self._drained.is_set():
            self._lanes[-1].send()

    def tell(self, message: Control) -> None:
        """Queue a control message."""
        self.put(Outgoing(encode(message)))

    def put(self, frame: Outgoing) -> None:
        """Queue a frame; on a lost connection it is dropped at once."""
        if self.closed:
            if frame.dropped:
                frame.dropped()
            return
        if frame.flow is None:
            self._control.append(frame)
        else:
            self._queue.push(frame, frame.flow)
        self._drained.clear()
        free = next((lane for lane in self._lanes if not lane.is_sending), None)
        if free is not None:
            free.send()

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

    async def drain(self) -> None:
        """Return when everything queued is in the sockets, or the connection is lost."""
        await self._drained.wait()

    def beat(self) -> None:
        """Send a heartbeat, unless a frame is being sent: its bytes serve as well."""
        if all(lane.current is None for lane in self._lanes):
            self.put(Outgoing(BEAT))

    def poll_alive(self) -> bool:
        """Whether any byte has arrived since the last call."""
        if self.closed:
            return True
        arrived = sum(lane.arrived_bytes for lane in self._lanes)
        heard, self._heard_bytes = arrived > self._heard_bytes, arrived
        return heard

    @property
    def resent_packets(self) -> int | None:
        """The packets that TCP has sent again on this connection; None if that is not known."""
        counts = [] if self.closed else [lane.resent_packets for lane in self._lanes]
        return sum(n or 0 for n in counts) if counts and None not in counts else None

    def lose(self, error: Exception) -> None:
        """Give up the connection for this reason: reset it, then tell."""
        if self.closed:
            return
        for lane in self._lanes:
            lane.reset()
        with contextlib.suppress(OSError):
            self.close()
        self._on_lost(self.peer, error)

    def close(self) -> None:
        """Close now and drop all queued frames."""
        if self.closed:
            return
        self.closed = True
        for lane in self._lanes:
            unsent = lane.close()
            _tell_dropped([unsent] if unsent else [])
        self._control.clear()
        self.drop(lambda frame: True)
        self._drained.set()
        self.greeted.set()

    def take_next(self) -> tuple[Outgoing, int | None] | None:
        """See `lane.Owner`."""
        if self.closed:
            return None
        frame = self._control.popleft() if self._control else self._queue.pop()
        if frame is None:
            return None
        if not self._numbered or frame.header == BEAT:
            return frame, None
        self._sent += 1
        return frame, self._sent

    def on_frame(self, frame: Frame, number: int | None) -> None:
        """Deliver a frame, and those that have waited for it. Raises ProtocolError."""
        if number is None:
            self._on_frame(self.peer, frame)
            return
        if number <= self._delivered or number in self._early:
            raise ProtocolError(f"frame {number} again")
        self._early[number] = frame
        while not self.closed and self._delivered + 1 in self._early:
            self._delivered += 1
            self._on_frame(self.peer, self._early.pop(self._delivered))

    def on_idle(self) -> None:
        """See `lane.Owner`."""
        if all(lane.current is None for lane in self._lanes):
            self._drained.set()

    def _add_lane(self, sock: socket.socket) -> None:
        on_timed = partial(self._timing.on_arrived, self.peer) if self._timing else None
        reader = FrameReader(self._allocate, on_timed=on_timed, numbered=self._numbered)
        self._lanes.append(Lane(sock, self, reader, self._now_ns, self._chunk_bytes, self._timing))

    def _detach(self, unwanted: Callable[[Outgoing], bool]) -> None:
        for lane in self._lanes:
            lane.detach(unwanted)


def _tell_dropped(frames: list[Outgoing]) -> None:
    for frame in frames:
        if frame.dropped:
            frame.dropped()
