"""How long a plan should take: a chunk-level fluid model of the overlay, and a lower bound (pure).

The model knows what the executor does and nothing of TCP: every directed link serves one chunk
at a time, first come first served, at its rate; a chunk that has arrived whole is added or sent
on at once; adding costs nothing.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow

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
) -> float:
    """Completion time in seconds of one task alone on the overlay.

    Without `delays_ms` it is the fluid time of the papers; with them, every hop of every chunk
    takes its propagation delay as well.
    """
    return simulate([Job(plan, model_bytes, chunk_bytes)], rates_mbps, delays_ms)[0]


def simulate(
    jobs: Sequence[Job],
    rates_mbps: Mapping[Directed, float],
    delays_ms: Mapping[Directed, float] | None = None,
) -> list[float]:
    """When each job's last receiver has its last chunk, in seconds, all sharing the links."""
    return _Simulation(jobs, rates_mbps, delays_ms or {}).run()


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


Arrival = tuple[float, int, int, int, int, Edge, int, bool]
"""(time, tie-break, job, block, chunk, edge, hops already made, towards the aggregator)."""


@dataclass(slots=True)
class _Simulation:
    jobs: Sequence[Job]
    rates_mbps: Mapping[Directed, float]
    delays_ms: Mapping[Directed, float]
    free_s: dict[Directed, float] = field(default_factory=dict)
    heap: list[Arrival] = field(default_factory=list)
    sequence: int = 0
    finish_s: list[float] = field(default_factory=list)
    waiting: dict[tuple[int, int, int, str], int] = field(default_factory=dict)
    trees: list[list[_Trees]] = field(default_factory=list)

    def run(self) -> list[float]:
        self.finish_s = [job.start_s for job in self.jobs]
        self.trees = [[_Trees.of(block) for block in job.plan.blocks] for job in self.jobs]
        for number in sorted(range(len(self.jobs)), key=lambda n: self.jobs[n].start_s):
            self._drain(self.jobs[number].start_s)
            self._start(number)
        self._drain(float("inf"))
        return self.finish_s

    def _start(self, job: int) -> None:
        plan = self.jobs[job].plan
        leaves = sorted(
            (chunk, number) for number, block in enumerate(plan.blocks) for chunk in block.indexes()
        )
        for chunk, number in leaves:
            trees = self.trees[job][number]
            for edge in trees.leaf_edges:
                self._send(self.jobs[job].start_s, job, number, chunk, edge, 0, True)
            if not trees.expected:
                self._reduced(self.jobs[job].start_s, job, number, chunk)

    def _drain(self, until_s: float) -> None:
        while self.heap and self.heap[0][0] <= until_s:
            now, _, job, block, chunk, edge, hops, inward = heapq.heappop(self.heap)
            if hops + 1 < len(edge):
                self._send(now, job, block, chunk, edge, hops, inward)
            elif inward:
                self._arrived_in(now, job, block, chunk, edge[-1])
            else:
                self._arrived_out(now, job, block, chunk, edge[-1])

    def _send(
        self,
        now: float,
        job: int,
        block: int,
        chunk: int,
        edge: Edge,
        hops: int,
        inward: bool,
    ) -> None:
        link = (edge[hops], edge[hops + 1])
        size = self.jobs[job].chunk_bytes
        size = min(size, self.jobs[job].model_bytes - chunk * size)
        done = max(now, self.free_s.get(link, 0.0)) + size * 8e-6 / self.rates_mbps[link]
        self.free_s[link] = done
        arrival = done + self.delays_ms.get(link, 0.0) / 1e3
        self.sequence += 1
        heapq.heappush(
            self.heap,
            (arrival, self.sequence, job, block, chunk, edge, hops + 1, inward),
        )

    def _arrived_in(self, now: float, job: int, block: int, chunk: int, site: str) -> None:
        trees = self.trees[job][block]
        key = (job, block, chunk, site)
        left = self.waiting.get(key, trees.expected[site]) - 1
        self.waiting[key] = left
        if left:
            return
        if site in trees.parent:
            self._send(now, job, block, chunk, trees.parent[site], 0, True)
        else:
            self._reduced(now, job, block, chunk)

    def _reduced(self, now: float, job: int, block: int, chunk: int) -> None:
        self._arrived_out(now, job, block, chunk, self.jobs[job].plan.blocks[block].aggregator)

    def _arrived_out(self, now: float, job: int, block: int, chunk: int, site: str) -> None:
        self.finish_s[job] = max(self.finish_s[job], now)
        for edge in self.trees[job][block].children.get(site, ()):
            self._send(now, job, block, chunk, edge, 0, False)


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
