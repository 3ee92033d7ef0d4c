"""A new split that moves as few chunks as it can from an old one (CREW's paper, Algorithm 2; pure).

With a non-blocking scatter, chunks are under way by a default split before the task's own split is
known. Algorithm 1 would move most of them to other blocks. Algorithm 2 moves as few as the new
sizes allow, and from each block those that are the least likely to be under way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from trunkline.agents.planning.plan import Chunks, Plan, PlanError


def rearrange(current: Mapping[str, Chunks], sizes: Mapping[str, int]) -> dict[str, Chunks]:
    """Change the sizes of blocks and move as few chunks as possible.

    A block that is too large gives up its largest indexes, because chunks are sent in ascending
    order. A block that is too small takes the smallest of those. Takes O(r log r) for r ranges.

    Args:
        current: the chunks of each site's block.
        sizes: the new number of chunks of each site; a site without a size keeps nothing.

    Raises:
        ValueError: the sizes do not add up to the number of chunks.
    """
    total = sum(map(_size, current.values()))
    if sum(sizes.values()) != total:
        raise ValueError(f"sizes: {sum(sizes.values())} in all: expected {total}")
    kept: dict[str, Chunks] = {}
    moving: list[tuple[int, int]] = []
    for site, chunks in current.items():
        kept[site], surplus = _cut(chunks, sizes.get(site, 0))
        moving += surplus
    pool: Chunks = tuple(sorted(moving))
    blocks: dict[str, Chunks] = {}
    for site, size in sizes.items():
        have = kept.get(site, ())
        taken, pool = _cut(pool, size - _size(have))
        blocks[site] = _merge((*have, *taken))
    return blocks


def keep_split(default: Plan, fresh: Plan) -> Plan:
    """The fresh plan, with the chunks of its blocks rearranged from the default plan's blocks.

    Raises:
        PlanError: a plan has several blocks at one aggregator, or a chunk in several blocks.
    """
    for plan in (default, fresh):
        apart = sum(block.size for block in plan.blocks) == plan.chunk_count
        if not apart or len(plan.aggregators()) != len(plan.blocks):
            raise PlanError("only plans with one block per aggregator can be rearranged")
    current = {block.aggregator: block.chunks for block in default.blocks}
    chunks = rearrange(current, {block.aggregator: block.size for block in fresh.blocks})
    blocks = (replace(block, chunks=chunks[block.aggregator]) for block in fresh.blocks)
    return replace(fresh, blocks=tuple(blocks))


def _size(chunks: Chunks) -> int:
    return sum(stop - start for start, stop in chunks)


def _cut(chunks: Chunks, size: int) -> tuple[Chunks, Chunks]:
    """Cut ascending ranges into the `size` smallest indexes and the others."""
    low: list[tuple[int, int]] = []
    high: list[tuple[int, int]] = []
    for start, stop in chunks:
        middle = min(stop, start + max(0, size))
        size -= middle - start
        low += [(start, middle)] if start < middle else []
        high += [(middle, stop)] if middle < stop else []
    return tuple(low), tuple(high)


def _merge(ranges: Iterable[tuple[int, int]]) -> Chunks:
    merged: list[tuple[int, int]] = []
    for start, stop in sorted(ranges):
        if merged and merged[-1][1] == start:
            merged[-1] = (merged[-1][0], stop)
        else:
            merged.append((start, stop))
    return tuple(merged)
