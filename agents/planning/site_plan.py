"""One site's part of a plan: what its executor adds, sends on and keeps (pure)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, TypeAlias

from pydantic import Field

from trunkline.agents.planning.plan import Block, Chunks, Edge, Plan, indexes_of

Order: TypeAlias = "tuple[str | Order, ...]"
"""The order of a sum: contributors are added from left to right; a nested tuple is summed first."""


@dataclass(frozen=True, slots=True)
class BlockPart:
    """What one site does for one block.

    Attributes:
        sources: the sites whose chunks are added, in this order. The order of arrival plays no
            part, so that a sum of floats does not depend on timing. A site that contributes is one
            of its own sources.
        originals: the sources that send their own contribution unweighted; this site weights it.
        parent: the edge that the sum takes; None at the aggregator, which scales the sum.
        outs: the edges that the result takes from here.
        receives: whether the site keeps the result.
        whole: whether the block is one message (`Block`).
        pipelined: whether sums and results are sent on chunk by chunk (`Block`).
    """

    block: int
    chunks: Chunks
    sources: tuple[str, ...]
    originals: tuple[str, ...]
    parent: Edge | None
    outs: tuple[Edge, ...]
    receives: bool
    whole: Annotated[bool, Field(exclude_if=lambda value: not value)] = False
    pipelined: Annotated[bool, Field(exclude_if=bool)] = True

    @property
    def size(self) -> int:
        """Number of chunks."""
        return sum(stop - start for start, stop in self.chunks)

    def indexes(self) -> Iterable[int]:
        """Every chunk index, ascending."""
        return indexes_of(self.chunks)


def parts_of(plan: Plan, site: str, first: int = 0) -> tuple[BlockPart, ...]:
    """The site's part of each block in which it sends, adds or receives.

    Blocks are numbered from `first`. A site that only forwards has no part.
    """
    parts = (
        _block_part(plan, number, block, site) for number, block in enumerate(plan.blocks, first)
    )
    return tuple(found for found in parts if found is not None)


def summation_order(plan: Plan, block: Block) -> Order:
    """The order in which the executors of all sites together add up a block's sum.

    It is what recomputing the float32 result bit by bit takes.
    """

    def at(site: str) -> Order:
        found = _block_part(plan, 0, block, site)
        assert found is not None
        summed = {*found.originals, site}
        return tuple(name if name in summed else at(name) for name in found.sources)

    return at(block.aggregator)


def _block_part(plan: Plan, number: int, block: Block, site: str) -> BlockPart | None:
    parents = [edge for edge in block.in_edges if edge[0] == site]
    children = [edge[0] for edge in block.in_edges if edge[-1] == site]
    inner = {edge[-1] for edge in block.in_edges}
    outs = tuple(edge for edge in block.out_edges if edge[0] == site)
    aggregates = site == block.aggregator
    reached = aggregates or any(edge[-1] == site for edge in block.out_edges)
    if not (parents or children or reached):
        return None
    adds = bool(parents) or aggregates
    own = [site] if adds and site in plan.contributors_of(block) else []
    return BlockPart(
        block=number,
        chunks=block.chunks,
        sources=tuple(sorted([*children, *own])),
        originals=tuple(sorted([child for child in children if child not in inner] + own)),
        parent=parents[0] if parents else None,
        outs=outs,
        receives=reached and site in plan.receivers_of(block),
        whole=block.whole,
        pipelined=block.pipelined,
    )
