"""Tasks in the fluid model: what sites do with the chunks that arrive (pure).

With a non-blocking scatter, a site sends chunks before its task is known. Those that go where the
task wants them are kept. Those that are still queued for another site are sent to the right site
instead. The others were sent in vain.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from trunkline.agents.planning.disciplines import Flow
from trunkline.agents.planning.fluid.fluid_links import FluidLinks
from trunkline.agents.planning.fluid.fluid_tasks import (
    FluidChunk,
    FluidTask,
    Offer,
    RunningTask,
    Trees,
    find_kept,
    list_chunks,
)
from trunkline.agents.planning.plan import Edge
from trunkline.agents.planning.site_plan import parts_of


@dataclass(slots=True)
class FluidOverlay:
    """Tasks that share links, while the agenda of the links runs.

    Attributes:
        bytes_in_vain: what offers have brought to sites where no task wanted it.
        started: how many tasks have started.
    """

    links: FluidLinks
    bytes_in_vain: int = 0
    started: int = 0

    def __post_init__(self) -> None:
        self.links.arrived = self._arrive

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
            self.links.queue(FluidChunk(offer, None, number, edge, inward=True))
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
    ) -> RunningTask:
        """Start a task now.

        Args:
            job: the task; its `start_s` is not used.
            received: called with each receiver when it has the whole result.
            offers: early contributions of this task's group. Their sites send again only what the
                offers do not bring where the task wants it.
            unready: sites that contribute and pass sums on later, when they `join`. Until then
                they go on sending what they have offered.
            arrived: called with each receiver and chunk of the result when it has the chunk.
        """
        plan, number = job.plan, self.started
        self.started += 1
        trees = [Trees.of(block, unready) for block in plan.blocks]
        missing = {
            site: sum(stop - start for start, stop in plan.chunks_of(site))
            for site in plan.receivers
        }
        flows = {inward: Flow(number, inward) for inward in (True, False)}
        kept = find_kept(plan, trees, offers)
        task = RunningTask(
            job, trees, missing, received, arrived, flows, offers, kept, set(unready),
            list_chunks(plan),
        )  # fmt: skip
        for offer in offers:
            offer.task, offer.flow.task = task, number
            if offer.site not in task.unready:
                self._drop_unkept(offer)
            for chunk in offer.arrived:
                self._arrive_early(offer, chunk)
        last = {(block, edge): c for c, block in task.chunks for edge in task.own_edges(c, block)}
        for chunk, block in task.chunks:
            for edge in task.own_edges(chunk, block):
                made = self._make_chunk(task, block, chunk, edge, last[block, edge], inward=True)
                self.links.send(made)
            if not trees[block].expected:
                self._finish_sum(task, block, chunk)
        return task

    def join(self, task: RunningTask, site: str) -> None:
        """Let an unready site take part in a task."""
        task.unready.discard(site)
        for offer in task.offers:
            if offer.site == site:
                self._drop_unkept(offer)
        own = {
            (chunk, block): edge
            for chunk, block in task.chunks
            if (edge := task.trees[block].parent.get(site)) and (chunk, edge) not in task.kept
        }
        last = {block: chunk for chunk, block in own}
        for chunk, block in task.chunks:
            if site in task.trees[block].expected:
                self._arrive_in(task, block, chunk, site)
            elif edge := own.get((chunk, block)):
                made = self._make_chunk(task, block, chunk, edge, last[block], inward=True)
                self.links.send(made)

    def _arrive(self, chunk: FluidChunk) -> None:
        if isinstance(chunk.of, Offer):
            self._arrive_early(chunk.of, chunk.number)
        else:
            assert chunk.block is not None
            arrived = self._arrive_in if chunk.inward else self._arrive_out
            arrived(chunk.of, chunk.block, chunk.number, chunk.edge[-1])

    def _drop(self, offer: Offer, unwanted: Callable[[FluidChunk], bool]) -> None:
        """Remove the unwanted chunks of an offer from the queues of the site that sends it."""
        self.links.drop(offer.site, lambda chunk: chunk.of is offer and unwanted(chunk))

    def _drop_unkept(self, offer: Offer) -> None:
        """Remove what the task of an offer does not want from the queues of its site."""
        assert offer.task is not None
        kept = offer.task.kept
        self._drop(offer, lambda chunk: (chunk.number, chunk.edge) not in kept)

    def _arrive_early(self, offer: Offer, chunk: int) -> None:
        if offer.task is None and not offer.revoked:
            offer.arrived.append(chunk)
            return
        edge = offer.edges[chunk]
        if offer.task and (block := offer.task.kept.get((chunk, edge))) is not None:
            self._arrive_in(offer.task, block, chunk, edge[-1])
        else:
            self.bytes_in_vain += offer.job.bytes_of(chunk)

    def _arrive_in(self, task: RunningTask, block: int, chunk: int, site: str) -> None:
        trees, key = task.trees[block], (block, chunk, site)
        task.waiting[key] = task.waiting.get(key, trees.expected[site]) - 1
        if task.waiting[key]:
            return
        del task.waiting[key]
        if site in trees.parent:
            self._send_on(task, block, chunk, site, (trees.parent[site],), inward=True)
        else:
            self._finish_sum(task, block, chunk)

    def _finish_sum(self, task: RunningTask, block: int, chunk: int) -> None:
        self._arrive_out(task, block, chunk, task.job.plan.blocks[block].aggregator)

    def _arrive_out(self, task: RunningTask, block: int, chunk: int, site: str) -> None:
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
        task: RunningTask,
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
                self.links.send(self._make_chunk(task, block, each, edge, ready[-1], inward=inward))

    def _make_chunk(
        self, task: RunningTask, block: int, chunk: int, edge: Edge, last: int, *, inward: bool
    ) -> FluidChunk:
        """A chunk, of which relays know whether it is the last that its site sends on this edge."""
        waits = not task.job.plan.blocks[block].pipelined and self.links.auxiliary is None
        return FluidChunk(task, block, chunk, edge, inward, more=waits and chunk != last)

    def _forget_if_complete(self, task: RunningTask) -> None:
        """Remove the task's flows from all queues, once every receiver has the result."""
        if any(task.missing.values()):
            return
        flows = [*task.flows.values(), *(offer.flow for offer in task.offers)]
        self.links.forget(flows)
