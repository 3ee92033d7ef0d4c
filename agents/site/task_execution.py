"""One site's share of one task: it adds chunks, keeps results and sends both on.

A site adds contributions in the plan's order of sources, not in order of arrival, so that rounding
does not depend on timing. The contribution is only read; the result has memory of its own.

Sums and results of a block that is not pipelined wait here until the block is whole. The last of
them tells relays to send the block on. Relays do not wait where chunks take auxiliary paths one by
one, because no relay then gets a whole block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from trunkline.agents.events.task_events import Phase
from trunkline.agents.planning.chunks import Chunking
from trunkline.agents.planning.disciplines import Flow
from trunkline.agents.planning.plan import Edge
from trunkline.agents.planning.site_plan import BlockPart
from trunkline.agents.site.early_contributions import OwnOffer
from trunkline.agents.site.sums import Sum
from trunkline.agents.wire.chunk_memory import Pool
from trunkline.agents.wire.framing import ChunkHeader
from trunkline.agents.wire.lane import Outgoing
from trunkline.agents.wire.messages import ProtocolError, RearrangeTask, StartTask
from trunkline.workloads.base import Vector

Put = Callable[[str, ChunkHeader, Vector, Phase, Callable[[], None]], None]
"""Queue a chunk for a neighbour; the last argument is called when its memory is free."""


Arrived = Callable[[int, slice, Vector], None]
"""A chunk of the result can be used: its index, its place in the model, and its values."""


@dataclass(frozen=True, slots=True)
class Local:
    """What all tasks of a site share: its name, the chunks of its model, memory, the links.

    `drop` removes the queued chunks that its argument selects from all links. A server has the
    chunks of its shard in `held`; with None, the site receives all. `relays_wait`: whether relays
    wait for the whole of a block that is not pipelined.
    """

    site: str
    sites: tuple[str, ...]
    cut: Chunking
    chunks: Pool
    put: Put
    drop: Callable[[Callable[[Outgoing], bool]], None]
    held: tuple[int, ...] | None = None
    relays_wait: bool = True
    rank: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        ranks = {name: rank for rank, name in enumerate(self.sites)}
        object.__setattr__(self, "rank", ranks)

    @property
    def wanted(self) -> set[int]:
        """The chunks that this site receives."""
        return set(range(self.cut.count) if self.held is None else self.held)


@dataclass(slots=True)
class Share:
    """One site's share of one task.

    blocks: how many blocks are announced so far; chunks of later ones wait for the announcement.
    parts: this site's parts of the valid blocks.
    missing: the result's chunks that this site still waits for.
    floor: blocks below this number are withdrawn, and so are those in `withdrawn`.
    unsent: chunks of the contribution that the links have not sent yet.
    owed: the sums, as (block, chunk), that still need this site's contribution. Other sites wait
        for them even if this site has the whole result.
    reported: this site has reported that it has the result.
    over: the task has ended.
    offer: this site's offer that the task took in, with its flow `offer_flow`; its chunks in
        `offered` are where the task needs them.
    sums: the sums that are not complete yet, by (block, chunk).
    waiting: the chunks that wait until their block is whole, by (block, inward).
    taken: with offers, the contributions that are in sums, as (block, chunk, site). A chunk may
        come twice: early, and by the task's plan, if the two have different ways to this site.
    """

    local: Local
    message: StartTask
    contribution: Vector | None
    result: Vector | None
    finished: Callable[[Vector], None]
    left: Callable[[], None]
    arrived: Arrived
    blocks: int = field(init=False)
    parts: dict[int, BlockPart] = field(init=False)
    missing: set[int] = field(init=False)
    floor: int = field(init=False)
    withdrawn: set[int] = field(default_factory=set)
    unsent: int = 0
    owed: set[tuple[int, int]] = field(default_factory=set)
    reported: bool = False
    over: bool = False
    offer: OwnOffer | None = None
    offer_flow: Flow | None = None
    offered: set[int] = field(default_factory=set)
    sums: dict[tuple[int, int], Sum] = field(default_factory=dict)
    waiting: dict[tuple[int, bool], list[_Waiting]] = field(default_factory=dict)
    taken: set[tuple[int, int, str]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.blocks = self.message.blocks
        self.floor = self.message.floor
        self.parts = {part.block: part for part in self.message.parts}
        self.missing = self.local.wanted if self.message.receives else set()
        if self.message.contributes and not self.message.receives:
            parts = self.message.parts
            self.owed = {(p.block, c) for p in parts if self._adds(p) for c in p.indexes()}

    def is_withdrawn(self, block: int) -> bool:
        """Whether this block is withdrawn, so that its chunks are not needed."""
        return block < self.floor or block in self.withdrawn

    def start(self, parts: Iterable[BlockPart]) -> None:
        """Send or keep all chunks that need no other site's chunks, in order of chunk index."""
        leaves = [part for part in parts if part.sources == (self.local.site,)]
        own_chunks = sorted(
            (chunk, part.block)
            for part in leaves
            for chunk in part.indexes()
            if part.block >= self.message.blocks or chunk not in self.offered
        )
        last = {block: chunk for chunk, block in own_chunks}
        for chunk, block in own_chunks:
            assert self.contribution is not None
            part = self.parts[block]
            own = self.contribution[self.local.cut.span(chunk)]
            if part.parent is not None:
                more = chunk != last[block]
                self.unsent += 1
                self._send(
                    part.parent, part, chunk, own, self.release_own, original=True, more=more
                )
            else:
                self._deliver(part, chunk, self._weighted(own), self.message.scale)

    def keep_offered(self, own: OwnOffer, flow: Flow) -> None:
        """Keep the offered chunks that already go where the task needs them; drop the others."""
        leaves = [part for part in self.message.parts if part.sources == (self.local.site,)]
        self.offer, self.offer_flow = own, flow
        self.offered = {c for p in leaves for c in p.indexes() if own.edges.get(c) == p.parent}
        own.unsent &= self.offered
        self._drop_offered(lambda chunk: chunk not in self.offered)

    def rearrange(self, message: RearrangeTask) -> None:
        """Drop the withdrawn blocks and take part in the new ones.

        Chunks of the result that arrived already stay valid, unless the message has a floor. A site
        that has not finished reads its contribution again for the new blocks. A site that has
        finished contributes no more; for parts that have no sources, it sends its result if it
        holds their chunks. With other chunks it helps, like a site that is not a member.
        """
        parts = message.parts
        for block in message.withdrawn:
            self._withdraw(block.__eq__)
            self.withdrawn.add(block)
        self.raise_floor(message.floor)
        self.blocks = message.blocks
        if not self.reported:
            self.parts |= {part.block: part for part in parts}
            self.owed |= {(p.block, c) for p in parts if self._adds(p) for c in p.indexes()}
            self.start(parts)
            return
        for part in parts:
            if part.receives or self.local.site in part.sources:
                continue
            if part.sources or not self.local.wanted.issuperset(part.indexes()):
                self.parts[part.block] = part  # it helps with chunks that it does not hold
            else:
                self._send_result(part)

    def raise_floor(self, floor: int) -> None:
        """Withdraw all blocks below this number, and begin an incomplete result again.

        So nothing that is still on its way from here can complete the result afterwards. What one
        contributor hands out is not a sum, so that every plan brings the same chunks: they stay.
        """
        if floor > self.floor:
            self.floor = floor
            self._withdraw(lambda number: number < floor)
            is_sum = len(self.message.weights) > 1
            if not self.reported and self.result is not None and is_sum:
                self.missing = self.local.wanted

    def process(self, header: ChunkHeader, data: Vector) -> bool:
        """Process a chunk of an announced block that is not withdrawn.

        False if it is not needed, because it came early before. Raises ProtocolError if this site
        has no part in the block.
        """
        part = self.parts.get(header.block)
        if part is None and self.reported:
            self.local.chunks.give(data)
            return True
        source = self.local.sites[header.source]
        if (header.block, header.chunk, source) in self.taken and header.original:
            return False
        if part is None:
            raise ProtocolError(f"a chunk of block {header.block}, which has no part here")
        if header.inward:
            self._add(part, header, data)
        else:
            self._deliver(part, header.chunk, data)
        return True

    def contribute(self, source: int, chunk: int, data: Vector) -> bool:
        """Add a chunk of an offer if this site aggregates its block and lacks it; False if not."""
        name = self.local.sites[source]
        for part in self.message.parts:
            wanted = name in part.originals and any(a <= chunk < b for a, b in part.chunks)
            if wanted and part.block in self.parts:
                if (part.block, chunk, name) in self.taken:
                    return False
                number, size = self.message.task, data.nbytes
                header = ChunkHeader(True, number, part.block, chunk, source, (), True, size)
                self._add(part, header, data)
                return True
        return False

    def release_own(self) -> None:
        """Release one hold on the contribution's memory."""
        self.unsent -= 1
        self.finish_if_done()

    def finish_if_done(self) -> None:
        """Report the result once it is complete and the contribution is no longer needed.

        A site that only contributes reports once all of its contribution has left.
        """
        unsent = self.unsent or self.owed or (self.offer and self.offer.unsent)
        if self.missing or unsent or self.over:
            return
        if self.result is None:
            self.left()
        elif not self.reported:
            self.reported = True
            self.finished(self.result)

    def _adds(self, part: BlockPart) -> bool:
        """Whether this site adds its contribution to other sites' contributions."""
        return self.local.site in part.sources and len(part.sources) > 1

    def _send_result(self, part: BlockPart) -> None:
        """Send this site's complete result to other sites."""
        assert self.result is not None
        for chunk in part.indexes():
            data = self.result[self.local.cut.span(chunk)]
            self._send_on(part, part.outs, _Waiting(chunk, data, _keep), inward=False)

    def _withdraw(self, chosen: Callable[[int], bool]) -> None:
        offered: set[int] = set()
        for block in [block for block in self.parts if chosen(block)]:
            offered.update(self.offered.intersection(self.parts.pop(block).indexes()))
        number = self.message.task
        self.local.drop(lambda frame: _is_of(frame, number, chosen))
        if offered:
            self._drop_offered(offered.__contains__)
        self.owed = {key for key in self.owed if not chosen(key[0])}
        for key in [key for key in self.sums if chosen(key[0])]:
            sum_ = self.sums.pop(key)
            for data in sum_.memory():
                self.local.chunks.give(data)
        for where in [where for where in self.waiting if chosen(where[0])]:
            for each in self.waiting.pop(where):
                each.free(each.data)

    def _drop_offered(self, unwanted: Callable[[int], bool]) -> None:
        """Drop these queued chunks of the offer that the task took in."""
        flow = self.offer_flow
        self.local.drop(
            lambda frame: (
                frame.flow is flow and frame.chunk is not None and unwanted(frame.chunk.chunk)
            )
        )

    def _add(self, part: BlockPart, header: ChunkHeader, data: Vector) -> None:
        key = (header.block, header.chunk)
        sum_ = self.sums.setdefault(key, Sum())
        source = self.local.sites[header.source]
        if source not in part.sources or source in sum_.held or source == self.local.site:
            raise ProtocolError(f"an unexpected contribution of {source} to {key}")
        if header.original:
            _scale(data, self.message.weights[source])
            if self.message.offers:
                self.taken.add((header.block, header.chunk, source))
        sum_.held[source] = data
        while sum_.added < len(part.sources):
            source = part.sources[sum_.added]
            if source == self.local.site:
                assert self.contribution is not None
                own = self.contribution[self.local.cut.span(header.chunk)]
                lent = self.message.weights[source] == 1.0
                unused = sum_.add(own if lent else self._weighted(own), lent=lent)
            elif source in sum_.held:
                unused = sum_.add_held(source)
            else:
                return
            if unused is not None:
                self.local.chunks.give(unused)
        assert sum_.total is not None
        del self.sums[key]
        self.owed.discard(key)
        if part.parent is None:
            self._deliver(part, header.chunk, sum_.total, self.message.scale)
        else:
            complete = _Waiting(header.chunk, sum_.total, self.local.chunks.give)
            self._send_on(part, (part.parent,), complete, inward=True)
            self.finish_if_done()

    def _deliver(self, part: BlockPart, chunk: int, data: Vector, scale: float = 1.0) -> None:
        """Scale a chunk of the result, keep it if this site is a receiver, and send it on.

        A kept chunk is sent from the result's memory, which stays valid until the task ends.
        """
        free: Callable[[Vector], None] = self.local.chunks.give
        if part.receives and chunk in self.missing:
            assert self.result is not None
            kept = self.result[self.local.cut.span(chunk)]
            np.multiply(data, np.float32(scale), out=kept)
            self.missing.remove(chunk)
            self._note_arrival(part, chunk)
            free(data)
            data, free = kept, _keep
        else:
            _scale(data, scale)
        if part.outs:
            self._send_on(part, part.outs, _Waiting(chunk, data, free), inward=False)
        else:
            free(data)
        self.finish_if_done()

    def _note_arrival(self, part: BlockPart, chunk: int) -> None:
        """Tell that a chunk can be used; of a whole block, when all of it is here."""
        assert self.result is not None
        here: Iterable[int] = (chunk,)
        if part.whole:
            backwards = (index for a, b in part.chunks[::-1] for index in range(b - 1, a - 1, -1))
            here = part.indexes() if self.missing.isdisjoint(backwards) else ()
        for index in here:
            place = self.local.cut.span(index)
            self.arrived(index, place, self.result[place])

    def _send_on(
        self, part: BlockPart, edges: Sequence[Edge], chunk: _Waiting, *, inward: bool
    ) -> None:
        """Send a sum or result on, at once or with all others of its block."""
        ready = [chunk]
        if not part.pipelined:
            waiting = self.waiting.setdefault((part.block, inward), [])
            waiting.append(chunk)
            if len(waiting) < part.size:
                return
            ready = sorted(self.waiting.pop((part.block, inward)), key=lambda each: each.chunk)
        for each in ready:
            shared = _Shared(each.data, len(edges), each.free)
            more = each is not ready[-1]
            for edge in edges:
                self._send(
                    edge, part, each.chunk, each.data, shared.release, inward=inward, more=more
                )

    def _send(
        self,
        edge: Edge,
        part: BlockPart,
        chunk: int,
        data: Vector,
        release: Callable[[], None],
        *,
        original: bool = False,
        inward: bool = True,
        more: bool = False,
    ) -> None:
        header = ChunkHeader(
            inward=inward,
            task=self.message.task,
            block=part.block,
            chunk=chunk,
            source=self.local.rank[self.local.site],
            route=tuple(self.local.rank[site] for site in edge[2:]),
            original=original,
            size=data.nbytes,
            more=more and self.local.relays_wait and not part.pipelined,
        )
        self.local.put(edge[1], header, data, "in" if inward else "out", release)

    def _weighted(self, own: Vector) -> Vector:
        """This site's own chunk times its weight, in memory that may change."""
        data = self.local.chunks.take(len(own))
        np.multiply(own, np.float32(self.message.weights[self.local.site]), out=data)
        return data


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A chunk of a sum or result, and what frees its memory."""

    chunk: int
    data: Vector
    free: Callable[[Vector], None]


@dataclass(slots=True)
class _Shared:
    """Memory that several links send from; it is freed after the last of them."""

    data: Vector
    users: int
    free: Callable[[Vector], None]

    def release(self) -> None:
        self.users -= 1
        if not self.users:
            self.free(self.data)


def _is_of(frame: Outgoing, task: int, chosen: Callable[[int], bool]) -> bool:
    chunk = frame.chunk
    return chunk is not None and chunk.task == task and chosen(chunk.block)


def _keep(_: Vector) -> None:
    """Free nothing: the chunk is a part of the result, which is still needed."""


def _scale(data: Vector, factor: float) -> None:
    if factor != 1.0:
        np.multiply(data, np.float32(factor), out=data)
