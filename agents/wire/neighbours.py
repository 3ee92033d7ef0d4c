"""The connections of one site to its neighbours, restored after every loss.

Of two neighbours, the one of lower rank dials, at the start and after every loss; the other one
waits. The first one dials for further lanes as soon as it has heard something over the first lane.
If a neighbour dials that seems to be connected, it has lost the connection and this site has not
noticed that yet.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Mapping
from functools import partial
from typing import Protocol

from trunkline.agents.planning.disciplines import Discipline
from trunkline.agents.wire.failover import Failover
from trunkline.agents.wire.framing import ChunkHeader, Frame
from trunkline.agents.wire.lane import ConnectionLostError, Timing, split_name
from trunkline.agents.wire.link import Connection
from trunkline.agents.wire.liveness import redial
from trunkline.agents.wire.messages import Bye, Control


class Reach(Protocol):
    """A way to connect to another agent, a neighbour or a controller, by its name."""

    async def call(self, name: str, lane: int = 0) -> socket.socket:
        """Connect to the agent, for this lane. Raises OSError if that fails."""
        ...


class Unreachable:
    """A `Reach` for agents that never reconnect."""

    async def call(self, name: str, lane: int = 0) -> socket.socket:
        """See `Reach`."""
        raise ConnectionError(f"{name} is not called again")


class Neighbours:
    """Keeps a connection to every neighbour.

    `links` has the open connections. `on_lost` is called for every loss; `on_found` when a
    connection is open again.
    """

    def __init__(
        self,
        callees: tuple[str, ...],
        reach: Reach,
        failover: Failover,
        on_frame: Callable[[str, Frame], None],
        on_lost: Callable[[str, Exception], None],
        on_found: Callable[[str], None],
        allocate: Callable[[ChunkHeader], memoryview],
        now_ns: Callable[[], int],
        discipline: Discipline,
        chunk_bytes: int,
        timing: Timing | None = None,
        lanes: int = 1,
    ) -> None:
        self.links: dict[str, Connection] = {}
        self._callees = callees
        self._reach = reach
        self._failover = failover
        self._on_frame = on_frame
        self._on_lost = on_lost
        self._on_found = on_found
        self._allocate = allocate
        self._now_ns = now_ns
        self._discipline = discipline
        self._chunk_bytes = chunk_bytes
        self._timing = timing
        self._lanes = lanes
        self._widening: dict[str, asyncio.Task[None]] = {}
        self._calls: dict[str, asyncio.Task[None]] = {}
        self._departed: set[str] = set()
        self._closed = False

    def start(self, sockets: Mapping[str, socket.socket]) -> None:
        """Begin with these connections and dial the missing neighbours among the callees."""
        for peer, sock in sockets.items():
            self._connect(peer, sock)
        for peer in self._callees:
            if peer not in self.links:
                self._call(peer)

    def accept(self, name: str, sock: socket.socket) -> None:
        """Take over a connection from a neighbour that has dialled, or a lane of it."""
        peer, lane = split_name(name)
        if self._closed or (lane and peer not in self.links):
            sock.close()
            return
        if lane:
            self.links[peer].join(sock)
            return
        self._departed.discard(peer)
        if peer in self.links:
            self.links[peer].lose(ConnectionLostError(f"{peer} calls again"))
        if (call := self._calls.pop(peer, None)) is not None:
            call.cancel()
        self._connect(peer, sock)
        self._on_found(peer)

    def tell(self, peer: str, message: Control) -> None:
        """Send a message to a neighbour, if it is connected."""
        if peer in self.links:
            self.links[peer].tell(message)

    def beat(self) -> None:
        """Send a heartbeat to every neighbour to which no frame is being sent."""
        for link in list(self.links.values()):
            link.beat()

    def mark_departing(self, peer: str) -> None:
        """Note that a neighbour exits: the end of its connection is then no loss."""
        self._departed.add(peer)

    def say_goodbye(self) -> None:
        """Tell all neighbours that this site exits, so that they report no loss."""
        for link in list(self.links.values()):
            link.tell(Bye())

    def close(self) -> None:
        """Close all connections and stop dialling."""
        self._closed = True
        for call in (*self._calls.values(), *self._widening.values()):
            call.cancel()
        for link in list(self.links.values()):
            link.close()

    def _connect(self, peer: str, sock: socket.socket) -> None:
        self.links[peer] = Connection(
            sock,
            peer,
            self._on_frame,
            self._on_connection_lost,
            self._allocate,
            self._now_ns,
            self._discipline,
            self._chunk_bytes,
            self._timing,
            numbered=self._lanes > 1,
        )
        if self._lanes > 1 and peer in self._callees:
            self._widening[peer] = asyncio.create_task(self._widen(peer, self.links[peer]))

    def _on_connection_lost(self, peer: str, error: Exception) -> None:
        del self.links[peer]
        if peer in self._widening:
            self._widening.pop(peer).cancel()
        if peer in self._departed:
            return
        self._on_lost(peer, error)
        if peer in self._callees and not self._closed and peer not in self._calls:
            self._call(peer)

    def _call(self, peer: str) -> None:
        self._calls[peer] = asyncio.create_task(self._redial(peer))

    async def _redial(self, peer: str) -> None:
        sock = await redial(partial(self._reach.call, peer), self._failover)
        del self._calls[peer]
        self._connect(peer, sock)
        self._on_found(peer)

    async def _widen(self, peer: str, link: Connection) -> None:
        """Dial for the other lanes of a connection."""
        await link.greeted.wait()
        for lane in range(1, self._lanes):
            link.join(await redial(partial(self._reach.call, peer, lane), self._failover))
