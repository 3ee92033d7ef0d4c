"""Runs one site's part of any plan, chunk by chunk.

A chunk is added as soon as it arrives. A sum is sent on as soon as it is complete or, if its block
is not pipelined, when all sums of the block are complete (`agents.site.task_execution`). This
module sorts arriving chunks: into running tasks, tasks that this site does not know yet, offers,
and chunks to forward.
"""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Callable, Iterable
from functools import partial

import numpy as np

from trunkline.agents.events.task_events import Phase
from trunkline.agents.planning.auxiliary_paths import Bounds
from trunkline.agents.planning.chunks import cut_model
from trunkline.agents.planning.disciplines import Flow
from trunkline.agents.planning.plan import indexes_of
from trunkline.agents.planning.site_plan import BlockPart
from trunkline.agents.site.dispatch import Dispatch
from trunkline.agents.site.early_contributions import Key, Offers, OwnOffer, key_of
from trunkline.agents.site.site_model import SiteModel
from trunkline.agents.site.task_execution import Arrived, Local, Share
from trunkline.agents.site.traffic import Account, Book, Page
from trunkline.agents.wire.agent_settings import WorkerSettings
from trunkline.agents.wire.chunk_memory import Pool
from trunkline.agents.wire.framing import ChunkHeader
from trunkline.agents.wire.messages import ProtocolError, RearrangeTask, StartTask
from trunkline.workloads.base import Vector, allocate

Stream = tuple[bool, int, int, tuple[int, ...]]
"""The chunks of one block that a relay forwards: inward, block, source, route."""


class Executor:
    """All tasks that this site takes part in; its `dispatch` sends chunks to other sites."""

    def __init__(
        self,
        site: str,
        sites: tuple[str, ...],
        model_elements: int,
        chunk_bytes: int,
        now_ns: Callable[[], int],
        bounds: Bounds | None = None,
        tensor_bytes: tuple[int, ...] = (),
        held: tuple[int, ...] | None = None,
    ) -> None:
        self.dispatch = Dispatch(site, sites, self._account, bounds)
        self._chunks = Pool(chunk_bytes // 4)
        self._local = Local(
            site,
            sites,
            cut_model(model_elements, chunk_bytes // 4, tuple(size // 4 for size in tensor_bytes)),
            self._chunks,
            self._put,
            self.dispatch.drop,
            held,
            relays_wait=bounds is None,
        )
        self._now_ns = now_ns
        self._tasks: dict[int, Share] = {}
        self._flows: dict[int, dict[tuple[bool, int], Flow]] = {}
        self._repairs: dict[int, list[int]] = {}
        self._offers = Offers()
        self._own: OwnOffer | None = None
        self._ended: set[int] = set()
        self._early: dict[int, list[tuple[ChunkHeader, Vector]]] = {}
        self._relayed: dict[int, dict[Stream, list[tuple[ChunkHeader, Vector]]]] = {}
        self._received, self._discarded = Book(), Book()
        self._spare: Vector | None = None

    @classmethod
    def of(cls, settings: WorkerSettings, model: SiteModel, now_ns: Callable[[], int]) -> Executor:
        """The executor of a site with this model."""
        return cls(
            settings.site,
            settings.sites,
            len(model.model),
            settings.chunk_bytes,
            now_ns,
            settings.auxiliary,
            settings.tensor_bytes,
            None if model.shard is None else tuple(indexes_of(model.shard)),
        )

    def start(
        self,
        message: StartTask,
        contribution: Vector | None,
        finished: Callable[[Vector], None],
        left: Callable[[], None] = lambda: None,
        arrived: Arrived = lambda chunk, place, data: None,
    ) -> None:
        """Take part in a task; `finished(result)` is called once if this site is a receiver.

        `contribution` is the whole model and must not change before `finished` is called, which
        happens only when the links have sent all of it. If this site is not a receiver, `left()` is
        called then, perhaps several times; the contribution must not change before the task ends.
        `arrived` is called for each chunk of the result that this site keeps and can use.
        """
        self.halt(message.task)  # the site may have had another part of the same task before
        self._spend(self._offers.of(message.task))
        self._ended.discard(message.task)
        result = self._take_result() if message.receives else None
        share = Share(self._local, message, contribution, result, finished, left, arrived)
        self._tasks[message.task] = share
        self._adopt(share)
        share.unsent += 1  # keeps the site from reporting before all of its chunks are queued
        share.start(message.parts)
        self._process_early(share)
        share.release_own()

    def offer(self, number: int, contribution: Vector, parts: Iterable[BlockPart]) -> None:
        """Send this site's contribution by a default split, before its task is known.

        The contribution must not change before its task calls `finished`, or before `take_back`.
        """
        self.take_back()
        links = self.dispatch.links
        edges = {
            chunk: part.parent
            for part in parts
            if part.sources == (self._local.site,) and part.parent and part.parent[1] in links
            for chunk in part.indexes()
        }
        own = self._own = OwnOffer(number, edges, set(edges))
        for chunk in sorted(edges):
            data = contribution[self._local.cut.span(chunk)]
            header = ChunkHeader(
                inward=True,
                task=number,
                block=0,
                chunk=chunk,
                source=self._local.rank[self._local.site],
                route=tuple(self._local.rank[site] for site in edges[chunk][2:]),
                original=True,
                size=data.nbytes,
                early=True,
            )
            self._put(
                edges[chunk][1], header, data, "early", partial(self._on_offer_sent, own, chunk)
            )

    def take_back(self) -> None:
        """Withdraw this site's offer if no task has taken it in."""
        if self._own and (key := self._own_key(self._own)):
            if key not in self._offers.tasks:
                self._spend([key])
            self._own = None

    def withdraw(self, number: int, by: str) -> None:
        """Send no more chunks of this site's offer to or through a site that refuses them."""
        own = self._own
        if own is None or number != self.open_offer():
            return
        gone = {chunk for chunk, edge in own.edges.items() if by in edge[1:]}
        own.edges = {chunk: edge for chunk, edge in own.edges.items() if chunk not in gone}
        own.unsent -= gone
        flow = self._offers.flow(self._own_key(own))
        self.dispatch.drop(
            lambda each: each.flow is flow and each.chunk is not None and each.chunk.chunk in gone
        )

    def open_offer(self) -> int | None:
        """The number of this site's offer that no task has taken in."""
        if self._own is None or self._own_key(self._own) in self._offers.tasks:
            return None
        return self._own.number

    def find_spent_offers(self) -> dict[str, int]:
        """The latest offer of each site that no further task can take in here."""
        return {self._local.sites[rank]: n for rank, n in self._offers.find_spent().items()}

    def refuse_offers(self) -> None:
        """Discard all known offers without a task."""
        self._spend(self._offers.of(None))

    def rearrange(self, message: RearrangeTask) -> None:
        """Drop the withdrawn blocks of a running task and take part in the new blocks.

        Every aggregator adds in the same order, so results of old and new blocks are identical.
        """
        share = self._tasks.get(message.task)
        if share is None:
            return
        self._repairs.setdefault(message.task, []).append(share.blocks)
        share.unsent += 1  # keeps the task from finishing between the old and the new blocks
        share.rearrange(message)
        self._process_early(share)
        share.release_own()

    def halt(self, task: int) -> bool:
        """Drop all blocks of a task so far; True if this site has finished it already.

        If not, the dropped blocks will not let it finish any more.
        """
        known = self._tasks.get(task)
        if known is None:
            return False
        known.raise_floor(known.blocks)
        return known.reported

    def blocks(self, task: int) -> int:
        """How many block numbers of a task this site knows."""
        return self._tasks[task].blocks

    def knows(self, task: int) -> bool:
        """Whether this site takes part in the task or did so before."""
        return task in self._tasks or task in self._ended

    def runs(self, task: int) -> bool:
        """Whether this site takes part in the task now."""
        return task in self._tasks

    def has_left(self, task: int) -> bool:
        """Whether nothing of this site's contribution is still to be sent."""
        share = self._tasks[task]
        return not (share.unsent or share.owed)

    def running(self) -> tuple[int, ...]:
        """The tasks that this site takes part in now."""
        return tuple(self._tasks)

    def find_unknown_tasks(self) -> dict[int, set[str]]:
        """Tasks that this site was not told of, each with the sites that sent chunks of it."""
        return {
            task: {self._local.sites[header.source] for header, _ in held}
            for task, held in self._early.items()
            if task not in self._tasks
        }

    def end_task(self, task: int) -> tuple[Page, Page, Page]:
        """Forget a task and drop its queued chunks; returns sent, received and discarded traffic.

        Discarded traffic is a part of the received, by the site that contributed it.
        """
        self._ended.add(task)
        if (ended := self._tasks.pop(task, None)) is not None:
            ended.over = True
            self._spare = self._spare if ended.result is None else ended.result
        relayed = self._relayed.pop(task, {}).values()
        for _, data in itertools.chain(self._early.pop(task, []), *relayed):
            self._chunks.give(data)
        self.dispatch.forget(self._flows.pop(task, {}).values())
        self._repairs.pop(task, None)
        self._spend(self._offers.of(task))
        return (
            self.dispatch.sent.close(task),
            self._received.close(task),
            self._discarded.close(task),
        )

    def count_resent(self, peer: str) -> int | None:
        """The packets that TCP has sent again on the connection to a peer, if it is there."""
        link = self.dispatch.links.get(peer)
        return None if link is None else link.resent_packets

    def open_accounts(self) -> tuple[int, ...]:
        """The tasks with traffic at this site that have not ended."""
        pages = {*self.dispatch.sent.pages, *self._received.pages}
        return tuple(sorted(account for account in pages if isinstance(account, int)))

    def allocate(self, header: ChunkHeader) -> memoryview:
        """Memory for an arriving chunk. Raises ProtocolError if its header does not fit the run."""
        if (
            header.chunk >= self._local.cut.count
            or header.size != self._local.cut.size(header.chunk) * 4
        ):
            raise ProtocolError(f"chunk {header.chunk} of {header.size} bytes")
        self.dispatch.check_header(header)
        return self._chunks.take(self._local.cut.size(header.chunk)).data.cast("B")

    def on_chunk(self, peer: str, header: ChunkHeader, payload: memoryview) -> None:
        """Handle a complete chunk in memory from `allocate`: forward it, add it or keep it."""
        data = np.frombuffer(payload, np.float32)
        account = self._account(header)
        if account is None:
            self._chunks.give(data)
            return
        phase: Phase = "early" if header.early else "in" if header.inward else "out"
        if self._local.sites[header.source] != peer:
            phase = "relay"  # the site that forwarded the chunk counts it as relayed, too
        elif header.auxiliary:
            phase = "aux"
        onward = self.dispatch.next_hop(header)
        if onward is None:
            self.dispatch.confirm(peer, header)
        now_ns = self._now_ns()
        self._received.count(account, (peer, phase), header.size, now_ns, now_ns)
        if header.early:
            self._on_early_chunk(header, data)
            return
        task = self._tasks.get(header.task)
        if task is not None and task.is_withdrawn(header.block):
            self._chunks.give(data)
        elif onward is not None:
            self._relay(onward, header, data)
        elif task is not None and header.block < task.blocks:
            self._process(task, header, data)
        else:
            self._early.setdefault(header.task, []).append((header, data))

    # -- offers -----------------------------------------------------------------------------

    def _on_early_chunk(self, header: ChunkHeader, data: Vector) -> None:
        key = key_of(header)
        self._spend(self._offers.superseded(key))
        if (onward := self.dispatch.next_hop(header)) is not None:
            self._forward(onward, header, data)
        elif key in self._offers.tasks:
            self._contribute(
                self._tasks[self._offers.tasks[key]], header.source, header.chunk, data
            )
        else:
            self._offers.hold(header, data)

    def _adopt(self, share: Share) -> None:
        """Take in the offers that the task names, with the chunks that arrived so far."""
        message = share.message
        offers = {self._local.rank[site]: number for site, number in message.offers.items()}
        self._offers.adopt(message.task, offers)
        for book in (self.dispatch.sent, self._received):
            book.adopt(message.task, offers.items())
        own = self._own
        if message.contributes and own and message.offers.get(self._local.site) == own.number:
            share.keep_offered(own, self._offers.flow(self._own_key(own)))
        elif message.contributes:
            self.take_back()
        for source, number in offers.items():
            for chunk, data in self._offers.held.pop((source, number), {}).items():
                self._contribute(share, source, chunk, data)

    def _contribute(self, share: Share, source: int, chunk: int, data: Vector) -> None:
        if not share.contribute(source, chunk, data):
            self._discard(share, source, data)

    def _process(self, share: Share, header: ChunkHeader, data: Vector) -> None:
        if not share.process(header, data):
            self._discard(share, header.source, data)

    def _discard(self, share: Share, source: int, data: Vector) -> None:
        """Discard a chunk of an offer that was sent in vain, or of which this is the second one."""
        now_ns = self._now_ns()
        peer = self._local.sites[source]
        self._discarded.count(share.message.task, (peer, "early"), data.nbytes, now_ns, now_ns)
        self._chunks.give(data)

    def _own_key(self, own: OwnOffer) -> Key:
        return self._local.rank[self._local.site], own.number

    def _on_offer_sent(self, own: OwnOffer, chunk: int) -> None:
        own.unsent.discard(chunk)
        number = self._offers.tasks.get(self._own_key(own))
        if number in self._tasks:
            self._tasks[number].finish_if_done()

    def _spend(self, keys: list[Key]) -> None:
        flows, held = self._offers.spend(keys)
        for data in held:
            self._chunks.give(data)
        self.dispatch.forget(flows)
        for key in keys:
            self.dispatch.sent.close(key)
            self._received.close(key)

    # -- one chunk --------------------------------------------------------------------------

    def _process_early(self, share: Share) -> None:
        """Process chunks that arrived before this site knew the task or its new blocks."""
        early = self._early.pop(share.message.task, [])
        for header, data in early:
            if share.is_withdrawn(header.block):
                self._chunks.give(data)
            elif header.block < share.blocks:
                self._process(share, header, data)
            else:
                self._early.setdefault(header.task, []).append((header, data))

    def _relay(self, hop: str, header: ChunkHeader, data: Vector) -> None:
        """Forward a chunk, with those of its block that wait, unless it has to wait itself."""
        streams = self._relayed.setdefault(header.task, {})
        stream = header.inward, header.block, header.source, header.route
        streams.setdefault(stream, []).append((header, data))
        if not header.more:
            for each in streams.pop(stream):
                self._forward(hop, *each)

    def _forward(self, hop: str, header: ChunkHeader, data: Vector) -> None:
        self.dispatch.forward(hop, header, data, self._flow(header), self._chunks.give)

    def _put(
        self, hop: str, header: ChunkHeader, data: Vector, phase: Phase, release: Callable[[], None]
    ) -> None:
        self.dispatch.put(hop, header, data, self._flow(header), phase, release)

    def _flow(self, header: ChunkHeader) -> Flow:
        """The flow of a chunk. Every repair of a task has flows of its own.

        So its chunks queue behind everything that is scheduled (CREW, Section IV-B).
        """
        if header.early:
            return self._offers.flow(key_of(header))
        repairs = bisect_right(self._repairs.get(header.task, ()), header.block)
        flows = self._flows.setdefault(header.task, {})
        return flows.setdefault((header.inward, repairs), Flow(header.task, header.inward))

    def _take_result(self) -> Vector:
        result, self._spare = self._spare, None
        return allocate(self._local.cut.total) if result is None else result

    def _account(self, header: ChunkHeader) -> Account | None:
        """The task or offer that a chunk counts for; None if that has ended."""
        if not header.early:
            return None if header.task in self._ended else header.task
        key = key_of(header)
        return None if self._offers.is_spent(key) else self._offers.tasks.get(key, key)
