"""One site's part of a plan: what its executor has to add, send on and keep (pure)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from trunkline.agents.planning.plan import Block, Chunks, Edge, Plan

Order: TypeAlias = "tuple[str | Order, ...]"
"""How a sum is formed: contributors from left to right, a nested sum being formed by itself."""


@dataclass(frozen=True, slots=True)
class BlockPart:
    """What one site does for one block.

    `sources` are added in this order, whatever order they arrive in, so that a sum of floats does
    not depend on timing; the site itself is among them if it contributes. `originals` are those
    sources that send their own contribution unweighted: this site applies the weight. The sum
    goes to `parent`, or, if there is none, this site is the aggregator: it scales the sum, which
    then goes out along `outs`.
    """

    block: int
    chunks: Chunks
    sources: tuple[str, ...]
    originals: tuple[str, ...]
    parent: Edge | None
    outs: tuple[Edge, ...]
    receives: bool

    def indexes(self) -> Iterable[int]:
        """Every chunk index, ascending."""
        for start, stop in self.chunks:
            yield from range(start, stop)


def parts_of(plan: Plan, site: str, first: int = 0) -> tuple[BlockPart, ...]:
    """Every block in which `site` sends, adds or receives; empty for one that only forwards.

    The plan's blocks are numbered from `first`.
    """
    parts = (
        _block_part(plan, number, block, site) for number, block in enumerate(plan.blocks, first)
    )
    return tuple(found for found in parts if found is not None)


def summation_order(plan: Plan, block: Block) -> Order:
    """In which order the executors of all sites together form a block's sum.

    With it the float32 result of any weights can be recomputed to the bit.
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
    own = [site] if adds and site in plan.contributors else []
    return BlockPart(
        block=number,
        chunks=block.chunks,
        sources=tuple(sorted([*children, *own])),
        originals=tuple(sorted([child for child in children if child not in inner] + own)),
        parent=parents[0] if parents else None,
        outs=outs,
        receives=reached and site in plan.receivers,
    )
