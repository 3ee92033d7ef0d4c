"""The backup controller: it acts while the first controller, which starts the run, is silent.

The backup keeps a connection to the first controller and refuses workers as long as that
connection is alive. Reports of workers that the first controller is lost do not count. When the
first controller is back, the backup closes its connections to the workers, who then reconnect.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from trunkline.agents.control.controller import Controller
from trunkline.agents.events import connection_events
from trunkline.agents.events.causes import Ending
from trunkline.agents.events.event import CONTROLLER, Log
from trunkline.agents.events.lifecycle import ControllerLife, follow
from trunkline.agents.wire.failover import Failover
from trunkline.agents.wire.framing import Frame, no_chunks
from trunkline.agents.wire.link import Connection
from trunkline.agents.wire.liveness import Pulse, redial
from trunkline.agents.wire.messages import Begin, Bye, ProtocolError, describe
from trunkline.agents.wire.neighbours import Reach


class Backup:
    """Stands by and acts in turns; `run` returns when the run is over.

    `make` creates the controller for each turn. Its argument is the number of its next task,
    so that no number is used twice.
    """

    def __init__(
        self,
        make: Callable[[int], Controller],
        reach: Reach,
        failover: Failover,
        now_ns: Callable[[], int],
        log: Log,
        next_task: int = 0,
    ) -> None:
        self._make = make
        self._next_task = next_task
        self._reach = reach
        self._failover = failover
        self._now_ns = now_ns
        self._log = follow(ControllerLife.backup(), log)
        self._first: Connection | None = None
        self._lost = asyncio.Event()
        self._over = asyncio.Event()
        self._acting: Controller | None = None
        self._told_to_stop: Ending | None = None

    async def run(self) -> None:
        """Stand by, act, hand over, until the run is over."""
        pulse = asyncio.create_task(Pulse(self._failover, self._connections).run())
        try:
            while not self._over.is_set():
                await self._stand_by()
                if not self._over.is_set():
                    await self._act()
        finally:
            pulse.cancel()
            if self._first is not None:
                self._first.close()

    def stop(self, cause: Ending) -> None:
        """Start no more tasks, now and whenever this controller acts again."""
        self._told_to_stop = cause
        if self._acting is not None:
            self._acting.stop(cause)

    def accept(self, site: str, sock: socket.socket) -> None:
        """Take over a worker's connection, or close it if this controller only stands by."""
        if self._acting is None:
            sock.close()
        else:
            self._acting.accept(site, sock)

    def _connections(self) -> list[Connection]:
        return [] if self._first is None else [self._first]

    async def _stand_by(self) -> None:
        """Return when the first controller is silent or has ended the run."""
        if self._first is None:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._connect_to_first(), self._failover.patience_s)
        if self._first is not None:
            await self._lost.wait()

    async def _act(self) -> None:
        """Act as the controller until the first one is back or the run is over."""
        self._log(connection_events.BackupTookOver)
        controller = self._acting = self._make(self._next_task)
        if self._told_to_stop is not None:
            controller.stop(self._told_to_stop)
        elapsed_s = self._now_ns() / 1e9
        acting = asyncio.create_task(controller.run({}, elapsed_s))
        finding = asyncio.create_task(self._connect_to_first())
        try:
            await asyncio.wait((acting, finding), return_when=asyncio.FIRST_COMPLETED)
            if acting.done():
                self._over.set()
                acting.result()
        finally:
            self._acting = None
            self._next_task = controller.next_task
            for task in (acting, finding):
                task.cancel()
            await asyncio.gather(acting, finding, return_exceptions=True)
            if not self._over.is_set():
                self._log(connection_events.BackupStoodDown)

    async def _connect_to_first(self) -> None:
        sock = await redial(partial(self._reach.call, CONTROLLER), self._failover)
        self._lost.clear()
        self._first = Connection(
            sock, CONTROLLER, self._on_frame, self._on_lost, no_chunks, self._now_ns
        )

    def _on_frame(self, _: str, frame: Frame) -> None:
        match frame:
            case Begin():
                pass
            case Bye():
                if self._first is not None:
                    self._first.tell(frame)
                self._over.set()
                self._lost.set()
            case tuple():
                raise ProtocolError("a chunk from the controller")
            case _:
                raise ProtocolError(f"not for a backup: {describe(frame)}")

    def _on_lost(self, _: str, error: Exception) -> None:
        self._first = None
        self._lost.set()
