"""Executors of many sites in one process, their chunks delivered in an order drawn from a seed.

No sockets and no event loop: a thousand small tasks take seconds. A link keeps its frames in the
order of its sender's queue; which link delivers next is chance.
"""

import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from trunkline.agents.planning.auxiliary_paths import Bounds, find_disjoint_paths
from trunkline.agents.planning.chunks import Chunking, cut_model
from trunkline.agents.planning.plan import Block, Directed, Plan, PlanRequest
from trunkline.agents.planning.site_plan import parts_of
from trunkline.agents.site.executor import Executor
from trunkline.agents.wire.framing import FrameReader, encode
from trunkline.agents.wire.lane import Outgoing
from trunkline.agents.wire.messages import Control, Delivered, RearrangeTask, StartTask

CHUNK_BYTES = 16


@dataclass
class FakeLink:
    """The sending end of a link: a queue of frames that the fabric delivers one by one."""

    queue: list[Outgoing] = field(default_factory=list)

    def put(self, frame: Outgoing) -> None:
        self.queue.append(frame)

    def tell(self, message: Control) -> None:
        self.queue.append(Outgoing(encode(message)))

    def forget(self, flows) -> None:
        self.drop(lambda frame: frame.flow in flows)

    def drop(self, unwanted: Callable[[Outgoing], bool]) -> None:
        dropped = [frame for frame in self.queue if frame.chunk and unwanted(frame)]
        self.queue = [frame for frame in self.queue if not (frame.chunk and unwanted(frame))]
        for frame in dropped:
            frame.dropped()


@dataclass
class Fabric:
    """All sites of an overlay; `results` are (site, task) -> result, once each.

    `inward_bytes` counts the payload of what went towards aggregators, `moves` lists the link of
    each chunk that was delivered.
    """

    rates: Mapping[Directed, float]
    elements: int
    seed: int = 0
    bounds: Bounds | None = None
    tensors: tuple[int, ...] = ()
    results: dict[tuple[str, int], np.ndarray] = field(default_factory=dict)
    inward_bytes: int = 0
    moves: list[Directed] = field(default_factory=list)

    def __post_init__(self):
        self.rng = random.Random(self.seed)
        self.sites = tuple(sorted({site for link in self.rates for site in link}))
        self.links = {link: FakeLink() for link in self.rates}
        self.executors = {
            site: Executor(
                site,
                self.sites,
                self.elements,
                CHUNK_BYTES,
                lambda: 0,
                self.bounds,
                tuple(4 * size for size in self.tensors),
            )
            for site in self.sites
        }
        for site, executor in self.executors.items():
            executor.dispatch.links = {b: self.links[a, b] for a, b in self.links if a == site}

    @property
    def cut(self) -> Chunking:
        return cut_model(self.elements, CHUNK_BYTES // 4, self.tensors)

    def tell(
        self, task: int, plan: Plan, weights: Mapping[str, float], scale: float, models, offers=()
    ):
        """Start a task at its participants, in a random order.

        Where there are offers, everybody may have got something of them.
        """
        sites = list(self.sites if offers else plan.participants())
        self.rng.shuffle(sites)
        for site in sites:
            message = StartTask(
                task=task,
                group=plan.contributors,
                blocks=len(plan.blocks),
                floor=0,
                left_s=60.0,
                weights=dict(weights),
                scale=scale,
                contributes=site in plan.contributors,
                receives=site in plan.receivers,
                offers=dict(offers),
                parts=parts_of(plan, site),
            )
            own = models[site].copy() if message.contributes else None
            self.executors[site].start(message, own, self._keep(site, task, own))
            self.deliver(self.rng.randrange(20))

    def rearrange(self, task: int, plan: Plan, withdrawn: int, block: Block) -> None:
        """One block of a running task is withdrawn, a new one takes over."""
        first = len(plan.blocks)
        added = Plan(plan.contributors, plan.receivers, plan.chunk_count, (block,))
        sites = list({*plan.participants(), *added.participants()})
        self.rng.shuffle(sites)
        for site in sites:
            parts = parts_of(added, site, first)
            message = RearrangeTask(task, first + 1, 0, (withdrawn,), parts)
            self.executors[site].rearrange(message)
            self.deliver(self.rng.randrange(20))

    def give(self, task: int, holder: str, others: list[str]) -> None:
        """A site that has finished sends its result to the others, in a block far beyond."""
        first = 100
        block = Block(((0, self.cut.count),), holder, (), tuple((holder, s) for s in others))
        gift = Plan((holder,), tuple(others), self.cut.count, (block,))
        for site in self.sites:
            parts = tuple(
                replace(each, sources=(), originals=()) if site == holder else each
                for each in parts_of(gift, site, first)
            )
            self.executors[site].rearrange(RearrangeTask(task, first + 1, first, (), parts))
        self.deliver()

    def switch(self, site: str, rates_mbps: Mapping[Directed, float]) -> None:
        """A site hears of paths that are chosen by these rates."""
        pairs = [(site, other) for other in self.sites if other != site]
        found = find_disjoint_paths(pairs, rates_mbps)
        self.executors[site].dispatch.switch([path for paths in found.values() for path in paths])

    def deliver(self, frames: int | None = None) -> Counter[Directed]:
        """Deliver so many frames, or all there are; returns payload bytes by link."""
        moved = Counter()
        while frames is None or frames > 0:
            ready = [link for link in self.links if self.links[link].queue]
            if not ready:
                break
            link = self.rng.choice(ready)
            frame = self.links[link].queue.pop(0)
            stream = frame.header + bytes(frame.payload or b"")
            if frame.chunk:
                frame.sent(0, 0)
                moved[link] += len(frame.payload)
                self.moves.append(link)
                self.inward_bytes += len(frame.payload) * frame.chunk.inward
            self._receive(link, stream)
            frames = frames and frames - 1
        return moved

    def _receive(self, link: Directed, stream: bytes) -> None:
        executor = self.executors[link[1]]
        reader = FrameReader(executor.allocate)
        while stream:
            buffer = reader.buffer()
            count = min(len(buffer), len(stream))
            buffer[:count] = stream[:count]
            stream = stream[count:]
            match reader.advance(count):
                case (header, payload):
                    executor.on_chunk(link[0], header, payload)
                case Delivered() as message:
                    executor.dispatch.on_delivered(message)

    def _keep(self, site: str, task: int, own: np.ndarray | None) -> Callable[[np.ndarray], None]:
        """Each site that has finished changes its model, as soon as it may."""

        def keep(result: np.ndarray) -> None:
            assert (site, task) not in self.results
            self.results[site, task] = result.copy()
            if own is not None:
                own[:] = np.nan

        return keep


def integers(sites, elements, seed):
    rng = np.random.default_rng(seed)
    return {site: rng.integers(-50, 50, elements).astype(np.float32) for site in sites}


def request(fabric, group):
    delays = dict.fromkeys(fabric.rates, 1.0)
    return PlanRequest(
        group,
        fabric.sites,
        fabric.rates,
        delays,
        fabric.cut.count,
        random.Random(1),
        chunk_sizes=fabric.cut.sizes,
    )


def exact(models, weights, scale):
    """The sum in float64, where whole numbers are exact; scaled last, as the aggregator does."""
    total = sum(np.float64(weight) * models[site] for site, weight in weights.items())
    return total.astype(np.float32) * np.float32(scale)
