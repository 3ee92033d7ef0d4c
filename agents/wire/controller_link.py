"""A worker's connection to the controller that is in charge, restored after every loss.

A controller in charge sends `Begin` first; a backup that stands by closes the connection. Before
`Begin` the worker has no controller, and messages to it are dropped. The report with which the
worker answers `Begin` contains everything that such messages would have said. A controller whose
run is over sends `Bye` instead, and waits for the same answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable
from dataclasses import dataclass, field

from trunkline.agents.wire.failover import Failover
from trunkline.agents.wire.framing import Frame, no_chunks
from trunkline.agents.wire.lane import ConnectionLostError
from trunkline.agents.wire.link import Connection
from trunkline.agents.wire.messages import Begin, Bye, Control, ProtocolError
from trunkline.agents.wire.neighbours import Reach


@dataclass(slots=True)
class ControllerLink:
    """Keeps one connection to the controller in charge; tries `controllers` in their order.

    `link` is the open connection, if any; `connected` says that its controller is in charge.
    """

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
        """Begin with this connection; with None, find a controller."""
        if sock is None:
            self._seek()
        else:
            self._adopt(self.controllers[0], sock)

    def tell(self, message: Control) -> None:
        """Send a message to the controller; without one, drop it."""
        if self.connected and self.link is not None:
            self.link.tell(message)

    def close(self) -> None:
        """Close the connection and do not connect again."""
        self._closed = True
        if self._seeking is not None:
            self._seeking.cancel()
        if self.link is not None:
            self.link.close()

    def _adopt(self, name: str, sock: socket.socket) -> None:
        self._answered.clear()
        self.link = Connection(sock, name, self._on_frame, self._on_lost, no_chunks, self.now_ns)

    def _on_frame(self, name: str, frame: Frame) -> None:
        if isinstance(frame, Bye) and self.link is not None:
            self.link.tell(frame)
            self.on_frame(frame)
        elif self.connected:
            self.on_frame(frame)
        elif isinstance(frame, Begin):
            self.connected = True
            self._answered.set()
            self.on_found(name, frame)
        else:
            raise ProtocolError("the controller does not begin with a begin")

    def _on_lost(self, _: str, error: Exception) -> None:
        self.link = None
        self._answered.set()
        if self.connected:
            self.connected = False
            self.on_lost(error)
        if self._seeking is None and not self._closed:
            self._seek()

    def _seek(self) -> None:
        self._seeking = asyncio.create_task(self._find_controller())

    async def _find_controller(self) -> None:
        """Try one controller after the other until one is in charge."""
        pause_s = self.failover.beat_s
        while not self.connected:
            for name in self.controllers:
                if await self._try_controller(name):
                    break
            else:
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, self.failover.timeout_s)
        self._seeking = None

    async def _try_controller(self, name: str) -> bool:
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
