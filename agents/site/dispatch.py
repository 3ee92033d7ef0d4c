"""Sends a site's chunks: chooses link and path, and counts what was sent for which task.

With auxiliary paths, a site chooses for each chunk between the plan's edge and a path around it
(`agents.planning.auxiliary_paths`). A chunk on an auxiliary path carries the whole path in its
header, and the sites on the way forward it by that path alone. So paths may change at any time,
one site after the other, without loops. The destination confirms the chunk along the same path.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from trunkline.agents.events.task_events import Phase
from trunkline.agents.planning.auxiliary_paths import Bounds, PathQueues
from trunkline.agents.planning.disciplines import Flow
from trunkline.agents.planning.plan import Directed, Edge
from trunkline.agents.site.traffic import Account, Book
from trunkline.agents.wire.framing import ChunkHeader, encode_chunk
from trunkline.agents.wire.lane import Outgoing
from trunkline.agents.wire.link import Connection
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
        """The chunk as a frame, for functions that select frames to drop."""
        return Outgoing(b"", self.payload, self.header, self.flow)


@dataclass(slots=True)
class Dispatch:
    """Sends all chunks of one site to its neighbours.

    `account` returns the task or offer that a chunk counts for, or None if that has ended. With
    `bounds`, chunks of this site's own sums, contributions and results may take auxiliary paths.
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
        self._queues = PathQueues(self.bounds or Bounds(), self._send_on_path)

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

    def pop_routes(self, task: int) -> Mapping[Edge, tuple[int, int]]:
        """Forget the paths of a task's chunks; returns each path's bytes and number of chunks."""
        found = self._routed.pop(task, {})
        return {path: (size, chunks) for path, (size, chunks) in found.items()}

    # -- auxiliary paths ----------------------------------------------------------------------

    def switch(self, paths: Iterable[Edge]) -> None:
        """Use these paths from this site from now on; the best of each pair comes first."""
        found: defaultdict[Directed, list[Edge]] = defaultdict(list)
        for path in paths:
            found[path[0], path[-1]].append(path)
        self._queues.switch(found)

    def next_hop(self, header: ChunkHeader) -> str | None:
        """The neighbour to forward a chunk to; None if this site is the chunk's destination."""
        if header.auxiliary:
            rest = header.route[header.route.index(self.rank) + 1 :]
        else:
            rest = header.route
        return self.sites[rest[0]] if rest else None

    def forward(self, hop: str, header: ChunkHeader, data: Vector, flow: Flow, free: _Free) -> None:
        """Forward a chunk to another site; `free` is called with its memory afterwards."""
        if not header.auxiliary:
            header = replace(header, route=header.route[1:])
        self.put(hop, header, data, flow, "relay", lambda: free(data))

    def confirm(self, peer: str, header: ChunkHeader) -> None:
        """Confirm a chunk to its sender, if it came by an auxiliary path."""
        if header.auxiliary and peer in self.links:
            key = header.inward, header.block, header.chunk
            self.links[peer].tell(Delivered(header.route, header.task, *key))

    def on_delivered(self, message: Delivered) -> None:
        """Handle a confirmation: of a chunk from this site, or one to pass on to the sender.

        Raises ProtocolError if this site is not on the path.
        """
        if self.rank not in message.path[:-1]:
            raise ProtocolError(f"{self.site} is not on the way of {message}")
        before = message.path[: message.path.index(self.rank)]
        if not before:
            to = self.sites[message.path[-1]]
            self._queues.release((to, message.task, message.inward, message.block, message.chunk))
        elif (hop := self.sites[before[-1]]) in self.links:
            self.links[hop].tell(message)

    def check_header(self, header: ChunkHeader) -> None:
        """Raises ProtocolError if a chunk with this header cannot have reached this site."""
        path = header.route
        if max(header.source, *path, 0) >= len(self.sites):
            raise ProtocolError(f"chunk from or to an unknown site: {header}")
        if not header.auxiliary:
            return
        simple = len(set(path)) == len(path)
        if not simple or path[:1] != (header.source,) or self.rank not in path[1:]:
            raise ProtocolError(f"an auxiliary path that does not lead here: {header}")

    # -- one chunk ----------------------------------------------------------------------------

    def _send_on_path(self, path: Edge, parcel: _Parcel) -> None:
        header = parcel.header
        phase: Phase = "in" if header.inward else "out"
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
        # Where the link is lost, the controller has been told and repairs the task.
        if hop not in self.links:
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
