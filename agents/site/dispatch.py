"""How chunks leave a site: on which link, along which path, and what was sent for whom.

With auxiliary paths a site chooses, chunk by chunk, between the plan's edge and ways around it
(`agents.planning.auxiliary_paths`). What takes one carries its whole path and is only forwarded by
the sites on it, which go by that path and by nothing that they know themselves; so paths may change
at any time, site by site, without loops. Whoever it is for tells its sender back along the path.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from trunkline.agents.planning.auxiliary_paths import Bounds, PathQueues
from trunkline.agents.planning.disciplines import Flow
from trunkline.agents.planning.plan import Directed, Edge
from trunkline.agents.site.traffic import Account, Book, Phase
from trunkline.agents.wire.framing import ChunkHeader, encode_chunk
from trunkline.agents.wire.link import Connection, Outgoing
from trunkline.agents.wire.messages import Delivered, ProtocolError
from trunkline.workloads.base import Vector

Key: TypeAlias = "tuple[str, int, bool, int, int]"
"""A chunk on its way from this site: destination, task, inward, block, chunk."""


@dataclass(frozen=True, slots=True)
class _Parcel:
    """A chunk that waits for its path; the header is the one for the plan's edge."""

    primary: Edge
    header: ChunkHeader
    payload: memoryview
    flow: Flow
    release: Callable[[], None]

    def frame(self) -> Outgoing:
        """As who drops frames wants to see it."""
        return Outgoing(b"", self.payload, self.header, self.flow)


@dataclass(slots=True)
class Dispatch:
    """Everything that a site sends its neighbours of models.

    `account` says what a chunk counts for, None if that is over. Chunks of own sums, own
    contributions and results may take auxiliary paths if there are `bounds`.
    """

    site: str
    sites: tuple[str, ...]
    account: Callable[[ChunkHeader], Account | None]
    bounds: Bounds | None = None
    links: Mapping[str, Connection] = field(default_factory=dict)
    sent: Book = field(default_factory=Book)
    rank: int = field(init=False)
    _queues: PathQueues[Key, _Parcel] = field(init=False)
    _routed: dict[int, dict[Edge, list[int]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.rank = self.sites.index(self.site)
        self._queues = PathQueues(self.bounds or Bounds(), self._go)

    def put(
        self,
        hop: str,
        header: ChunkHeader,
        data: Vector,
        flow: Flow,
        phase: Phase,
        release: Callable[[], None],
    ) -> None:
        """Queue a chunk for a neighbour; `release` is called when its memory is free."""
        payload = data.data.cast("B")
        if self.bounds is None or phase not in ("in", "out"):
            self._send(hop, header, payload, flow, phase, release)
            return
        primary = (self.site, hop, *(self.sites[rank] for rank in header.route))
        parcel = _Parcel(primary, header, payload, flow, release)
        self._queues.put(primary, _key(primary, header), parcel)

    def drop(self, unwanted: Callable[[Outgoing], bool]) -> None:
        """Drop these queued chunks."""
        for link in list(self.links.values()):
            link.drop(unwanted)
        for parcel in self._queues.drop(lambda parcel: unwanted(parcel.frame())):
            parcel.release()

    def forget(self, flows: Collection[Flow]) -> None:
        """Drop all queued chunks of these flows, of which no more will come."""
        for link in list(self.links.values()):
            link.forget(flows)
        for parcel in self._queues.drop(lambda parcel: parcel.flow in flows):
            parcel.release()

    def routed(self, task: int) -> Mapping[Edge, tuple[int, int]]:
        """Forget which paths a task's chunks took from here; returns their bytes and chunks."""
        found = self._routed.pop(task, {})
        return {path: (size, chunks) for path, (size, chunks) in found.items()}

    # -- auxiliary paths ----------------------------------------------------------------------

    def switch(self, paths: Iterable[Edge]) -> None:
        """From now on choose among these paths from this site, the best of each pair first."""
        found: defaultdict[Directed, list[Edge]] = defaultdict(list)
        for path in paths:
            found[path[0], path[-1]].append(path)
        self._queues.switch(found)

    def onward(self, header: ChunkHeader) -> str | None:
        """The neighbour that a chunk that is here goes on to; None if it is for this site."""
        if header.auxiliary:
            rest = header.route[header.route.index(self.rank) + 1 :]
        else:
            rest = header.route
        return self.sites[rest[0]] if rest else None

    def forward(self, hop: str, header: ChunkHeader, data: Vector, flow: Flow, free: _Free) -> None:
        """Pass on a chunk that only crosses this site."""
        if not header.auxiliary:
            header = replace(header, route=header.route[1:])
        self.put(hop, header, data, flow, "relay", lambda: free(data))

    def confirm(self, peer: str, header: ChunkHeader) -> None:
        """Tell the sender of a chunk that came by an auxiliary path that it is here."""
        if header.auxiliary and peer in self.links:
            key = header.inward, header.block, header.chunk
            self.links[peer].tell(Delivered(header.route, header.task, *key))

    def delivered(self, message: Delivered) -> None:
        """A chunk has arrived: this site sent it, or passes the word on."""
        if self.rank not in message.path[:-1]:
            raise ProtocolError(f"{self.site} is not on the way of {message}")
        before = message.path[: message.path.index(self.rank)]
        if not before:
            to = self.sites[message.path[-1]]
            self._queues.release((to, message.task, message.inward, message.block, message.chunk))
        elif (hop := self.sites[before[-1]]) in self.links:
            self.links[hop].tell(message)

    def refuse(self, header: ChunkHeader) -> None:
        """Raises ProtocolError if a chunk cannot be on its way here."""
        path = header.route
        if max(header.source, *path, 0) >= len(self.sites):
            raise ProtocolError(f"chunk from or to an unknown site: {header}")
        if not header.auxiliary:
            return
        simple = len(set(path)) == len(path)
        if not simple or path[:1] != (header.source,) or self.rank not in path[1:]:
            raise ProtocolError(f"an auxiliary path that does not lead here: {header}")

    # -- one chunk ----------------------------------------------------------------------------

    def _go(self, path: Edge, parcel: _Parcel) -> None:
        header, phase = parcel.header, "in" if parcel.header.inward else "out"
        if path != parcel.primary:
            ranks = tuple(self.sites.index(site) for site in path)
            header, phase = replace(header, route=ranks, auxiliary=True), "aux"
        self._send(path[1], header, parcel.payload, parcel.flow, phase, parcel.release, path)

    def _send(
        self,
        hop: str,
        header: ChunkHeader,
        payload: memoryview,
        flow: Flow,
        phase: Phase,
        release: Callable[[], None],
        path: Edge = (),
    ) -> None:
        if hop not in self.links:  # lost, and its loss reported: whoever repairs the task knows
            release()
            return

        def sent(start_ns: int, end_ns: int) -> None:
            if (account := self.account(header)) is not None:
                self.sent.count(account, (hop, phase), header.size, start_ns, end_ns)
                if path:
                    use = self._routed.setdefault(header.task, {}).setdefault(path, [0, 0])
                    use[:] = use[0] + header.size, use[1] + 1
            release()
            if path and not header.auxiliary:
                self._queues.release(_key(path, header))

        self.links[hop].put(Outgoing(encode_chunk(header), payload, header, flow, sent, release))


_Free: TypeAlias = Callable[[Vector], None]


def _key(path: Edge, header: ChunkHeader) -> Key:
    return path[-1], header.task, header.inward, header.block, header.chunk
