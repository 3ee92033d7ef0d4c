"""Plans of tasks whose contributors and receivers differ, and models in shards (pure).

Builders plan for a group that contributes and receives as a whole. Here such a plan loses the
edges that carry no contribution, or no result to a receiver. So every plan carries pushes, pulls
and multicasts, also with several servers, each of which holds a shard of the model.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from trunkline.agents.planning.chunks import Chunking
from trunkline.agents.planning.plan import Block, Chunks, Edge, Plan, PlanError, split


def share_model(servers: Sequence[str], cut: Chunking) -> dict[str, Chunks]:
    """Share a model's chunks evenly among servers, by size. Raises ValueError if one gets none."""
    if not servers:  # every plan of every task asks
        return {}
    shards = split(dict.fromkeys(servers, 1.0), cut.count, cut.sizes)
    if len(shards) < len(servers):
        without = ", ".join(sorted(set(servers) - shards.keys()))
        raise ValueError(f"{without}: no chunk is left; the model has {cut.count}")
    return shards


def restrict(
    plan: Plan,
    contributors: Collection[str],
    receivers: Collection[str],
    shards: Mapping[str, Chunks],
) -> Plan:
    """Restrict a plan for a group to those that contribute and receive.

    Args:
        plan: a valid plan in which the whole group contributes and receives.
        contributors: those of its members that contribute, in their order.
        receivers: those that receive.
        shards: for members that hold only a part of the model, their chunks.

    Raises:
        PlanError: some chunks have no contributor, or no receiver.
    """
    held = {site: shards[site] for site in plan.contributors if site in shards}
    bare = Plan(tuple(contributors), tuple(receivers), plan.chunk_count, (), held)
    pieces = [piece for block in plan.blocks for piece in _cut(block, held)]
    blocks = [restricted for piece in pieces if (restricted := _restrict(bare, piece))]
    if not blocks:
        raise PlanError("no chunk has both a contributor and a receiver")
    return replace(bare, blocks=tuple(blocks))


def _cut(block: Block, shards: Mapping[str, Chunks]) -> list[Block]:
    """Cut a block where shards begin or end."""
    bounds = {bound for chunks in shards.values() for span in chunks for bound in span}
    holders: dict[tuple[str, ...], list[tuple[int, int]]] = {}
    for start, stop in block.chunks:
        ends = [start, *sorted(each for each in bounds if start < each < stop), stop]
        for low, high in itertools.pairwise(ends):
            sites = (site for site, spans in shards.items() if any(a <= low < b for a, b in spans))
            holders.setdefault(tuple(sites), []).append((low, high))
    return [replace(block, chunks=tuple(chunks)) for chunks in holders.values()]


def _restrict(plan: Plan, block: Block) -> Block | None:
    """The block without the edges that carry nothing; None if it then carries nothing at all."""
    contributors, receivers = plan.contributors_of(block), plan.receivers_of(block)
    if not contributors:
        raise PlanError(f"no member contributes the chunks {block.chunks}")
    in_edges = _prune(block.in_edges, 0, contributors)
    out_edges = _prune(block.out_edges, -1, receivers)
    if not out_edges and block.aggregator not in receivers:
        return None
    return replace(block, in_edges=in_edges, out_edges=out_edges)


def _prune(edges: Sequence[Edge], outer: int, wanted: Collection[str]) -> tuple[Edge, ...]:
    """Remove the leaves of a tree that are not wanted.

    `outer` is the index of an edge's end that is farther from the root, 0 or -1.
    """
    kept, root = list(edges), -1 - outer
    while True:
        inner = {edge[root] for edge in kept}
        left = [edge for edge in kept if edge[outer] in wanted or edge[outer] in inner]
        if len(left) == len(kept):
            return tuple(kept)
        kept = left
