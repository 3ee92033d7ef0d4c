"""A plan: how the bytes of one task move, as a forest of in-trees and out-trees.

One form serves every synchronization system. A plan splits the model's chunks into blocks.
Each block has an aggregator, an in-tree that carries contributions to it (every inner node adds
its own contribution and its children's, then sends one sum on) and an out-tree that carries the
result from it to the receivers.

    ring all-reduce     p blocks whose trees are paths
    parameter server    one block, two stars around the server
    all-to-all          p blocks of the whole model, each delivered to its own aggregator only
    CREW                n blocks, a pair of stars around every site

This module is pure. `check` proves by symbolic execution that a plan is right. `estimate` in
`agents.planning.fluid` predicts its completion time.
"""

from __future__ import annotations

import itertools
import random
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from trunkline.agents.planning.chunks import name_chunks
from trunkline.workloads.layered.model import LayeredModel

Directed = tuple[str, str]
"""A directed link of the overlay: (source site, destination site)."""

Edge = tuple[str, ...]
"""One edge of a tree as the full sequence of sites that the bytes visit.

The first site sends, the last receives; the sites between them only forward (a source route).
"""

Chunks = tuple[tuple[int, int], ...]
"""Chunk indexes as ascending half-open ranges."""


class PlanError(ValueError):
    """A plan cannot be built for this request; the message says why. It may be possible later.

    `sites` are those that the links which can be used do not connect, if that is why.
    """

    def __init__(self, words: str, sites: Iterable[str] = ()) -> None:
        super().__init__(words)
        self.sites = tuple(sites)


class WrongPlanError(PlanError):
    """A plan is wrong, or its builder failed: to try again does not help."""


@dataclass(frozen=True, slots=True)
class Block:
    """A set of chunks that share a route.

    `in_edges` point from child to parent, towards the aggregator; `out_edges` from parent to
    child, away from it. A block that is `whole` is one message: a receiver that computes while the
    model arrives can use its chunks only when all of them have arrived. A site sends the sums and
    results of a block on chunk by chunk or, if the block is not `pipelined`, all at once when it
    has all of them.
    """

    chunks: Chunks
    aggregator: str
    in_edges: tuple[Edge, ...]
    out_edges: tuple[Edge, ...]
    whole: bool = False
    pipelined: bool = True

    @property
    def size(self) -> int:
        """Number of chunks."""
        return sum(stop - start for start, stop in self.chunks)

    def indexes(self) -> Iterable[int]:
        """Every chunk index, ascending."""
        return indexes_of(self.chunks)


@dataclass(frozen=True, slots=True)
class Plan:
    """Every contributor's chunks are summed, and every receiver gets all `chunk_count` sums.

    A member in `shards` holds only these chunks of the model: it contributes and receives no
    others.
    """

    contributors: tuple[str, ...]
    receivers: tuple[str, ...]
    chunk_count: int
    blocks: tuple[Block, ...]
    shards: Mapping[str, Chunks] = field(default_factory=dict)

    def contributors_of(self, block: Block) -> tuple[str, ...]:
        """The contributors that hold the block's chunks."""
        return tuple(site for site in self.contributors if self._holds(site, block))

    def receivers_of(self, block: Block) -> tuple[str, ...]:
        """The receivers that hold the block's chunks."""
        return tuple(site for site in self.receivers if self._holds(site, block))

    def chunks_of(self, site: str) -> Chunks:
        """The chunks that a member holds."""
        return self.shards.get(site, ((0, self.chunk_count),))

    def _holds(self, site: str, block: Block) -> bool:
        first = block.chunks[0][0]
        return any(start <= first < stop for start, stop in self.chunks_of(site))

    def participants(self) -> tuple[str, ...]:
        """Every site that sends, receives, adds or forwards, sorted by name."""
        sites = {*self.contributors, *self.receivers}
        for block in self.blocks:
            sites.add(block.aggregator)
            for edge in (*block.in_edges, *block.out_edges):
                sites.update(edge)
        return tuple(sorted(sites))

    def aggregators(self) -> tuple[str, ...]:
        """The aggregators of all blocks, sorted by name."""
        return tuple(sorted({block.aggregator for block in self.blocks}))

    def to_json(self) -> dict[str, Any]:
        """The plan as plain lists and strings, for messages and event logs."""
        held = {site: [list(span) for span in chunks] for site, chunks in self.shards.items()}
        return {
            "contributors": list(self.contributors),
            "receivers": list(self.receivers),
            "chunk_count": self.chunk_count,
            "blocks": [
                {
                    "chunks": [list(span) for span in block.chunks],
                    "aggregator": block.aggregator,
                    "in": [list(edge) for edge in block.in_edges],
                    "out": [list(edge) for edge in block.out_edges],
                }
                | ({"whole": True} if block.whole else {})
                | ({} if block.pipelined else {"pipelined": False})
                for block in self.blocks
            ],
        } | ({"shards": held} if held else {})

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Plan:
        """The inverse of `to_json`."""
        return cls(
            contributors=tuple(data["contributors"]),
            receivers=tuple(data["receivers"]),
            chunk_count=int(data["chunk_count"]),
            blocks=tuple(
                Block(
                    chunks=tuple((int(start), int(stop)) for start, stop in block["chunks"]),
                    aggregator=block["aggregator"],
                    in_edges=tuple(tuple(edge) for edge in block["in"]),
                    out_edges=tuple(tuple(edge) for edge in block["out"]),
                    whole=bool(block.get("whole", False)),
                    pipelined=bool(block.get("pipelined", True)),
                )
                for block in data["blocks"]
            ),
            shards={
                site: tuple((int(start), int(stop)) for start, stop in chunks)
                for site, chunks in data.get("shards", {}).items()
            },
        )


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """The arguments of a plan builder.

    Attributes:
        group: the sites that contribute and receive.
        sites: all sites that may take part, the group included.
        rates_mbps: the rate of each directed link of the overlay.
        delays_ms: the one-way delay of each directed link of the overlay.
        chunk_count: the number of chunks of the model.
        rng: the only source of randomness.
        first_mbps: the rates that were known when the run began; None if they are `rates_mbps`.
            They decide what must not change from task to task, such as the roots of trees.
        chunk_sizes: the size of each chunk in bytes; None if all are alike.
        shards: the chunks that each server of the group holds; empty if there is none.
        paths: with routers, the links of the underlay below each link of the overlay, which
            overlay links share.
        link_mbps: the rate of each link of the underlay.
        racks: the rack of each site that is in one.
        layers: the model as bases with branches, for a workload that computes them as they arrive;
            each branch is a tensor, in this order.
    """

    group: tuple[str, ...]
    sites: tuple[str, ...]
    rates_mbps: Mapping[Directed, float]
    delays_ms: Mapping[Directed, float]
    chunk_count: int
    rng: random.Random
    first_mbps: Mapping[Directed, float] | None = None
    chunk_sizes: tuple[int, ...] | None = None
    shards: Mapping[str, Chunks] = field(default_factory=dict)
    paths: Mapping[Directed, Sequence[Directed]] = field(default_factory=dict)
    link_mbps: Mapping[Directed, float] = field(default_factory=dict)
    racks: Mapping[str, str] = field(default_factory=dict)
    layers: LayeredModel | None = None

    def split(self, shares: Mapping[str, float]) -> dict[str, Chunks]:
        """Share the request's chunks among sites; see the function `split`."""
        return split(shares, self.chunk_count, self.chunk_sizes)

    @property
    def lasting_mbps(self) -> Mapping[Directed, float]:
        """The rates that decide what must not change from task to task."""
        return self.rates_mbps if self.first_mbps is None else self.first_mbps


class PlanBuilder(Protocol):
    """A plan file's `build`: the request, then its options as keyword arguments."""

    def __call__(self, request: PlanRequest, /, **options: Any) -> Plan: ...


def send_on_whole(build: Callable[[PlanRequest], Plan]) -> Callable[[PlanRequest], Plan]:
    """Wrap a builder, so that no block of its plans is pipelined."""

    def build_whole(request: PlanRequest) -> Plan:
        plan = build(request)
        blocks = tuple(replace(block, pipelined=False) for block in plan.blocks)
        return replace(plan, blocks=blocks)

    return build_whole


def check(plan: Plan, links: Collection[Directed]) -> None:
    """Prove by symbolic execution that a plan is right.

    Every receiver must get every chunk that it holds exactly once, and each chunk must have the
    contribution of each contributor that holds it exactly once. Every hop must be one of the
    `links`.

    Raises:
        PlanError: the plan uses a link that is not there.
        WrongPlanError: the plan is wrong; the message names the first violation.
    """
    if not plan.contributors or not plan.receivers:
        raise WrongPlanError("a plan needs at least one contributor and one receiver")
    delivered: dict[str, Counter[int]] = {site: Counter() for site in plan.receivers}
    for number, block in enumerate(plan.blocks):
        where = f"block {number} at {block.aggregator}"
        _check_chunks(block, plan.chunk_count, where)
        _check_hops(block, links, where)
        _check_shards(block, plan.shards, where)
        _check_sum(block, plan.contributors_of(block), where)
        for site in _find_reached(block, where).intersection(plan.receivers_of(block)):
            delivered[site].update(block.indexes())
    for site, got in delivered.items():
        everything = Counter(indexes_of(plan.chunks_of(site)))
        if got != everything:
            missing, repeated = everything - got, got - everything
            found = [f"misses chunks {name_chunks(missing)}"] if missing else []
            found += [f"gets chunks {name_chunks(repeated)} more than once"] if repeated else []
            raise WrongPlanError(f"{site} {' and '.join(found)}")


def split(
    shares: Mapping[str, float], chunk_count: int, sizes: Sequence[int] | None = None
) -> dict[str, Chunks]:
    """Share the chunks among sites, one contiguous block for each (CREW, Algorithm 1).

    Args:
        shares: the share of each site, in any positive scale.
        chunk_count: the number of chunks.
        sizes: the size of each chunk, if they differ. Chunks are then shared by size.

    Returns:
        The chunks of each site. Sites whose block would be empty are left out. Bounds between
        blocks are rounded to the nearest chunk, so every chunk is in exactly one block.
    """
    total = sum(shares.values())
    ends: Sequence[int] = range(chunk_count + 1)
    if sizes is not None:
        ends = (0, *itertools.accumulate(sizes))
    blocks: dict[str, Chunks] = {}
    cumulated, lower = 0.0, 0
    for site, share in shares.items():
        cumulated += share
        upper = _find_nearest(ends, cumulated / total * ends[-1])
        if upper > lower:
            blocks[site] = ((lower, upper),)
            lower = upper
    return blocks


def _find_nearest(ascending: Sequence[int], value: float) -> int:
    """The index of the element nearest to the value; of two, the even index, like `round`."""
    above = min(bisect_left(ascending, value), len(ascending) - 1)
    below = max(above - 1, 0)
    down, up = value - ascending[below], ascending[above] - value
    return above if up < down or (up == down and above % 2 == 0) else below


def star(
    hub: str, members: Sequence[str], routes: Mapping[Directed, Edge]
) -> tuple[tuple[Edge, ...], tuple[Edge, ...]]:
    """The in-edges and the out-edges of a star around a hub, along the given routes."""
    others = [site for site in members if site != hub]
    return (
        tuple(routes[site, hub] for site in others),
        tuple(routes[hub, site] for site in others),
    )


def _check_chunks(block: Block, chunk_count: int, where: str) -> None:
    last = 0
    for start, stop in block.chunks:
        if not last <= start < stop <= chunk_count:
            raise WrongPlanError(
                f"{where}: chunk range {start}..{stop} is out of order or of bounds"
            )
        last = stop
    if not block.chunks:
        raise WrongPlanError(f"{where}: has no chunks")


def _check_shards(block: Block, shards: Mapping[str, Chunks], where: str) -> None:
    chunks = set(block.indexes())
    for site, held in shards.items():
        common = chunks.intersection(indexes_of(held))
        if common and common != chunks:
            raise WrongPlanError(f"{where}: {site} holds {len(common)} of its {len(chunks)} chunks")


def indexes_of(chunks: Chunks) -> Iterator[int]:
    """All chunk indexes in these ranges, ascending."""
    return itertools.chain.from_iterable(itertools.starmap(range, chunks))


def _check_hops(block: Block, links: Collection[Directed], where: str) -> None:
    for edge in (*block.in_edges, *block.out_edges):
        if len(edge) < 2 or len(set(edge)) != len(edge):
            raise WrongPlanError(f"{where}: edge {' -> '.join(edge)} is not a simple path")
        for hop in itertools.pairwise(edge):
            if hop not in links:
                raise PlanError(f"{where}: there is no link {hop[0]} -> {hop[1]}", hop)


def _check_sum(block: Block, contributors: Sequence[str], where: str) -> None:
    """Walk the in-tree from its leaves: the aggregator must hold every contributor once."""
    parent: dict[str, str] = {}
    for edge in block.in_edges:
        if edge[0] in parent or edge[0] == block.aggregator:
            raise WrongPlanError(f"{where}: {edge[0]} has two parents in the in-tree")
        parent[edge[0]] = edge[-1]
    nodes = {block.aggregator, *parent, *parent.values()}
    waiting = Counter(parent.values())
    held = {site: Counter([site] if site in contributors else []) for site in nodes}
    settled = [site for site in nodes if not waiting[site]]
    done = 0
    while settled:
        site = settled.pop()
        done += 1
        if not held[site]:
            raise WrongPlanError(f"{where}: {site} is in the in-tree and has nothing to send")
        if site in parent:
            held[parent[site]].update(held[site])
            waiting[parent[site]] -= 1
            if not waiting[parent[site]]:
                settled.append(parent[site])
    if done != len(nodes):
        raise WrongPlanError(f"{where}: the in-tree has a cycle")
    if held[block.aggregator] != Counter(contributors):
        raise WrongPlanError(f"{where}: {_describe_sum(held[block.aggregator], contributors)}")


def _describe_sum(held: Collection[str], contributors: Collection[str]) -> str:
    """Which sites a sum of these sites lacks, and which it has without need."""
    parts = {"lacks": set(contributors) - set(held), "must not have": set(held) - set(contributors)}
    words = (f"{part} {', '.join(sorted(sites))}" for part, sites in parts.items() if sites)
    return f"its sum {'; '.join(words)}"


def _find_reached(block: Block, where: str) -> set[str]:
    """The sites that the out-tree reaches. Raises WrongPlanError if it is not a tree."""
    children: dict[str, list[str]] = {}
    seen = Counter([block.aggregator])
    for edge in block.out_edges:
        children.setdefault(edge[0], []).append(edge[-1])
        seen[edge[-1]] += 1
    twice = sorted(site for site, times in seen.items() if times > 1)
    if twice:
        raise WrongPlanError(f"{where}: the out-tree reaches {', '.join(twice)} twice")
    reached, frontier = {block.aggregator}, [block.aggregator]
    while frontier:
        for child in children.get(frontier.pop(), []):
            reached.add(child)
            frontier.append(child)
    lost = sorted(seen.keys() - reached)
    if lost:
        raise WrongPlanError(
            f"{where}: the out-tree does not reach {', '.join(lost)} from its root"
        )
    return reached
