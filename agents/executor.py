"""Runs one site's part of any plan, chunk by chunk, pipelined.

A chunk is added as soon as it arrives and sent on as soon as its sum is complete. Sums are formed
in the plan's order of sources, not in order of arrival, so that floats do not depend on timing.
The site's contribution is only read; the result grows in memory of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from agents.disciplines import Flow
from agents.link import Connection, Outgoing
from agents.memory import Pool
from agents.messages import ChunkHeader, ProtocolError, RearrangeTask, StartTask, encode_chunk
from agents.offers import Key, Offers, OwnOffer, key_of
from agents.part import BlockPart
from agents.plan import Edge
from workloads.base import Vector, populated

Phase = str
"""`in` towards the aggregator, `out` from it, `relay` for chunks that are only forwarded;
`early` for contributions that set out before their task was known."""

Book = dict[int | Key, dict[tuple[str, Phase], "Traffic"]]
"""Traffic by task, or by an offer that is part of none yet, and then by peer and phase."""


@dataclass(slots=True)
class Traffic:
    """Payload of one task over one directed link in one phase, and when it flowed."""

    bytes: int = 0
    chunks: int = 0
    start_ns: int = 0
    end_ns: int = 0

    def add(self, size: int, start_ns: int, end_ns: int) -> None:
        """Count one chunk."""
        if not self.chunks:
            self.start_ns = start_ns
        self.bytes += size
        self.chunks += 1
        self.end_ns = end_ns

    def join(self, other: Traffic) -> None:
        """Count all that the other has counted."""
        self.start_ns = min(self.start_ns, other.start_ns) if self.chunks else other.start_ns
        self.end_ns = max(self.end_ns, other.end_ns)
        self.bytes += other.bytes
        self.chunks += other.chunks


class Executor:
    """All tasks that this site takes part in; `links` are the connections to its neighbours."""

    def __init__(
        self,
        site: str,
        sites: tuple[str, ...],
        model_elements: int,
        chunk_bytes: int,
        now_ns: Callable[[], int],
    ) -> None:
        self.links: Mapping[str, Connection] = {}
        self._site = site
        self._sites = sites
        self._rank = {name: rank for rank, name in enumerate(sites)}
        self._elements = model_elements
        self._chunk_elements = chunk_bytes // 4
        self._now_ns = now_ns
        self._tasks: dict[int, _Task] = {}
        self._flows: dict[tuple[int, bool], Flow] = {}
        self._offers = Offers()
        self._own: OwnOffer | None = None
        self._over: set[int] = set()
        self._early: dict[int, list[tuple[ChunkHeader, Vector]]] = {}
        self._sent: Book = {}
        self._received: Book = {}
        self._discarded: Book = {}
        self._chunks = Pool(self._chunk_elements)
        self._spare: Vector | None = None

    def start(
        self,
        message: StartTask,
        contribution: Vector | None,
        finished: Callable[[Vector], None],
    ) -> None:
        """Take part in a task; `finished(result)` is called once if this site receives it.

        `contribution` has all elements of the model and must not change before `finished`, which
        also waits until the links have taken all of it.
        """
        self.halt(message.task)  # of which it may have had another part once
        self._settle(self._offers.of(message.task))
        self._over.discard(message.task)
        task = _Task(
            floor=message.floor,
            message=message,
            blocks=message.blocks,
            parts={part.block: part for part in message.parts},
            contribution=contribution,
            result=self._take_result() if message.receives else None,
            missing=set(range(self._chunk_count)) if message.receives else set(),
            finished=finished,
        )
        self._tasks[message.task] = task
        self._adopt(task)
        self._start_own(task, message.parts)
        self._process_early(task)

    def offer(self, number: int, contribution: Vector, parts: Iterable[BlockPart]) -> None:
        """Send this site's contribution by a default split, before its task is known.

        It must not change before the task that takes it in has `finished`, or `take_back`.
        """
        self.take_back()
        edges = {
            chunk: part.parent
            for part in parts
            if part.sources == (self._site,) and part.parent and part.parent[1] in self.links
            for chunk in part.indexes()
        }
        own = self._own = OwnOffer(number, edges, set(edges))
        for chunk in sorted(edges):
            data = contribution[self._span(chunk)]
            header = ChunkHeader(
                inward=True,
                task=number,
                block=0,
                chunk=chunk,
                source=self._rank[self._site],
                route=tuple(self._rank[site] for site in edges[chunk][2:]),
                original=True,
                size=data.nbytes,
                early=True,
            )
            self._put(edges[chunk][1], header, data, "early", partial(self._offered, own, chunk))

    def take_back(self) -> None:
        """Send no more of this site's offer if it has become part of no task."""
        if self._own and (key := (self._rank[self._site], self._own.number)):
            if key not in self._offers.tasks:
                self._settle([key])
            self._own = None

    def refuse_offers(self) -> None:
        """Take in no offer that has become part of no task yet, as far as it is known."""
        self._settle(self._offers.of(None))

    def rearrange(self, message: RearrangeTask) -> None:
        """Drop every trace of the withdrawn blocks of a running task, take part in the new ones.

        Sums are formed in the same order wherever they are formed, so it does not matter which
        aggregator a chunk of the result came from; the first that arrives is kept, unless the
        message has a floor. What the new blocks need of this site's contribution is read again.
        A site that has finished gives no more of it, but gives its result where it is to send one
        that it has nothing to make of.
        """
        task = self._tasks.get(message.task)
        if task is None:
            return
        task.unsent += 1  # what is withdrawn must not let it finish before it has begun the new
        for block in message.withdrawn:
            self._withdraw(task, block.__eq__)
            task.withdrawn.add(block)
        self._raise_floor(task, message.floor)
        task.blocks = message.blocks
        if message.floor and not task.told and task.result is not None:
            task.missing = set(range(self._chunk_count))
        if not task.told:
            task.parts |= {part.block: part for part in message.parts}
            task.owed |= {(p.block, c) for p in message.parts if self._adds(p) for c in p.indexes()}
            self._start_own(task, message.parts)
        for part in message.parts:
            if task.told and not part.sources and not part.receives:
                self._give(task, part)
        self._process_early(task)
        self._own_sent(task)

    def halt(self, task: int) -> bool:
        """Drop all blocks of a task so far; True if this site has finished, else it never will."""
        known = self._tasks.get(task)
        if known is None:
            return False
        self._raise_floor(known, known.blocks)
        return known.told

    def blocks(self, task: int) -> int:
        """How many block numbers of a task this site has heard of."""
        return self._tasks[task].blocks

    def knows(self, task: int) -> bool:
        """Whether this site takes part in the task, or did."""
        return task in self._tasks or task in self._over

    def runs(self, task: int) -> bool:
        """Whether this site takes part in the task now."""
        return task in self._tasks

    def running(self) -> tuple[int, ...]:
        """The tasks that this site takes part in now."""
        return tuple(self._tasks)

    def strangers(self) -> dict[int, set[str]]:
        """Tasks that this site has not been told of, each with the sites that sent it chunks."""
        return {
            task: {self._sites[header.source] for header, _ in held}
            for task, held in self._early.items()
            if task not in self._tasks
        }

    def over(self, task: int) -> tuple[dict[tuple[str, Phase], Traffic], ...]:
        """Forget a task and drop what is queued for it; returns its (sent, received) traffic.

        And, third, what of the received was discarded, by the site whose contribution it was.
        """
        self._over.add(task)
        ended = self._tasks.pop(task, None)
        if ended is not None and ended.result is not None:
            self._spare = ended.result
        for _, data in self._early.pop(task, []):
            self._chunks.give(data)
        keys = [(task, True), (task, False)]
        flows = [self._flows.pop(key) for key in keys if key in self._flows]
        for link in list(self.links.values()):
            link.forget(flows)
        self._settle(self._offers.of(task))
        books = (self._sent, self._received, self._discarded)
        sent, received, discarded = (book.pop(task, {}) for book in books)
        return sent, received, discarded

    def allocate(self, header: ChunkHeader) -> memoryview:
        """Memory for an arriving chunk; raises ProtocolError if it cannot be one of this run's."""
        if header.chunk >= self._chunk_count or header.size != self._size(header.chunk) * 4:
            raise ProtocolError(f"chunk {header.chunk} of {header.size} bytes")
        if max(header.source, *header.route, 0) >= len(self._sites):
            raise ProtocolError(f"chunk from or to an unknown site: {header}")
        return self._chunks.take(self._size(header.chunk)).data.cast("B")

    def arrived(self, peer: str, header: ChunkHeader, payload: memoryview) -> None:
        """A whole chunk is here, in memory from `allocate`: forward, add, keep or send it on."""
        data = np.frombuffer(payload, np.float32)
        account = self._account(header)
        if account is None:
            self._chunks.give(data)
            return
        phase = "early" if header.early else "in" if header.inward else "out"
        if self._sites[header.source] != peer:
            phase = "relay"  # as the site that forwarded it calls it
        now_ns = self._now_ns()
        self._count(self._received, account, (peer, phase), header.size, now_ns, now_ns)
        if header.early:
            self._arrived_early(header, data)
            return
        task = self._tasks.get(header.task)
        if task is not None and task.is_withdrawn(header.block):
            self._chunks.give(data)
        elif header.route:
            self._forward(header, data)
        elif task is not None and header.block < task.blocks:
            self._process(task, header, data)
        else:
            self._early.setdefault(header.task, []).append((header, data))

    # -- offers -----------------------------------------------------------------------------

    def _arrived_early(self, header: ChunkHeader, data: Vector) -> None:
        key = key_of(header)
        self._settle(self._offers.superseded(key))
        if header.route:
            self._forward(header, data)
        elif key in self._offers.tasks:
            self._contribute(
                self._tasks[self._offers.tasks[key]], header.source, header.chunk, data
            )
        else:
            self._offers.hold(header, data)

    def _adopt(self, task: _Task) -> None:
        """Take in the offers that the task starts from, as far as they are here."""
        message = task.message
        offers = {self._rank[site]: number for site, number in message.offers.items()}
        self._offers.adopt(message.task, offers)
        for key in offers.items():
            for book in (self._sent, self._received):
                counted = book.setdefault(message.task, {})
                for where, traffic in book.pop(key, {}).items():
                    counted.setdefault(where, Traffic()).join(traffic)
        if message.contributes:
            self._keep_offered(task)
        for source, number in offers.items():
            for chunk, data in self._offers.held.pop((source, number), {}).items():
                self._contribute(task, source, chunk, data)

    def _keep_offered(self, task: _Task) -> None:
        """What is on its way to where the task wants it stays there, the rest is not sent."""
        own = self._own
        if own is None or task.message.offers.get(self._site) != own.number:
            self.take_back()
            return
        leaves = [part for part in task.message.parts if part.sources == (self._site,)]
        task.offer = own
        task.offered = {
            chunk for p in leaves for chunk in p.indexes() if own.edges.get(chunk) == p.parent
        }
        own.unsent &= task.offered
        flow = self._offers.flow((self._rank[self._site], own.number))
        for link in list(self.links.values()):
            link.drop(lambda frame: frame.flow is flow and not _is_one_of(frame, task.offered))

    def _contribute(self, task: _Task, source: int, chunk: int, data: Vector) -> None:
        """A chunk of an offer is added if it is of a block that this site adds up."""
        name = self._sites[source]
        for part in task.message.parts:
            wanted = name in part.originals and any(a <= chunk < b for a, b in part.chunks)
            if wanted and part.block in task.parts:
                number, size = task.message.task, data.nbytes
                header = ChunkHeader(True, number, part.block, chunk, source, (), True, size)
                self._add(task, part, header, data)
                return
        now_ns = self._now_ns()
        key = (name, "early")
        self._count(self._discarded, task.message.task, key, data.nbytes, now_ns, now_ns)
        self._chunks.give(data)

    def _offered(self, own: OwnOffer, chunk: int) -> None:
        own.unsent.discard(chunk)
        number = self._offers.tasks.get((self._rank[self._site], own.number))
        if number in self._tasks:
            self._finish_if_done(self._tasks[number])

    def _settle(self, keys: list[Key]) -> None:
        flows, held = self._offers.settle(keys)
        for data in held:
            self._chunks.give(data)
        for link in list(self.links.values()):
            link.forget(flows)
        for key in keys:
            for book in (self._sent, self._received):
                book.pop(key, None)

    # -- one chunk --------------------------------------------------------------------------

    def _start_own(self, task: _Task, parts: Iterable[BlockPart]) -> None:
        """Send or keep everything that needs nobody else's chunks, in order of chunk index."""
        leaves = [part for part in parts if part.sources == (self._site,)]
        for chunk, block in sorted((c, p.block) for p in leaves for c in p.indexes()):
            if block < task.message.blocks and chunk in task.offered:
                continue
            assert task.contribution is not None
            part = task.parts[block]
            own = task.contribution[self._span(chunk)]
            if part.parent is not None:
                self._send(task, part.parent, part, chunk, own, original=True)
            else:
                self._reduced(task, part, chunk, self._copy(own, task, self._site))

    def _process_early(self, task: _Task) -> None:
        """Take in what arrived before this site heard of the task or of its new blocks."""
        early = self._early.pop(task.message.task, [])
        for header, data in early:
            if task.is_withdrawn(header.block):
                self._chunks.give(data)
            elif header.block < task.blocks:
                self._process(task, header, data)
            else:
                self._early.setdefault(header.task, []).append((header, data))

    def _adds(self, part: BlockPart) -> bool:
        """Whether this site adds its contribution to those of others."""
        return self._site in part.sources and len(part.sources) > 1

    def _give(self, task: _Task, part: BlockPart) -> None:
        """Send the result, which is whole, to others."""
        assert task.result is not None
        for chunk in part.indexes():
            data = task.result[self._span(chunk)]
            shared = _Shared(data, len(part.outs), _keep)
            for edge in part.outs:
                self._send(task, edge, part, chunk, data, inward=False, shared=shared)

    def _raise_floor(self, task: _Task, floor: int) -> None:
        if floor > task.floor:
            task.floor = floor
            self._withdraw(task, lambda number: number < floor)

    def _withdraw(self, task: _Task, chosen: Callable[[int], bool]) -> None:
        offered: set[int] = set()
        for block in [block for block in task.parts if chosen(block)]:
            offered.update(task.offered.intersection(task.parts.pop(block).indexes()))
        number = task.message.task
        flow = task.offer and self._offers.flow((self._rank[self._site], task.offer.number))
        for link in list(self.links.values()):
            link.drop(lambda frame: _is_of(frame, number, chosen))
            if offered:
                link.drop(lambda frame: frame.flow is flow and _is_one_of(frame, offered))
        task.owed = {key for key in task.owed if not chosen(key[0])}
        for key in [key for key in task.sums if chosen(key[0])]:
            sum_ = task.sums.pop(key)
            for data in (*sum_.held.values(), sum_.total):
                if data is not None:
                    self._chunks.give(data)

    def _process(self, task: _Task, header: ChunkHeader, data: Vector) -> None:
        part = task.parts.get(header.block)
        if part is None and task.told:
            self._chunks.give(data)
            return
        if part is None:
            raise ProtocolError(f"a chunk of block {header.block}, which has no part here")
        if header.inward:
            self._add(task, part, header, data)
        else:
            self._deliver(task, part, header.chunk, data)

    def _add(self, task: _Task, part: BlockPart, header: ChunkHeader, data: Vector) -> None:
        key = (header.block, header.chunk)
        sum_ = task.sums.setdefault(key, _Sum())
        source = self._sites[header.source]
        if source not in part.sources or source in sum_.held or source == self._site:
            raise ProtocolError(f"an unexpected contribution of {source} to {key}")
        if header.original:
            _scale(data, task.message.weights[source])
        sum_.held[source] = data
        while sum_.added < len(part.sources):
            source = part.sources[sum_.added]
            if source == self._site:
                assert task.contribution is not None
                own = task.contribution[self._span(header.chunk)]
                self._accumulate(sum_, self._copy(own, task, source))
            elif source in sum_.held:
                self._accumulate(sum_, sum_.held[source])
                sum_.held[source] = _ADDED
            else:
                return
        assert sum_.total is not None
        del task.sums[key]
        task.owed.discard(key)
        if part.parent is None:
            self._reduced(task, part, header.chunk, sum_.total)
        else:
            self._send(task, part.parent, part, header.chunk, sum_.total)
            self._finish_if_done(task)

    def _accumulate(self, sum_: _Sum, data: Vector) -> None:
        sum_.added += 1
        if sum_.total is None:
            sum_.total = data
        else:
            np.add(sum_.total, data, out=sum_.total)
            self._chunks.give(data)

    def _reduced(self, task: _Task, part: BlockPart, chunk: int, total: Vector) -> None:
        """This site is the aggregator and the sum is complete."""
        _scale(total, task.message.scale)
        self._deliver(task, part, chunk, total)

    def _deliver(self, task: _Task, part: BlockPart, chunk: int, data: Vector) -> None:
        """A chunk of the result: send it on, keep it if this site receives it."""
        if part.receives and chunk in task.missing:
            assert task.result is not None
            task.result[self._span(chunk)] = data
            task.missing.remove(chunk)
        shared = _Shared(data, len(part.outs), self._chunks.give)
        for edge in part.outs:
            self._send(task, edge, part, chunk, data, inward=False, shared=shared)
        if not part.outs:
            self._chunks.give(data)
        self._finish_if_done(task)

    def _send(
        self,
        task: _Task,
        edge: Edge,
        part: BlockPart,
        chunk: int,
        data: Vector,
        *,
        original: bool = False,
        inward: bool = True,
        shared: _Shared | None = None,
    ) -> None:
        header = ChunkHeader(
            inward=inward,
            task=task.message.task,
            block=part.block,
            chunk=chunk,
            source=self._rank[self._site],
            route=tuple(self._rank[site] for site in edge[2:]),
            original=original,
            size=data.nbytes,
        )
        if shared:
            release = shared.release
        elif original:
            task.unsent += 1
            release = partial(self._own_sent, task)
        else:
            release = partial(self._chunks.give, data)
        self._put(edge[1], header, data, "in" if inward else "out", release)

    def _forward(self, header: ChunkHeader, data: Vector) -> None:
        next_hop, *rest = header.route
        passed = ChunkHeader(
            header.inward,
            header.task,
            header.block,
            header.chunk,
            header.source,
            tuple(rest),
            header.original,
            header.size,
            header.early,
        )
        self._put(self._sites[next_hop], passed, data, "relay", partial(self._chunks.give, data))

    def _own_sent(self, task: _Task) -> None:
        task.unsent -= 1
        self._finish_if_done(task)

    def _finish_if_done(self, task: _Task) -> None:
        """Tell the result once it is whole and the contribution's memory is no longer needed."""
        unsent = task.unsent or task.owed or (task.offer and task.offer.unsent)
        done = not task.missing and not unsent and task.message.task in self._tasks
        if done and task.result is not None and not task.told:
            task.told = True
            task.finished(task.result)

    def _put(
        self,
        hop: str,
        header: ChunkHeader,
        data: Vector,
        phase: Phase,
        release: Callable[[], None],
    ) -> None:
        if hop not in self.links:  # lost, and its loss reported: whoever repairs the task knows
            release()
            return

        def sent(start_ns: int, end_ns: int) -> None:
            if (account := self._account(header)) is not None:
                self._count(self._sent, account, (hop, phase), header.size, start_ns, end_ns)
            release()

        payload = data.data.cast("B")
        if header.early:
            flow = self._offers.flow(key_of(header))
        else:
            flow = self._flows.setdefault(
                (header.task, header.inward), Flow(header.task, header.inward)
            )
        self.links[hop].put(Outgoing(encode_chunk(header), payload, header, flow, sent, release))

    # -- memory and counting ----------------------------------------------------------------

    @property
    def _chunk_count(self) -> int:
        return -(-self._elements // self._chunk_elements)

    def _span(self, chunk: int) -> slice:
        start = chunk * self._chunk_elements
        return slice(start, min(start + self._chunk_elements, self._elements))

    def _size(self, chunk: int) -> int:
        span = self._span(chunk)
        return int(span.stop - span.start)

    def _copy(self, own: Vector, task: _Task, site: str) -> Vector:
        """The site's own chunk, weighted, in memory that may be added to."""
        data = self._chunks.take(len(own))
        np.multiply(own, np.float32(task.message.weights[site]), out=data)
        return data

    def _take_result(self) -> Vector:
        result, self._spare = self._spare, None
        return populated(self._elements) if result is None else result

    def _account(self, header: ChunkHeader) -> int | Key | None:
        """What a chunk counts for; None if its task or offer is over."""
        if not header.early:
            return None if header.task in self._over else header.task
        key = key_of(header)
        return None if self._offers.is_settled(key) else self._offers.tasks.get(key, key)

    def _count(
        self,
        book: Book,
        account: int | Key,
        peer: tuple[str, Phase],
        size: int,
        start_ns: int,
        end_ns: int,
    ) -> None:
        traffic = book.setdefault(account, {}).setdefault(peer, Traffic())
        traffic.add(size, start_ns, end_ns)


@dataclass(slots=True)
class _Sum:
    """One chunk being summed: how many sources are in `total`, and who waits to be added."""

    total: Vector | None = None
    added: int = 0
    held: dict[str, Vector] = field(default_factory=dict)


@dataclass(slots=True)
class _Task:
    """`blocks` are announced so far; a chunk of a later one waits for its announcement.

    Blocks below `floor` are withdrawn, and those in `withdrawn`. To the sums in `owed`, (block,
    chunk), which others need even if this site has the whole result, its contribution is still to
    be added. Chunks in `offered` are on their way by this site's `offer`.
    """

    message: StartTask
    blocks: int
    parts: dict[int, BlockPart]
    contribution: Vector | None
    result: Vector | None
    missing: set[int]
    finished: Callable[[Vector], None]
    floor: int = 0
    withdrawn: set[int] = field(default_factory=set)
    unsent: int = 0
    owed: set[tuple[int, int]] = field(default_factory=set)
    told: bool = False
    offer: OwnOffer | None = None
    offered: set[int] = field(default_factory=set)
    sums: dict[tuple[int, int], _Sum] = field(default_factory=dict)

    def is_withdrawn(self, block: int) -> bool:
        return block < self.floor or block in self.withdrawn


@dataclass(slots=True)
class _Shared:
    """Memory that several links send from; free after the last."""

    data: Vector
    users: int
    free: Callable[[Vector], None]

    def release(self) -> None:
        self.users -= 1
        if not self.users:
            self.free(self.data)


_ADDED: Vector = np.empty(0, np.float32)
"""Stands for a contribution that is in the sum already."""


def _is_of(frame: Outgoing, task: int, chosen: Callable[[int], bool]) -> bool:
    chunk = frame.chunk
    return chunk is not None and chunk.task == task and chosen(chunk.block)


def _keep(_: Vector) -> None:
    """What was sent is part of a result: it is still needed."""


def _is_one_of(frame: Outgoing, chunks: set[int]) -> bool:
    return frame.chunk is not None and frame.chunk.chunk in chunks


def _scale(data: Vector, factor: float) -> None:
    if factor != 1.0:
        np.multiply(data, np.float32(factor), out=data)
