"""Contributions that are sent before their task is known (pure).

With a non-blocking scatter (CREW), a site that is ready sends its contribution at once, by a
default split. That contribution is an *offer*; each site numbers its own offers. When a task
starts, it names its contributors' offers. Until then a receiver holds their chunks, unweighted.
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
"""One offer: (rank of its site, number of the offer at that site)."""


def key_of(header: ChunkHeader) -> Key:
    """The offer of an early chunk; the chunk's header has the offer's number as its `task`."""
    return header.source, header.task


@dataclass(slots=True)
class OwnOffer:
    """This site's own offer: each chunk's edge, and the chunks that are not sent yet."""

    number: int
    edges: dict[int, Edge]
    unsent: set[int]


@dataclass(slots=True)
class Offers:
    """All offers that one site knows of.

    `tasks` maps offers to the running tasks that took them in, `held` has the chunks of the others.
    `spent` is the highest number per site that is not needed any more. A site has one offer at a
    time, so a newer offer, or the end of its task, makes all earlier offers obsolete. So the held
    chunks are at most one model per site.
    """

    tasks: dict[Key, int] = field(default_factory=dict)
    held: dict[Key, dict[int, Vector]] = field(default_factory=dict)
    flows: dict[Key, Flow] = field(default_factory=dict)
    spent: dict[int, int] = field(default_factory=dict)

    def is_spent(self, key: Key) -> bool:
        """Whether this offer is not needed any more."""
        return key[1] <= self.spent.get(key[0], -1)

    def flow(self, key: Key) -> Flow:
        """The offer's flow; it becomes part of a task together with the offer."""
        return self.flows.setdefault(key, Flow(self.tasks.get(key), inward=True))

    def hold(self, header: ChunkHeader, data: Vector) -> None:
        """Keep a chunk of an offer without a task. Raises ProtocolError if it came before."""
        chunks = self.held.setdefault(key_of(header), {})
        if header.chunk in chunks:
            raise ProtocolError(f"chunk {header.chunk} of {key_of(header)} came twice")
        chunks[header.chunk] = data

    def superseded(self, key: Key) -> list[Key]:
        """The earlier offers of the same site without a task: no task will take them in."""
        known = {*self.held, *self.flows} - self.tasks.keys()
        return [other for other in known if other[0] == key[0] and other[1] < key[1]]

    def adopt(self, task: int, offers: Mapping[int, int]) -> None:
        """Note that a task takes in these offers, given as {source: number}."""
        for key in offers.items():
            if not self.is_spent(key):
                self.tasks[key] = task
                self.flow(key).task = task

    def of(self, task: int | None) -> list[Key]:
        """The offers that this task took in; with None, the offers without a task."""
        known = {*self.held, *self.flows, *self.tasks}
        return [key for key in known if self.tasks.get(key) == task]

    def find_spent(self) -> dict[int, int]:
        """The latest offer of each source that no further task can take in here."""
        spent = dict(self.spent)
        for source, number in self.tasks:
            spent[source] = max(number, spent.get(source, -1))
        return spent

    def spend(self, keys: list[Key]) -> tuple[list[Flow], list[Vector]]:
        """Forget these offers; returns their flows and the memory that they held."""
        flows: list[Flow] = []
        data: list[Vector] = []
        for key in keys:
            self.spent[key[0]] = max(key[1], self.spent.get(key[0], -1))
            self.tasks.pop(key, None)
            if flow := self.flows.pop(key, None):
                flows.append(flow)
            data += self.held.pop(key, {}).values()
        return flows, data
