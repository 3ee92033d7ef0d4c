"""A worker's connection to whichever controller is in charge, lost and sought again.

A controller that is in charge says `Begin` first; one that only stands by closes. Until then, and
after a loss until the next `Begin`, the worker is on its own: what it would tell is dropped, and
the report that it opens every connection with makes up for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable
from dataclasses import dataclass, field

from trunkline.agents.wire.framing import Frame, no_chunks
from trunkline.agents.wire.link import Connection, ConnectionLostError
from trunkline.agents.wire.liveness import Failover
from trunkline.agents.wire.messages import Begin, Control, ProtocolError
from trunkline.agents.wire.neighbours import Reach


@dataclass(slots=True)
class Home:
    """`controllers` in the order in which they are asked; the callbacks tell of changes."""

    controllers: tuple[str, ...]
    reach: Reach
    failover: Failover
    on_frame: Callable[[Frame], None]
    on_lost: Callable[[Exception], None]
    on_found: Callable[[str, Begin], None]
    now_ns: Callable[[], int]
    connected: bool = False
    link: Connection | None = None
    _seeking: asyncio.Task[None] | None = None
    _answered: asyncio.Event = field(default_factory=asyncio.Event)
    _closed: bool = False

    def start(self, sock: socket.socket | None) -> None:
        """Begin with this connection, or seek one."""
        if sock is None:
            self._seek()
        else:
            self._adopt(self.controllers[0], sock)

    def tell(self, message: Control) -> None:
        """Say something to the controller, if there is one."""
        if self.connected and self.link is not None:
            self.link.tell(message)

    def close(self) -> None:
        """Close the connection and seek no other."""
        self._closed = True
        if self._seeking is not None:
            self._seeking.cancel()
        if self.link is not None:
            self.link.close()

    def _adopt(self, name: str, sock: socket.socket) -> None:
        self._answered.clear()
        self.link = Connection(sock, name, self._heard, self._lost, no_chunks, self.now_ns)

    def _heard(self, name: str, frame: Frame) -> None:
        if self.connected:
            self.on_frame(frame)
        elif isinstance(frame, Begin):
            self.connected = True
            self._answered.set()
            self.on_found(name, frame)
        else:
            raise ProtocolError("the controller does not begin with a begin")

    def _lost(self, _: str, error: Exception) -> None:
        self.link = None
        self._answered.set()
        if self.connected:
            self.connected = False
            self.on_lost(error)
        if self._seeking is None and not self._closed:
            self._seek()

    def _seek(self) -> None:
        self._seeking = asyncio.create_task(self._sought())

    async def _sought(self) -> None:
        """Ask one controller after the other until one is in charge."""
        pause_s = self.failover.beat_s
        while not self.connected:
            for name in self.controllers:
                if await self._asked(name):
                    break
            else:
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, self.failover.timeout_s)
        self._seeking = None

    async def _asked(self, name: str) -> bool:
        timeout_s = self.failover.timeout_s
        try:
            sock = await asyncio.wait_for(self.reach.call(name), timeout_s)
        except (OSError, TimeoutError):
            return False
        self._adopt(name, sock)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._answered.wait(), timeout_s)
        if not self.connected and self.link is not None:
            self.link.lose(ConnectionLostError(f"{name} does not answer"))
        return self.connected
