"""The end of a run: every agent is told, until the last one has answered."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection

from trunkline.agents.wire.link import Connection
from trunkline.agents.wire.messages import Bye


class Farewell:
    """A controller's last messages. `links` are its connections, by agent."""

    def __init__(self, links: dict[str, Connection]) -> None:
        self._links = links
        self._awaited: set[str] = set()
        self._alone = asyncio.Event()

    async def say(self, present: Collection[str], patience_s: float) -> None:
        """Tell all agents that the run is over, until the last one has answered or time is up.

        An agent whose connection is lost before that calls again, and is told then.
        """
        self._awaited = {*present, *self._links}
        for link in list(self._links.values()):
            link.tell(Bye())
        self.leave_if_alone()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._alone.wait(), patience_s)

    def on_answered(self, agent: str) -> None:
        """Note that an agent knows that the run is over."""
        self._awaited.discard(agent)

    def leave_if_alone(self) -> None:
        """End the wait if no agent is connected and none is awaited."""
        if not self._links and not self._awaited:
            self._alone.set()
