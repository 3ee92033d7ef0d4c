"""How long a plan should take: a chunk-level fluid model of the overlay, and a lower bound (pure).

The model knows what the executor does and nothing of TCP: every directed link serves one chunk
at a time at its rate, in the order of the discipline; a chunk that has arrived whole is added or
sent on at once; adding costs nothing.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

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
    return _Simulation(jobs, rates_mbps, delays_ms or {}, discipline).run()


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
class _Simulation:
    """`heap` is what happens next: (time, tie-break, arriving chunk or link that is free)."""

    jobs: Sequence[Job]
    rates_mbps: Mapping[Directed, float]
    delays_ms: Mapping[Directed, float]
    discipline: str
    heap: list[tuple[float, int, _Chunk | Directed]] = field(default_factory=list)
    sequence: int = 0
    queues: dict[Directed, Queue[_Chunk]] = field(default_factory=dict)
    busy: set[Directed] = field(default_factory=set)
    flows: dict[tuple[int, bool], Flow] = field(default_factory=dict)
    finish_s: list[float] = field(default_factory=list)
    waiting: dict[tuple[int, int, int, str], int] = field(default_factory=dict)
    trees: list[list[_Trees]] = field(default_factory=list)

    def run(self) -> list[float]:
        self.finish_s = [job.start_s for job in self.jobs]
        self.trees = [[_Trees.of(block) for block in job.plan.blocks] for job in self.jobs]
        order = sorted(range(len(self.jobs)), key=lambda n: self.jobs[n].start_s)
        for task, number in enumerate(order):
            for inward in (True, False):
                self.flows[number, inward] = Flow(task, inward)
            self._drain(self.jobs[number].start_s)
            self._start(number)
        self._drain(float("inf"))
        return self.finish_s

    def _start(self, job: int) -> None:
        plan, start_s = self.jobs[job].plan, self.jobs[job].start_s
        leaves = sorted(
            (chunk, number) for number, block in enumerate(plan.blocks) for chunk in block.indexes()
        )
        for chunk, number in leaves:
            trees = self.trees[job][number]
            for edge in trees.leaf_edges:
                self._send(start_s, _Chunk(job, number, chunk, edge, 0, True))
            if not trees.expected:
                self._reduced(start_s, job, number, chunk)

    def _drain(self, until_s: float) -> None:
        while self.heap and self.heap[0][0] <= until_s:
            now, _, what = heapq.heappop(self.heap)
            if isinstance(what, tuple):
                self._serve(now, what)
                continue
            what.hops += 1
            if what.hops + 1 < len(what.edge):
                self._send(now, what)
            elif what.inward:
                self._arrived_in(now, what)
            else:
                self._arrived_out(now, what.job, what.block, what.number, what.edge[-1])

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
        size = self.jobs[chunk.job].chunk_bytes
        size = min(size, self.jobs[chunk.job].model_bytes - chunk.number * size)
        done = now + size * 8e-6 / self.rates_mbps[link]
        self._at(done, link)
        self._at(done + self.delays_ms.get(link, 0.0) / 1e3, chunk)

    def _at(self, time_s: float, what: _Chunk | Directed) -> None:
        self.sequence += 1
        heapq.heappush(self.heap, (time_s, self.sequence, what))

    def _arrived_in(self, now: float, chunk: _Chunk) -> None:
        trees, site = self.trees[chunk.job][chunk.block], chunk.edge[-1]
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
        self._arrived_out(now, job, block, chunk, self.jobs[job].plan.blocks[block].aggregator)

    def _arrived_out(self, now: float, job: int, block: int, chunk: int, site: str) -> None:
        self.finish_s[job] = max(self.finish_s[job], now)
        for edge in self.trees[job][block].children.get(site, ()):
            self._send(now, _Chunk(job, block, chunk, edge, 0, False))


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
