"""The connections of one site to its neighbours: kept up, lost, found again.

Of two neighbours the one of lower rank calls, at the start and whenever their connection is lost;
the other waits to be called. A call from a neighbour that seems connected means that it has lost
the connection and this site has not noticed yet.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Mapping
from functools import partial
from typing import Protocol

from trunkline.agents.planning.disciplines import Discipline
from trunkline.agents.wire.framing import ChunkHeader, Frame
from trunkline.agents.wire.link import Connection, ConnectionLostError, Timing
from trunkline.agents.wire.liveness import Failover, redial
from trunkline.agents.wire.messages import Bye, Control


class Reach(Protocol):
    """How an agent calls another one by name, a neighbour or a controller."""

    async def call(self, name: str) -> socket.socket:
        """A connection to it. Raises OSError when nobody answers."""
        ...


class Unreachable:
    """A `Reach` for agents that never call again."""

    async def call(self, name: str) -> socket.socket:
        """See `Reach`."""
        raise ConnectionError(f"{name} is not called again")


class Neighbours:
    """`links` are the neighbours that can be reached now; `on_lost`, `on_found` tell of changes."""

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
        self._calls: dict[str, asyncio.Task[None]] = {}
        self._departed: set[str] = set()
        self._closed = False

    def start(self, sockets: Mapping[str, socket.socket]) -> None:
        """Begin with these connections; neighbours without one that this site calls are called."""
        for peer, sock in sockets.items():
            self._connect(peer, sock)
        for peer in self._callees:
            if peer not in self.links:
                self._call(peer)

    def accepted(self, peer: str, sock: socket.socket) -> None:
        """A neighbour has called."""
        if self._closed:
            sock.close()
            return
        self._departed.discard(peer)
        if peer in self.links:
            self.links[peer].lose(ConnectionLostError(f"{peer} calls again"))
        if (call := self._calls.pop(peer, None)) is not None:
            call.cancel()
        self._connect(peer, sock)
        self._on_found(peer)

    def tell(self, peer: str, message: Control) -> None:
        """Say something to a neighbour, if it can be reached."""
        if peer in self.links:
            self.links[peer].tell(message)

    def beat(self) -> None:
        """Give all neighbours that hear nothing else from this site a sign of life."""
        for link in list(self.links.values()):
            link.beat()

    def departs(self, peer: str) -> None:
        """A neighbour said goodbye: its connection will close, which is no loss."""
        self._departed.add(peer)

    def say_goodbye(self) -> None:
        """Tell all that this site leaves: that its connections close is no loss."""
        for link in list(self.links.values()):
            link.tell(Bye())

    def close(self) -> None:
        """Close all connections and call nobody any more."""
        self._closed = True
        for call in self._calls.values():
            call.cancel()
        for link in list(self.links.values()):
            link.close()

    def _connect(self, peer: str, sock: socket.socket) -> None:
        self.links[peer] = Connection(
            sock,
            peer,
            self._on_frame,
            self._lost,
            self._allocate,
            self._now_ns,
            self._discipline,
            self._chunk_bytes,
            self._timing,
        )

    def _lost(self, peer: str, error: Exception) -> None:
        del self.links[peer]
        if peer in self._departed:
            return
        self._on_lost(peer, error)
        if peer in self._callees and not self._closed and peer not in self._calls:
            self._call(peer)

    def _call(self, peer: str) -> None:
        self._calls[peer] = asyncio.create_task(self._called(peer))

    async def _called(self, peer: str) -> None:
        sock = await redial(partial(self._reach.call, peer), self._failover)
        del self._calls[peer]
        self._connect(peer, sock)
        self._on_found(peer)
