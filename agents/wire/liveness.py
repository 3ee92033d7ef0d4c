"""Heartbeats on every connection, the detection of silent peers, and reconnection.

An agent counts a peer's silence in its own beats and not in seconds. So an agent that was itself
stopped, or got no CPU time from its host, does not take its peers for lost.
"""

from __future__ import annotations

import asyncio
import math
import socket
from collections.abc import Awaitable, Callable, Iterable

from trunkline.agents.wire.failover import Failover
from trunkline.agents.wire.lane import ConnectionLostError
from trunkline.agents.wire.link import Connection


class Pulse:
    """Sends heartbeats on all connections of an agent and gives up silent connections."""

    def __init__(self, failover: Failover, connections: Callable[[], Iterable[Connection]]) -> None:
        self._beat_s = failover.beat_s
        self._silent_s = failover.timeout_s
        self._allowed = math.ceil(failover.timeout_s / failover.beat_s)
        self._connections = connections
        self._missed: dict[Connection, int] = {}

    async def run(self) -> None:
        """Send heartbeats until cancelled."""
        while True:
            await asyncio.sleep(self._beat_s)
            self.beat()

    def beat(self) -> None:
        """Send one heartbeat on every connection, then give up the silent ones."""
        now = list(self._connections())
        for link in now:
            link.beat()
        self._missed = {
            link: 0 if link.poll_alive() else self._missed.get(link, 0) + 1 for link in now
        }
        for link, missed in self._missed.items():
            if missed >= self._allowed:
                link.lose(ConnectionLostError(f"{link.peer} was silent for {self._silent_s:g} s"))


async def redial(call: Callable[[], Awaitable[socket.socket]], failover: Failover) -> socket.socket:
    """Call until a call succeeds, with pauses that double from `beat_s` up to `timeout_s`."""
    pause_s = failover.beat_s
    while True:
        try:
            return await asyncio.wait_for(call(), failover.timeout_s)
        except (OSError, TimeoutError):
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, failover.timeout_s)
