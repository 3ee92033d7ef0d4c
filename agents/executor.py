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
from agents.messages import ChunkHeader, ProtocolError, RearrangeTask, StartTask, encode_chunk
from agents.part import BlockPart
from agents.plan import Edge
from workloads.base import Vector

Phase = str
"""`in` towards the aggregator, `out` from it, `relay` for chunks that are only forwarded."""


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
        self._over: set[int] = set()
        self._early: dict[int, list[tuple[ChunkHeader, Vector]]] = {}
        self._sent: dict[int, dict[tuple[str, Phase], Traffic]] = {}
        self._received: dict[int, dict[tuple[str, Phase], Traffic]] = {}
        self._free: list[Vector] = []

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
        task = _Task(
            message=message,
            blocks=message.blocks,
            parts={part.block: part for part in message.parts},
            contribution=contribution,
            result=np.empty(self._elements, np.float32) if message.receives else None,
            missing=set(range(self._chunk_count)) if message.receives else set(),
            finished=finished,
        )
        self._tasks[message.task] = task
        self._start_own(task, message.parts)
        self._process_early(task)

    def rearrange(self, message: RearrangeTask) -> None:
        """Drop every trace of the withdrawn blocks of a running task, take part in the new ones.

        Sums are formed in the same order wherever they are formed, so it does not matter which
        aggregator a chunk of the result came from; the first that arrives is kept. What the new
        blocks need of this site's contribution is read again: it must not have changed.
        """
        task = self._tasks.get(message.task)
        if task is None:
            return
        for block in message.withdrawn:
            self._withdraw(task, block)
        task.blocks = message.blocks
        task.parts |= {part.block: part for part in message.parts}
        self._start_own(task, message.parts)
        self._process_early(task)
        self._finish_if_done(task)

    def over(self, task: int) -> tuple[dict[tuple[str, Phase], Traffic], ...]:
        """Forget a task and drop what is queued for it; returns its (sent, received) traffic."""
        self._over.add(task)
        self._tasks.pop(task, None)
        for _, data in self._early.pop(task, []):
            self._release(data)
        keys = [(task, True), (task, False)]
        flows = [self._flows.pop(key) for key in keys if key in self._flows]
        for link in self.links.values():
            link.forget(flows)
        return self._sent.pop(task, {}), self._received.pop(task, {})

    def allocate(self, header: ChunkHeader) -> memoryview:
        """Memory for an arriving chunk; raises ProtocolError if it cannot be one of this run's."""
        if header.chunk >= self._chunk_count or header.size != self._size(header.chunk) * 4:
            raise ProtocolError(f"chunk {header.chunk} of {header.size} bytes")
        if max(header.source, *header.route, 0) >= len(self._sites):
            raise ProtocolError(f"chunk from or to an unknown site: {header}")
        return self._take(self._size(header.chunk)).data.cast("B")

    def arrived(self, peer: str, header: ChunkHeader, payload: memoryview) -> None:
        """A whole chunk is here, in memory from `allocate`: forward, add, keep or send it on."""
        data = np.frombuffer(payload, np.float32)
        task = self._tasks.get(header.task)
        if header.task in self._over:
            self._release(data)
            return
        phase = "in" if header.inward else "out"
        if self._sites[header.source] != peer:
            phase = "relay"  # as the site that forwarded it calls it
        now_ns = self._now_ns()
        self._count(self._received, header.task, peer, phase, header.size, now_ns, now_ns)
        if task is not None and header.block in task.withdrawn:
            self._release(data)
        elif header.route:
            self._forward(header, data)
        elif task is not None and header.block < task.blocks:
            self._process(task, header, data)
        else:
            self._early.setdefault(header.task, []).append((header, data))

    # -- one chunk --------------------------------------------------------------------------

    def _start_own(self, task: _Task, parts: Iterable[BlockPart]) -> None:
        """Send or keep everything that needs nobody else's chunks, in order of chunk index."""
        leaves = [part for part in parts if part.sources == (self._site,)]
        for chunk, block in sorted((c, p.block) for p in leaves for c in p.indexes()):
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
            if header.block in task.withdrawn:
                self._release(data)
            elif header.block < task.blocks:
                self._process(task, header, data)
            else:
                self._early.setdefault(header.task, []).append((header, data))

    def _withdraw(self, task: _Task, block: int) -> None:
        task.withdrawn.add(block)
        task.parts.pop(block, None)
        number = task.message.task
        for link in self.links.values():
            link.drop(lambda frame: _is_of(frame, number, block))
        for key in [key for key in task.sums if key[0] == block]:
            sum_ = task.sums.pop(key)
            for data in (*sum_.held.values(), sum_.total):
                if data is not None:
                    self._release(data)

    def _process(self, task: _Task, header: ChunkHeader, data: Vector) -> None:
        part = task.parts.get(header.block)
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
        if part.parent is None:
            self._reduced(task, part, header.chunk, sum_.total)
        else:
            self._send(task, part.parent, part, header.chunk, sum_.total)

    def _accumulate(self, sum_: _Sum, data: Vector) -> None:
        sum_.added += 1
        if sum_.total is None:
            sum_.total = data
        else:
            np.add(sum_.total, data, out=sum_.total)
            self._release(data)

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
        shared = _Shared(data, len(part.outs), self._release)
        for edge in part.outs:
            self._send(task, edge, part, chunk, data, inward=False, shared=shared)
        if not part.outs:
            self._release(data)
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
            release = partial(self._release, data)
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
        )
        self._put(self._sites[next_hop], passed, data, "relay", partial(self._release, data))

    def _own_sent(self, task: _Task) -> None:
        task.unsent -= 1
        self._finish_if_done(task)

    def _finish_if_done(self, task: _Task) -> None:
        """Tell the result once it is whole and the contribution's memory is no longer needed."""
        done = not task.missing and not task.unsent and task.message.task in self._tasks
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
        if hop not in self.links:
            raise ProtocolError(f"{self._site} has no link to {hop}")

        def sent(start_ns: int, end_ns: int) -> None:
            self._count(self._sent, header.task, hop, phase, header.size, start_ns, end_ns)
            release()

        payload = data.data.cast("B")
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
        data = self._take(len(own))
        np.multiply(own, np.float32(task.message.weights[site]), out=data)
        return data

    def _take(self, elements: int) -> Vector:
        if elements == self._chunk_elements and self._free:
            return self._free.pop()
        return np.empty(elements, np.float32)

    def _release(self, data: Vector) -> None:
        if len(data) == self._chunk_elements:
            self._free.append(data)

    def _count(
        self,
        book: dict[int, dict[tuple[str, Phase], Traffic]],
        task: int,
        peer: str,
        phase: Phase,
        size: int,
        start_ns: int,
        end_ns: int,
    ) -> None:
        if task not in self._over:
            traffic = book.setdefault(task, {}).setdefault((peer, phase), Traffic())
            traffic.add(size, start_ns, end_ns)


@dataclass(slots=True)
class _Sum:
    """One chunk being summed: how many sources are in `total`, and who waits to be added."""

    total: Vector | None = None
    added: int = 0
    held: dict[str, Vector] = field(default_factory=dict)


@dataclass(slots=True)
class _Task:
    """`blocks` are announced so far; a chunk of a later one waits for its announcement."""

    message: StartTask
    blocks: int
    parts: dict[int, BlockPart]
    contribution: Vector | None
    result: Vector | None
    missing: set[int]
    finished: Callable[[Vector], None]
    withdrawn: set[int] = field(default_factory=set)
    unsent: int = 0
    told: bool = False
    sums: dict[tuple[int, int], _Sum] = field(default_factory=dict)


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


def _is_of(frame: Outgoing, task: int, block: int) -> bool:
    chunk = frame.chunk
    return chunk is not None and chunk.task == task and chunk.block == block


def _scale(data: Vector, factor: float) -> None:
    if factor != 1.0:
        np.multiply(data, np.float32(factor), out=data)
