"""The time that tasks should take: a fluid model of the overlay, chunk by chunk (pure).

The model has the executor's rules and no TCP. Every directed link serves one chunk at a time, at
its rate, in the order of the discipline. A chunk is added as soon as all of it has arrived. It is
sent on then or, if its block is not pipelined, when all of the block is there. Additions take no
time. With auxiliary paths, sites choose a path as the executor does.

In a network with routers, an overlay link is a path of links that others use as well. All overlay
links that send at a time get max-min fair rates.

With a non-blocking scatter, a site sends chunks before its task is known. Those that go where the
task wants them are kept. Those that are still queued for another site are sent to the right site
instead. The others were sent in vain.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

from trunkline.agents.planning.auxiliary_paths import Bounds, PathQueues, find_disjoint_paths
from trunkline.agents.planning.chunks import Chunking, cut_model
from trunkline.agents.planning.disciplines import DISCIPLINES, Flow, Queue
from trunkline.agents.planning.fair_shares import compute_fair_rates
from trunkline.agents.planning.plan import Block, Directed, Edge, Plan
from trunkline.agents.planning.site_plan import parts_of

Paths: TypeAlias = Mapping[Directed, Sequence[Directed]]

LAST_BITS = 1e-3
"""A chunk with less to send is done: that much may be left by rounding."""


@dataclass(frozen=True, slots=True)
class FluidTask:
    """One task in the fluid model: its plan, the sizes that it moves, and the time of its start.

    Attributes:
        tensor_bytes: the sizes of the model's tensors; empty for a model that is one array.
    """

    plan: Plan
    model_bytes: int
    chunk_bytes: int
    start_s: float = 0.0
    tensor_bytes: tuple[int, ...] = ()
    cut: Chunking = field(init=False)

    def __post_init__(self) -> None:
        found = cut_model(self.model_bytes, self.chunk_bytes, self.tensor_bytes)
        object.__setattr__(self, "cut", found)

    def bytes_of(self, chunk: int) -> int:
        """The size of a chunk in bytes."""
        return self.cut.size(chunk)


def estimate(
    plan: Plan,
    rates_mbps: Mapping[Directed, float],
    chunk_bytes: int,
    model_bytes: int,
    delays_ms: Mapping[Directed, float] | None = None,
    discipline: str = "fcfs",
    auxiliary: Bounds | None = None,
    tensor_bytes: tuple[int, ...] = (),
    paths: Paths | None = None,
) -> float:
    """The completion time in seconds of one task that has the overlay to itself.

    Args:
        plan: how the bytes of the task move.
        rates_mbps: the rate of each directed link.
        chunk_bytes: the size of a chunk.
        model_bytes: the size of the model.
        delays_ms: the one-way delay of each directed link, which every hop of every chunk takes.
            Without delays the result is the fluid time of the papers.
        discipline: the order in which a link serves its flows, a name in `DISCIPLINES`.
        auxiliary: the bounds of auxiliary paths; None for a task without such paths.
        tensor_bytes: the sizes of the model's tensors; empty for a model that is one array.
        paths: the links of each overlay link, whose rates `rates_mbps` then has; None if overlay
            links share nothing.
    """
    task = FluidTask(plan, model_bytes, chunk_bytes, tensor_bytes=tensor_bytes)
    return simulate([task], rates_mbps, delays_ms, discipline, auxiliary, paths)[0]


def simulate(
    tasks: Sequence[FluidTask],
    rates_mbps: Mapping[Directed, float],
    delays_ms: Mapping[Directed, float] | None = None,
    discipline: str = "fcfs",
    auxiliary: Bounds | None = None,
    paths: Paths | None = None,
) -> list[float]:
    """The times in seconds at which the last receiver of each task has its last chunk.

    The tasks share the links. Other arguments are as in `estimate`.
    """
    overlay = FluidOverlay(rates_mbps, delays_ms or {}, discipline, auxiliary, paths)
    finish_s = [task.start_s for task in tasks]

    def finished(number: int, _: str) -> None:
        finish_s[number] = overlay.now_s

    # The overlay numbers tasks as they start, and `task-fcfs` goes by that number.
    for number in sorted(range(len(tasks)), key=lambda number: tasks[number].start_s):
        overlay.run(tasks[number].start_s)
        overlay.start(tasks[number], partial(finished, number))
    overlay.run()
    return finish_s


@dataclass(slots=True, eq=False)
class Offer:
    """A contribution that a site sends before its task is known, by the default split.

    Attributes:
        job: the default plan and the sizes.
        edges: the edge that each chunk takes.
        arrived: the chunks at the ends of their edges, until a task takes the offer.
        task: the task that took the offer.
        revoked: no task will take the offer.
    """

    job: FluidTask
    site: str
    edges: Mapping[int, Edge]
    flow: Flow
    arrived: list[int] = field(default_factory=list)
    task: _RunningTask | None = None
    revoked: bool = False


@dataclass(slots=True, eq=False)
class _RunningTask:
    """A task that has started.

    Attributes:
        missing: how many chunks of the result each receiver lacks.
        kept: the blocks of the chunks, by index and edge, that offers bring where the task wants
            them.
        unready: contributors that have not begun to take part.
        waiting: how many contributions each sum (block, chunk, site) lacks.
        ready: the chunks that wait at a site until their block is whole, by (block, site, inward).
    """

    job: FluidTask
    trees: list[_Trees]
    missing: dict[str, int]
    received: Callable[[str], None]
    arrived: Callable[[str, int], None] | None
    flows: Mapping[bool, Flow]
    offers: Collection[Offer]
    kept: Mapping[tuple[int, Edge], int]
    unready: set[str]
    waiting: dict[tuple[int, int, str], int] = field(default_factory=dict)
    ready: dict[tuple[int, str, bool], list[int]] = field(default_factory=dict)

    def own_edges(self, chunk: int, block: int) -> list[Edge]:
        """The edges on which leaves of the in-tree send a chunk when the task starts."""
        edges = self.trees[block].leaf_edges
        return [e for e in edges if (chunk, e) not in self.kept and e[0] not in self.unready]


@dataclass(slots=True, eq=False)
class _Chunk:
    """A chunk under way, after `hops` hops of its edge.

    A chunk of an offer has no block yet. On an auxiliary path `edge` is that path. A relay sends a
    chunk on with the next one of its block if `more` are to come that it waits for.
    """

    of: _RunningTask | Offer
    block: int | None
    number: int
    edge: Edge
    inward: bool
    more: bool = False
    hops: int = 0
    primary: bool = True

    @property
    def link(self) -> Directed:
        return self.edge[self.hops], self.edge[self.hops + 1]

    @property
    def flow(self) -> Flow:
        return self.of.flow if isinstance(self.of, Offer) else self.of.flows[self.inward]


@dataclass(slots=True)
class _Sending:
    """A chunk that an overlay link sends, with the bits that have not left yet."""

    chunk: _Chunk
    bits: float
    rate_mbps: float = 0.0


@dataclass(slots=True)
class FluidOverlay:
    """Links that tasks share. `run` lets time pass.

    A chunk that is being sent when `rates_mbps` change keeps its old rate; with `paths`, until
    another chunk begins or ends.

    Attributes:
        rates_mbps: the rate of each link of the overlay, or of the `paths`.
        delays_ms: the one-way delay of each link of the overlay.
        paths: the links of each overlay link; None if overlay links share nothing.
        relayed: the chunks that wait at a relay, by task, block, edge and number of hops.
        sending: with `paths`, the chunk that each overlay link sends.
        shared_s: with `paths`, when the bits in `sending` were counted.
        shares: how often rates were shared.
        bytes_in_vain: what offers have brought to sites where no task wanted it.
        heap: what happens next: (time in seconds, tie-break, an arriving chunk, a link that becomes
            free, or a function to call).
        open: the task that waits for each site which has yet to join.
    """

    rates_mbps: Mapping[Directed, float]
    delays_ms: Mapping[Directed, float]
    discipline: str = "fcfs"
    auxiliary: Bounds | None = None
    paths: Paths | None = None
    now_s: float = 0.0
    bytes_in_vain: int = 0
    heap: list[tuple[float, int, _Chunk | Directed | Callable[[], None]]] = field(
        default_factory=list
    )
    sequence: int = 0
    started: int = 0
    queues: dict[Directed, Queue[_Chunk]] = field(default_factory=dict)
    busy: set[Directed] = field(default_factory=set)
    open: dict[str, _RunningTask] = field(default_factory=dict)
    path_queues: PathQueues[_Chunk, _Chunk] = field(init=False)
    relayed: dict[tuple[_RunningTask | Offer, int | None, Edge, int], list[_Chunk]] = field(
        default_factory=dict
    )
    sending: dict[Directed, _Sending] = field(default_factory=dict)
    shared_s: float = 0.0
    shares: int = 0

    def __post_init__(self) -> None:
        self.path_queues = PathQueues(self.auxiliary or Bounds(), self._take_path)
        self.set_known_rates(self.link_rates_mbps())

    def link_rates_mbps(self) -> Mapping[Directed, float]:
        """The rate of each overlay link that sends alone."""
        if self.paths is None:
            return self.rates_mbps
        return {
            link: min(self.rates_mbps[hop] for hop in path) for link, path in self.paths.items()
        }

    def set_known_rates(self, rates_mbps: Mapping[Directed, float]) -> None:
        """Let sites choose auxiliary paths by these rates from now on."""
        if self.auxiliary is not None:
            sites = sorted({site for link in rates_mbps for site in link})
            self.path_queues.switch(
                find_disjoint_paths(itertools.permutations(sites, 2), rates_mbps)
            )

    def offer(self, job: FluidTask, site: str) -> Offer:
        """Send a site's contribution now, before its task is known, by the default plan of a job.

        The job's `start_s` is not used.
        """
        edges = {
            chunk: mine.parent
            for mine in parts_of(job.plan, site)
            if mine.sources == (site,) and mine.parent is not None
            for chunk in mine.indexes()
        }
        offer = Offer(job, site, edges, Flow(None, inward=True))
        for number, edge in sorted(edges.items()):
            self._queue(_Chunk(offer, None, number, edge, inward=True))
        return offer

    def take_back(self, offer: Offer) -> None:
        """Send no more of an offer: no task will take it."""
        offer.revoked = True
        self._drop(offer, lambda _: True)

    def start(
        self,
        job: FluidTask,
        received: Callable[[str], None],
        offers: Collection[Offer] = (),
        unready: Collection[str] = (),
        arrived: Callable[[str, int], None] | None = None,
    ) -> None:
        """Start a task now.

        Args:
            job: the task; its `start_s` is not used.
            received: called with each receiver when it has the whole result.
            offers: early contributions of this task's group. Their sites send again only what the
                offers do not bring where the task wants it.
            unready: contributors that take part later, when they `join`.
            arrived: called with each receiver and chunk of the result when it has the chunk.
        """
        plan, number = job.plan, self.started
        self.started += 1
        trees = [_Trees.of(block, unready) for block in plan.blocks]
        missing = {
            site: sum(stop - start for start, stop in plan.chunks_of(site))
            for site in plan.receivers
        }
        flows = {inward: Flow(number, inward) for inward in (True, False)}
        kept = _find_kept(plan, trees, offers)
        task = _RunningTask(
            job, trees, missing, received, arrived, flows, offers, kept, set(unready)
        )
        self.open |= dict.fromkeys(unready, task)
        for offer in offers:
            offer.task, offer.flow.task = task, number
            self._drop(offer, lambda chunk: (chunk.number, chunk.edge) not in kept)
            for chunk in offer.arrived:
                self._arrive_early(offer, chunk)
        chunks = _list_chunks(plan)
        last = {(block, edge): c for c, block in chunks for edge in task.own_edges(c, block)}
        for chunk, block in chunks:
            for edge in task.own_edges(chunk, block):
                made = self._make_chunk(task, block, chunk, edge, last[block, edge], inward=True)
                self._send(made)
            if not trees[block].expected:
                self._finish_sum(task, block, chunk)

    def join(self, site: str) -> bool:
        """Let a site contribute to the task that waits for it; returns False if none does."""
        task = self.open.pop(site, None)
        if task is None:
            return False
        task.unready.discard(site)
        chunks = _list_chunks(task.job.plan)
        last = {block: chunk for chunk, block in chunks}
        for chunk, block in chunks:
            trees = task.trees[block]
            if site in trees.expected:
                self._arrive_in(task, block, chunk, site)
            else:
                edge = trees.parent[site]
                self._send(self._make_chunk(task, block, chunk, edge, last[block], inward=True))
        return True

    def call_at(self, time_s: float, what: Callable[[], None]) -> None:
        """Call a function at a time in seconds."""
        self._schedule(time_s, what)

    def cancel(self, what: Callable[[], None]) -> None:
        """Do not make the calls of this function that `call_at` has planned."""
        self.heap = [entry for entry in self.heap if entry[2] != what]
        heapq.heapify(self.heap)

    def run(self, until_s: float = math.inf) -> None:
        """Let time pass until `until_s`, or until nothing is left to happen."""
        while self.heap and self.heap[0][0] <= until_s:
            self.now_s, _, what = heapq.heappop(self.heap)
            if isinstance(what, tuple):
                self._serve(what)
            elif isinstance(what, _Chunk):
                self._arrive(what)
            else:
                what()
        if until_s < math.inf:
            self.now_s = until_s

    def _arrive(self, chunk: _Chunk) -> None:
        chunk.hops += 1
        if chunk.hops + 1 < len(chunk.edge):
            self._relay(chunk)
            return
        if not chunk.primary:
            self.path_queues.release(chunk)
        if isinstance(chunk.of, Offer):
            self._arrive_early(chunk.of, chunk.number)
        else:
            assert chunk.block is not None
            arrived = self._arrive_in if chunk.inward else self._arrive_out
            arrived(chunk.of, chunk.block, chunk.number, chunk.edge[-1])

    def _send(self, chunk: _Chunk) -> None:
        """Send a chunk to the next site of its task, along its edge or an auxiliary path."""
        if self.auxiliary is None:
            self._queue(chunk)
        else:
            self.path_queues.put(chunk.edge, chunk, chunk)

    def _relay(self, chunk: _Chunk) -> None:
        """Queue a chunk for its next hop, with those that wait, unless it has to wait itself."""
        stream = chunk.of, chunk.block, chunk.edge, chunk.hops
        self.relayed.setdefault(stream, []).append(chunk)
        if not chunk.more:
            for each in self.relayed.pop(stream):
                self._queue(each)

    def _take_path(self, path: Edge, chunk: _Chunk) -> None:
        chunk.primary, chunk.edge = path == chunk.edge, path
        self._queue(chunk)

    def _queue(self, chunk: _Chunk) -> None:
        link = chunk.link
        if link not in self.queues:
            self.queues[link] = Queue(DISCIPLINES[self.discipline])
        self.queues[link].push(chunk, chunk.flow)
        if link not in self.busy:
            self.busy.add(link)
            self._serve(link)

    def _serve(self, link: Directed) -> None:
        chunk = self.queues[link].pop()
        if chunk is None:
            self.busy.remove(link)
            return
        size = chunk.of.job.bytes_of(chunk.number)
        if self.paths is not None:
            self._drain()
            self.sending[link] = _Sending(chunk, size * 8.0)
            self._share()
            return
        done = self.now_s + size * 8e-6 / self.rates_mbps[link]
        if self.auxiliary is not None and chunk.primary and not chunk.hops:
            self._schedule(done, partial(self.path_queues.release, chunk))
        self._schedule(done, link)
        self._schedule(done + self.delays_ms.get(link, 0.0) / 1e3, chunk)

    def _drain(self) -> None:
        """Count the bits that have left since the last time."""
        for each in self.sending.values():
            each.bits -= each.rate_mbps * 1e6 * (self.now_s - self.shared_s)
        self.shared_s = self.now_s

    def _share(self) -> None:
        """Give all overlay links that send their fair rates, and plan when the next one is done."""
        assert self.paths is not None
        active = {link: self.paths[link] for link in self.sending}
        rates = compute_fair_rates(active, self.rates_mbps)
        for link, each in self.sending.items():
            each.rate_mbps = rates[link]
        self.shares += 1
        if self.sending:
            left_s = min(each.bits / each.rate_mbps for each in self.sending.values()) / 1e6
            done = partial(self._finish_sending, self.shares)
            self._schedule(self.now_s + max(0.0, left_s), done)

    def _finish_sending(self, shares: int) -> None:
        """Let the chunks arrive of which all bits have left, and serve their links.

        Does nothing if the rates have changed since this was planned, after so many `shares`.
        """
        if shares != self.shares:
            return
        self._drain()
        done = [link for link, each in self.sending.items() if each.bits < LAST_BITS]
        for link in done:
            chunk = self.sending.pop(link).chunk
            if self.auxiliary is not None and chunk.primary and not chunk.hops:
                self.path_queues.release(chunk)
            self._schedule(self.now_s, link)
            self._schedule(self.now_s + self.delays_ms.get(link, 0.0) / 1e3, chunk)
        self._share()

    def _schedule(self, time_s: float, what: _Chunk | Directed | Callable[[], None]) -> None:
        self.sequence += 1
        heapq.heappush(self.heap, (time_s, self.sequence, what))

    def _drop(self, offer: Offer, unwanted: Callable[[_Chunk], bool]) -> None:
        """Remove the unwanted chunks of an offer from the queues of the site that sends it."""
        for link, queue in self.queues.items():
            if link[0] == offer.site:
                queue.drop(lambda chunk: chunk.of is offer and unwanted(chunk))

    def _arrive_early(self, offer: Offer, chunk: int) -> None:
        if offer.task is None and not offer.revoked:
            offer.arrived.append(chunk)
            return
        edge = offer.edges[chunk]
        if offer.task and (block := offer.task.kept.get((chunk, edge))) is not None:
            self._arrive_in(offer.task, block, chunk, edge[-1])
        else:
            self.bytes_in_vain += offer.job.bytes_of(chunk)

    def _arrive_in(self, task: _RunningTask, block: int, chunk: int, site: str) -> None:
        trees, key = task.trees[block], (block, chunk, site)
        task.waiting[key] = task.waiting.get(key, trees.expected[site]) - 1
        if task.waiting[key]:
            return
        del task.waiting[key]
        if site in trees.parent:
            self._send_on(task, block, chunk, site, (trees.parent[site],), inward=True)
        else:
            self._finish_sum(task, block, chunk)

    def _finish_sum(self, task: _RunningTask, block: int, chunk: int) -> None:
        self._arrive_out(task, block, chunk, task.job.plan.blocks[block].aggregator)

    def _arrive_out(self, task: _RunningTask, block: int, chunk: int, site: str) -> None:
        edges = task.trees[block].children.get(site, ())
        self._send_on(task, block, chunk, site, edges, inward=False)
        if site in task.missing:
            if task.arrived is not None:
                task.arrived(site, chunk)
            task.missing[site] -= 1
            if not task.missing[site]:
                self._forget_if_complete(task)
                task.received(site)

    def _send_on(
        self,
        task: _RunningTask,
        block: int,
        chunk: int,
        site: str,
        edges: Sequence[Edge],
        *,
        inward: bool,
    ) -> None:
        """Send a sum or result on, at once or with all others of its block."""
        found, ready = task.job.plan.blocks[block], [chunk]
        if not found.pipelined:
            ready = task.ready.setdefault((block, site, inward), [])
            ready.append(chunk)
            if len(ready) < found.size:
                return
            ready = sorted(task.ready.pop((block, site, inward)))
        for each in ready:
            for edge in edges:
                self._send(self._make_chunk(task, block, each, edge, ready[-1], inward=inward))

    def _make_chunk(
        self, task: _RunningTask, block: int, chunk: int, edge: Edge, last: int, *, inward: bool
    ) -> _Chunk:
        """A chunk, of which relays know whether it is the last that its site sends on this edge."""
        waits = not task.job.plan.blocks[block].pipelined and self.auxiliary is None
        return _Chunk(task, block, chunk, edge, inward, more=waits and chunk != last)

    def _forget_if_complete(self, task: _RunningTask) -> None:
        """Remove the task's flows from all queues, once every receiver has the result."""
        if any(task.missing.values()):
            return
        flows = [*task.flows.values(), *(offer.flow for offer in task.offers)]
        for queue in self.queues.values():
            queue.forget(flows)


def _list_chunks(plan: Plan) -> list[tuple[int, int]]:
    """All (chunk, block) pairs in the order in which sites send: by chunk, then by block."""
    return sorted(
        (chunk, number) for number, block in enumerate(plan.blocks) for chunk in block.indexes()
    )


def _find_kept(
    plan: Plan, trees: Sequence[_Trees], offers: Collection[Offer]
) -> dict[tuple[int, Edge], int]:
    """The blocks of the contributions, by (chunk, edge), that offers have sent along that edge."""
    edges = {offer.site: offer.edges for offer in offers}
    return {
        (chunk, edge): number
        for number, block in enumerate(plan.blocks)
        for edge in trees[number].leaf_edges
        if edge[0] in edges
        for chunk in block.indexes()
        if edges[edge[0]].get(chunk) == edge
    }


@dataclass(frozen=True, slots=True)
class _Trees:
    """A block's trees, by site; `expected` counts the contributions that a site waits for."""

    parent: dict[str, Edge]
    expected: dict[str, int]
    children: dict[str, list[Edge]]
    leaf_edges: list[Edge]

    @classmethod
    def of(cls, block: Block, unready: Collection[str] = ()) -> _Trees:
        """Index the trees of a block. A sum at an `unready` site also waits for that site's own."""
        expected: dict[str, int] = {}
        children: dict[str, list[Edge]] = {}
        for edge in block.in_edges:
            expected[edge[-1]] = expected.get(edge[-1], 0) + 1
        for edge in block.out_edges:
            children.setdefault(edge[0], []).append(edge)
        for site in unready:
            if site in expected or site == block.aggregator:
                expected[site] = expected.get(site, 0) + 1
        return cls(
            parent={edge[0]: edge for edge in block.in_edges},
            expected=expected,
            children=children,
            leaf_edges=[edge for edge in block.in_edges if edge[0] not in expected],
        )
