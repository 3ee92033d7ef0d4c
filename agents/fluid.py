"""How long a plan should take: a chunk-level fluid model of the overlay, and a lower bound (pure).

The model knows what the executor does and nothing of TCP: every directed link serves one chunk
at a time at its rate, in the order of the discipline; a chunk that has arrived whole is added or
sent on at once; adding costs nothing.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow

from agents.disciplines import DISCIPLINES, Flow, Queue
from agents.plan import Block, Directed, Edge, Plan


@dataclass(frozen=True, slots=True)
class Job:
    """One task in the fluid model: a plan, when it starts, and the sizes it moves."""

    plan: Plan
    model_bytes: int
    chunk_bytes: int
    start_s: float = 0.0


def estimate(
    plan: Plan,
    rates_mbps: Mapping[Directed, float],
    chunk_bytes: int,
    model_bytes: int,
    delays_ms: Mapping[Directed, float] | None = None,
    discipline: str = "fcfs",
) -> float:
    """Completion time in seconds of one task alone on the overlay.

    Without `delays_ms` it is the fluid time of the papers; with them, every hop of every chunk
    takes its propagation delay as well.
    """
    return simulate([Job(plan, model_bytes, chunk_bytes)], rates_mbps, delays_ms, discipline)[0]


def simulate(
    jobs: Sequence[Job],
    rates_mbps: Mapping[Directed, float],
    delays_ms: Mapping[Directed, float] | None = None,
    discipline: str = "fcfs",
) -> list[float]:
    """When each job's last receiver has its last chunk, in seconds, all sharing the links.

    The jobs are numbered in the order of their start, as `task-fcfs` wants them.
    """
    overlay = Overlay(rates_mbps, delays_ms or {}, discipline)
    finish_s = [job.start_s for job in jobs]

    def finished(number: int, _: str) -> None:
        finish_s[number] = overlay.now_s

    for number in sorted(range(len(jobs)), key=lambda number: jobs[number].start_s):
        overlay.run(jobs[number].start_s)
        overlay.start(jobs[number], partial(finished, number))
    overlay.run()
    return finish_s


def bound(plan: Plan, rates_mbps: Mapping[Directed, float], model_bytes: int) -> float:
    """No plan whatsoever can be faster, in seconds: the tightest cut of the overlay.

    Every contributor's whole model must influence every other receiver, so at least `model_bytes`
    cross every cut between them, and the smallest cut is the maximum flow. Delays are left out.
    """
    sites = sorted({site for link in rates_mbps for site in link})
    index = {site: number for number, site in enumerate(sites)}
    kbps = [round(rate * 1000) for rate in rates_mbps.values()]
    rows = [index[src] for src, _ in rates_mbps]
    columns = [index[dst] for _, dst in rates_mbps]
    capacity = csr_array(
        (np.array(kbps, dtype=np.int32), (rows, columns)),
        shape=(len(sites), len(sites)),
    )
    flows = [
        maximum_flow(capacity, index[src], index[dst]).flow_value
        for src in plan.contributors
        for dst in plan.receivers
        if src != dst
    ]
    return max((model_bytes * 8 / (flow * 1000) for flow in flows), default=0.0)


@dataclass(slots=True)
class _Chunk:
    """A chunk on its way along an edge, of which it has made so many hops."""

    job: int
    block: int
    number: int
    edge: Edge
    hops: int
    inward: bool

    @property
    def link(self) -> Directed:
        return self.edge[self.hops], self.edge[self.hops + 1]


@dataclass(slots=True)
class _Task:
    """A job under way. `missing` counts, per receiver, the chunks of the result that it lacks."""

    job: Job
    trees: list[_Trees]
    missing: dict[str, int]
    received: Callable[[str], None]


@dataclass(slots=True)
class Overlay:
    """Links that jobs share; `run` lets time pass.

    `heap` is what happens next: (time, tie-break, what), where what is an arriving chunk, a link
    that is free, or something to call.
    """

    rates_mbps: Mapping[Directed, float]
    delays_ms: Mapping[Directed, float]
    discipline: str = "fcfs"
    now_s: float = 0.0
    heap: list[tuple[float, int, _Chunk | Directed | Callable[[], None]]] = field(
        default_factory=list
    )
    sequence: int = 0
    queues: dict[Directed, Queue[_Chunk]] = field(default_factory=dict)
    busy: set[Directed] = field(default_factory=set)
    flows: dict[tuple[int, bool], Flow] = field(default_factory=dict)
    tasks: list[_Task] = field(default_factory=list)
    waiting: dict[tuple[int, int, int, str], int] = field(default_factory=dict)

    def start(self, job: Job, received: Callable[[str], None]) -> None:
        """Start a job now; `received` is called for every receiver when it has the whole result.

        Its `start_s` is not used.
        """
        plan, number = job.plan, len(self.tasks)
        trees = [_Trees.of(block) for block in plan.blocks]
        missing = dict.fromkeys(plan.receivers, plan.chunk_count)
        self.tasks.append(_Task(job, trees, missing, received))
        for inward in (True, False):
            self.flows[number, inward] = Flow(number, inward)
        leaves = sorted(
            (chunk, block_number)
            for block_number, block in enumerate(plan.blocks)
            for chunk in block.indexes()
        )
        for chunk, block in leaves:
            for edge in trees[block].leaf_edges:
                self._send(self.now_s, _Chunk(number, block, chunk, edge, 0, True))
            if not trees[block].expected:
                self._reduced(self.now_s, number, block, chunk)

    def at(self, time_s: float, what: Callable[[], None]) -> None:
        """Call something when the time has come."""
        self._at(time_s, what)

    def run(self, until_s: float = math.inf) -> None:
        """Let everything happen that happens until then, or until nothing is left."""
        while self.heap and self.heap[0][0] <= until_s:
            self.now_s, _, what = heapq.heappop(self.heap)
            if isinstance(what, tuple):
                self._serve(self.now_s, what)
            elif isinstance(what, _Chunk):
                self._arrived(self.now_s, what)
            else:
                what()
        if until_s < math.inf:
            self.now_s = until_s

    def _arrived(self, now: float, chunk: _Chunk) -> None:
        chunk.hops += 1
        if chunk.hops + 1 < len(chunk.edge):
            self._send(now, chunk)
        elif chunk.inward:
            self._arrived_in(now, chunk)
        else:
            self._arrived_out(now, chunk.job, chunk.block, chunk.number, chunk.edge[-1])

    def _send(self, now: float, chunk: _Chunk) -> None:
        link = chunk.link
        if link not in self.queues:
            self.queues[link] = Queue(DISCIPLINES[self.discipline])
        self.queues[link].push(chunk, self.flows[chunk.job, chunk.inward])
        if link not in self.busy:
            self.busy.add(link)
            self._serve(now, link)

    def _serve(self, now: float, link: Directed) -> None:
        chunk = self.queues[link].pop()
        if chunk is None:
            self.busy.remove(link)
            return
        job = self.tasks[chunk.job].job
        size = min(job.chunk_bytes, job.model_bytes - chunk.number * job.chunk_bytes)
        done = now + size * 8e-6 / self.rates_mbps[link]
        self._at(done, link)
        self._at(done + self.delays_ms.get(link, 0.0) / 1e3, chunk)

    def _at(self, time_s: float, what: _Chunk | Directed | Callable[[], None]) -> None:
        self.sequence += 1
        heapq.heappush(self.heap, (time_s, self.sequence, what))

    def _arrived_in(self, now: float, chunk: _Chunk) -> None:
        trees, site = self.tasks[chunk.job].trees[chunk.block], chunk.edge[-1]
        key = (chunk.job, chunk.block, chunk.number, site)
        left = self.waiting.get(key, trees.expected[site]) - 1
        self.waiting[key] = left
        if left:
            return
        if site in trees.parent:
            parent = trees.parent[site]
            self._send(now, _Chunk(chunk.job, chunk.block, chunk.number, parent, 0, True))
        else:
            self._reduced(now, chunk.job, chunk.block, chunk.number)

    def _reduced(self, now: float, job: int, block: int, chunk: int) -> None:
        self._arrived_out(now, job, block, chunk, self.tasks[job].job.plan.blocks[block].aggregator)

    def _arrived_out(self, now: float, job: int, block: int, chunk: int, site: str) -> None:
        task = self.tasks[job]
        for edge in task.trees[block].children.get(site, ()):
            self._send(now, _Chunk(job, block, chunk, edge, 0, False))
        if site in task.missing:
            task.missing[site] -= 1
            if not task.missing[site]:
                task.received(site)


@dataclass(frozen=True, slots=True)
class _Trees:
    """A block's trees, indexed by site."""

    parent: dict[str, Edge]
    expected: dict[str, int]
    children: dict[str, list[Edge]]
    leaf_edges: list[Edge]

    @classmethod
    def of(cls, block: Block) -> _Trees:
        expected: dict[str, int] = {}
        children: dict[str, list[Edge]] = {}
        for edge in block.in_edges:
            expected[edge[-1]] = expected.get(edge[-1], 0) + 1
        for edge in block.out_edges:
            children.setdefault(edge[0], []).append(edge)
        return cls(
            parent={edge[0]: edge for edge in block.in_edges},
            expected=expected,
            children=children,
            leaf_edges=[edge for edge in block.in_edges if edge[0] not in expected],
        )
