"""The tasks, offers and chunks of the fluid model (pure)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from trunkline.agents.planning.chunks import Chunking, cut_model
from trunkline.agents.planning.disciplines import Flow
from trunkline.agents.planning.plan import Block, Directed, Edge, Plan


@dataclass(frozen=True, slots=True)
class FluidTask:
    """One task in the fluid model: its plan, the sizes that it moves, and the time of its start.

    Attributes:
        tensor_bytes: the sizes of the model's tensors; empty for a model that is one array.
        told_s: when sites hear of the task, in seconds after its start; others hear of it at once.
    """

    plan: Plan
    model_bytes: int
    chunk_bytes: int
    start_s: float = 0.0
    tensor_bytes: tuple[int, ...] = ()
    told_s: Mapping[str, float] = field(default_factory=dict)
    cut: Chunking = field(init=False)

    def __post_init__(self) -> None:
        found = cut_model(self.model_bytes, self.chunk_bytes, self.tensor_bytes)
        object.__setattr__(self, "cut", found)

    def bytes_of(self, chunk: int) -> int:
        """The size of a chunk in bytes."""
        return self.cut.size(chunk)


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
    task: RunningTask | None = None
    revoked: bool = False


@dataclass(slots=True, eq=False)
class RunningTask:
    """A task that has started.

    Attributes:
        missing: how many chunks of the result each receiver lacks.
        kept: the blocks of the chunks, by index and edge, that offers bring where the task wants
            them.
        unready: sites that have not begun to take part.
        chunks: all (chunk, block) pairs in the order in which sites send.
        waiting: how many contributions each sum (block, chunk, site) lacks.
        ready: the chunks that wait at a site until their block is whole, by (block, site, inward).
    """

    job: FluidTask
    trees: list[Trees]
    missing: dict[str, int]
    received: Callable[[str], None]
    arrived: Callable[[str, int], None] | None
    flows: Mapping[bool, Flow]
    offers: Collection[Offer]
    kept: Mapping[tuple[int, Edge], int]
    unready: set[str]
    chunks: Sequence[tuple[int, int]]
    waiting: dict[tuple[int, int, str], int] = field(default_factory=dict)
    ready: dict[tuple[int, str, bool], list[int]] = field(default_factory=dict)

    def own_edges(self, chunk: int, block: int) -> list[Edge]:
        """The edges on which leaves of the in-tree send a chunk when the task starts."""
        edges = self.trees[block].leaf_edges
        return [e for e in edges if (chunk, e) not in self.kept and e[0] not in self.unready]


@dataclass(slots=True, eq=False)
class FluidChunk:
    """A chunk under way, after `hops` hops of its edge.

    A chunk of an offer has no block yet. On an auxiliary path `edge` is that path. A relay sends a
    chunk on with the next one of its block if `more` are to come that it waits for.
    """

    of: RunningTask | Offer
    block: int | None
    number: int
    edge: Edge
    inward: bool
    more: bool = False
    hops: int = 0
    primary: bool = True

    @property
    def link(self) -> Directed:
        """The overlay link that the chunk takes next."""
        return self.edge[self.hops], self.edge[self.hops + 1]

    @property
    def flow(self) -> Flow:
        """The flow of the chunk, for the discipline."""
        return self.of.flow if isinstance(self.of, Offer) else self.of.flows[self.inward]

    @property
    def size_bytes(self) -> int:
        """The size of the chunk."""
        return self.of.job.bytes_of(self.number)


@dataclass(frozen=True, slots=True)
class Trees:
    """A block's trees, by site; `expected` counts the contributions that a site waits for."""

    parent: dict[str, Edge]
    expected: dict[str, int]
    children: dict[str, list[Edge]]
    leaf_edges: list[Edge]

    @classmethod
    def of(cls, block: Block, unready: Collection[str] = ()) -> Trees:
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


def list_chunks(plan: Plan) -> list[tuple[int, int]]:
    """All (chunk, block) pairs in the order in which sites send: by chunk, then by block."""
    return sorted(
        (chunk, number) for number, block in enumerate(plan.blocks) for chunk in block.indexes()
    )


def find_kept(
    plan: Plan, trees: Sequence[Trees], offers: Collection[Offer]
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
