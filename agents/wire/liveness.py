"""What an agent does about silence: signs of life on every connection, and calling again.

Silence is counted in this agent's own beats, not in seconds: an agent that was itself stopped, or
starved by its host, has counted few of them and blames nobody.
"""

from __future__ import annotations

import asyncio
import math
import socket
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

from trunkline.agents.wire.link import Connection, ConnectionLostError

BEATS = 4
"""Signs of life that a connection may miss before it is given up."""


@dataclass(frozen=True, slots=True)
class Failover:
    """How soon a silent peer is given up: `timeout_s` without a byte, of a beat every `beat_s`.

    `replans` is how often a task that cannot go on as planned may be planned anew.
    """

    beat_s: float = 0.5
    timeout_s: float = 2.0
    replans: int = 2

    @property
    def patience_s(self) -> float:
        """Until two agents that can reach each other again are connected, and have said so.

        Both must notice the loss; the caller's longest pause and one failed call may pass.
        """
        return 5 * self.timeout_s + 2 * self.beat_s


class Pulse:
    """Beats on all connections of an agent, and gives up those that stay silent."""

    def __init__(self, failover: Failover, connections: Callable[[], Iterable[Connection]]) -> None:
        self._beat_s = failover.beat_s
        self._silent_s = failover.timeout_s
        self._allowed = math.ceil(failover.timeout_s / failover.beat_s)
        self._connections = connections
        self._missed: dict[Connection, int] = {}

    async def run(self) -> None:
        """Beat until cancelled."""
        while True:
            await asyncio.sleep(self._beat_s)
            self.beat()

    def beat(self) -> None:
        """One beat on every connection."""
        now = list(self._connections())
        for link in now:
            link.beat()
        self._missed = {link: 0 if link.heard() else self._missed.get(link, 0) + 1 for link in now}
        for link, missed in self._missed.items():
            if missed >= self._allowed:
                link.lose(ConnectionLostError(f"{link.peer} was silent for {self._silent_s:g} s"))


async def redial(call: Callable[[], Awaitable[socket.socket]], failover: Failover) -> socket.socket:
    """Call until somebody answers, with pauses that double from a beat to the timeout."""
    pause_s = failover.beat_s
    while True:
        try:
            return await asyncio.wait_for(call(), failover.timeout_s)
        except (OSError, TimeoutError):
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, failover.timeout_s)
