"""Contributions on their way before anybody knows which task they are part of (pure).

With a non-blocking scatter a site that is ready sends at once, by a default split; CREW's paper
calls it that. What it sends is its *offer*, numbered by the site. A task that starts names its
contributors' offers; until then whoever receives a chunk of one holds it, unweighted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from trunkline.agents.planning.disciplines import Flow
from trunkline.agents.planning.plan import Edge
from trunkline.agents.wire.framing import ChunkHeader
from trunkline.agents.wire.messages import ProtocolError
from trunkline.workloads.base import Vector

Key = tuple[int, int]
"""One offer: (rank of the site whose contribution it is, its number there)."""


def key_of(header: ChunkHeader) -> Key:
    """The offer that an early chunk is part of; its header has the number in place of a task."""
    return header.source, header.task


@dataclass(slots=True)
class OwnOffer:
    """What this site has offered: each chunk's edge, and which have not left it yet."""

    number: int
    edges: dict[int, Edge]
    unsent: set[int]


@dataclass(slots=True)
class Offers:
    """The offers of others, as one site hears of them.

    `tasks` are the running tasks that offers have become part of. A site has one offer at a time,
    so whatever precedes its latest offer, or one whose task is over, is not wanted any more: at
    most one model's worth of each site is held.
    """

    tasks: dict[Key, int] = field(default_factory=dict)
    held: dict[Key, dict[int, Vector]] = field(default_factory=dict)
    flows: dict[Key, Flow] = field(default_factory=dict)
    settled: dict[int, int] = field(default_factory=dict)

    def is_settled(self, key: Key) -> bool:
        """Whether nobody wants this offer any more."""
        return key[1] <= self.settled.get(key[0], -1)

    def flow(self, key: Key) -> Flow:
        """The offer's flow; it belongs to a task as soon as the offer does."""
        return self.flows.setdefault(key, Flow(self.tasks.get(key), inward=True))

    def hold(self, header: ChunkHeader, data: Vector) -> None:
        """Keep a chunk of an offer that is part of no task yet."""
        chunks = self.held.setdefault(key_of(header), {})
        if header.chunk in chunks:
            raise ProtocolError(f"chunk {header.chunk} of {key_of(header)} came twice")
        chunks[header.chunk] = data

    def superseded(self, key: Key) -> list[Key]:
        """The earlier offers of the same site that are part of no task and never will be."""
        known = {*self.held, *self.flows} - self.tasks.keys()
        return [other for other in known if other[0] == key[0] and other[1] < key[1]]

    def adopt(self, task: int, offers: Mapping[int, int]) -> None:
        """These offers, number by source, are what the task starts from."""
        for key in offers.items():
            if not self.is_settled(key):
                self.tasks[key] = task
                self.flow(key).task = task

    def of(self, task: int | None) -> list[Key]:
        """The offers that are part of this task; with None, those that are part of none."""
        known = {*self.held, *self.flows, *self.tasks}
        return [key for key in known if self.tasks.get(key) == task]

    def settle(self, keys: list[Key]) -> tuple[list[Flow], list[Vector]]:
        """Forget these offers; returns their flows and the memory that they held."""
        flows: list[Flow] = []
        data: list[Vector] = []
        for key in keys:
            self.settled[key[0]] = max(key[1], self.settled.get(key[0], -1))
            self.tasks.pop(key, None)
            if flow := self.flows.pop(key, None):
                flows.append(flow)
            data += self.held.pop(key, {}).values()
        return flows, data
