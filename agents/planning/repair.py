"""The repair of a task's plan when a link or a site is lost (pure).

A block whose trees are direct stars moves to another aggregator (CREW, Section IV-B, (3)). A member
that holds the result can give it to the others. Every other loss needs a new plan.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from trunkline.agents.planning.chunks import Chunking
from trunkline.agents.planning.plan import Block, Directed, Edge, Plan, PlanError, star
from trunkline.agents.planning.plan_rates import PlanRates
from trunkline.agents.planning.routes import routes
from trunkline.topologies.model import find_reachable


@dataclass(slots=True)
class UsableOverlay:
    """The links that can be used: both sites are present, and neither has lost the other.

    Attributes:
        rates: the rates that plans are built from.
        present: the sites that the controller can reach.
        lost: for each site, the neighbours that it has reported as lost.
    """

    rates: PlanRates
    present: set[str] = field(default_factory=set)
    lost: dict[str, frozenset[str]] = field(default_factory=dict)
    _usable: _Usable | None = None

    @property
    def rates_mbps(self) -> Mapping[Directed, float]:
        """The rate of every link of the overlay, usable or not."""
        return self.rates.rates_mbps

    def lost_by(self, site: str) -> frozenset[str]:
        """The neighbours that a site has reported as lost."""
        return self.lost.get(site, frozenset())

    def usable(self, a: str, b: str) -> bool:
        """Whether the link works, in both directions."""
        if b in self.lost_by(a) or a in self.lost_by(b):
            return False
        return {a, b} <= self.present and (a, b) in self.rates_mbps and (b, a) in self.rates_mbps

    def usable_mbps(self) -> Mapping[Directed, float]:
        """The rates of the links that can be used; the same object until one of them changes."""
        rates_mbps, present = self.rates_mbps, self.present
        lost = {(a, b) for a, others in self.lost.items() for b in others}
        lost |= {(b, a) for a, b in lost}
        known = self._usable
        if known is None or (known.of, known.present, known.lost) != (rates_mbps, present, lost):
            usable_mbps = {
                (a, b): rate
                for (a, b), rate in rates_mbps.items()
                if a in present and b in present and (b, a) in rates_mbps and (a, b) not in lost
            }
            known = self._usable = _Usable(rates_mbps, set(present), lost, usable_mbps)
        return known.mbps

    @property
    def whole(self) -> bool:
        """Whether every link of the overlay can be used."""
        return all(self.usable(*link) for link in self.rates_mbps)


@dataclass(frozen=True, slots=True)
class _Usable:
    """The usable links, and what they were found from."""

    of: Mapping[Directed, float]
    present: set[str]
    lost: set[Directed]
    mbps: Mapping[Directed, float]


def reachable_from(site: str, links: Iterable[Directed]) -> set[str]:
    """The site, and every site that it reaches over these links."""
    neighbours = defaultdict[str, list[str]](list)
    for a, b in links:
        neighbours[a].append(b)
    return find_reachable(site, neighbours)


def uses_link(block: Block, a: str, b: str, detours: Iterable[Edge] = ()) -> bool:
    """Whether the block's trees or these auxiliary paths use a link, in either direction."""
    return any(crosses(path, a, b) for path in itertools.chain(_edges(block), detours))


def uses_site(block: Block, site: str, detours: Iterable[Edge] = ()) -> bool:
    """Whether the site aggregates the block, or is on one of its edges or auxiliary paths."""
    paths = itertools.chain(_edges(block), detours)
    return site == block.aggregator or any(site in path for path in paths)


def crosses(path: Edge, a: str, b: str) -> bool:
    """Whether a path uses the link between two sites, in either direction."""
    return any(hop in ((a, b), (b, a)) for hop in itertools.pairwise(path))


def is_star(block: Block) -> bool:
    """Whether both trees are direct stars, so that another aggregator can take the block over."""
    hub = block.aggregator
    return all(len(edge) == 2 and edge[1] == hub for edge in block.in_edges) and all(
        len(edge) == 2 and edge[0] == hub for edge in block.out_edges
    )


def choose_aggregator(
    group: Sequence[str],
    block_bytes: int,
    loads_bytes: Mapping[str, int],
    candidates: Iterable[str],
    overlay: UsableOverlay,
    moved_bytes: Mapping[str, int] = MappingProxyType({}),
) -> str | None:
    """Choose the site that takes over a block; None if no candidate reaches the whole group.

    CREW, (3): argmin over k of max over i in P of (l[i] + x) / min(b[i,k], b[k,i]), where l[i] is
    the volume that i is scheduled to reduce (`loads_bytes`) and x that of the block. The candidate
    itself is left out of the maximum, so (3) does not see its present load. Blocks of the
    same repair that have moved to k (`moved_bytes`) share its links with this one, so they are
    added to x. Ties go to the first candidate.
    """
    best: tuple[float, str] | None = None
    for hub in candidates:
        others = [site for site in group if site != hub]
        if hub not in overlay.present or not all(overlay.usable(site, hub) for site in others):
            continue
        rates, share_bytes = overlay.rates_mbps, block_bytes + moved_bytes.get(hub, 0)
        worst = max(
            (loads_bytes.get(site, 0) + share_bytes) / min(rates[site, hub], rates[hub, site])
            for site in others
        )
        if best is None or worst < best[0]:
            best = worst, hub
    return None if best is None else best[1]


def sum_loads(tasks: Iterable[Mapping[int, Block]], cut: Chunking) -> Counter[str]:
    """The bytes that each site is scheduled to aggregate in all tasks, given by their blocks."""
    loads = Counter[str]()
    for blocks in tasks:
        for block in blocks.values():
            loads[block.aggregator] += cut.size_of(block.chunks)
    return loads


def move_hits(
    plan: Plan,
    blocks: Iterable[Block],
    loads_bytes: Mapping[str, int],
    overlay: UsableOverlay,
    cut: Chunking,
) -> list[Block | None]:
    """Move blocks that one loss hits to other sites; None for a block that no site can take over.

    Each choice counts the moves before it: in the loads, and at the site that took a block over.
    """
    loads, moved = Counter(loads_bytes), Counter[str]()
    found: list[Block | None] = []
    for block in blocks:
        keeps = {block.aggregator, *(edge[1] for edge in block.out_edges)}
        able = [s for s in sorted(overlay.present) if s in keeps or s not in plan.receivers]
        size = cut.size_of(block.chunks)
        hub = choose_aggregator(plan.contributors, size, loads, able, overlay, moved)
        if hub is not None:
            loads[block.aggregator] -= size
            loads[hub] += size
            moved[hub] += size
        found.append(None if hub is None else move_block(plan, block, hub))
    return found


def move_block(plan: Plan, block: Block, hub: str) -> Block:
    """Move a star to another aggregator, with the same chunks and receivers.

    The old aggregator stays a receiver: the new one sends it the result, also where no other site
    receives the block (all-to-all).
    """
    direct = {(a, b): (a, b) for site in plan.contributors for a, b in _both(hub, site)}
    in_edges, _ = star(hub, plan.contributors, direct)
    receivers = {block.aggregator, *(edge[1] for edge in block.out_edges)} & set(plan.receivers)
    out_edges = tuple((hub, site) for site in sorted(receivers) if site != hub)
    return replace(block, aggregator=hub, in_edges=in_edges, out_edges=out_edges)


def replace_blocks(
    blocks: Mapping[int, Block], withdrawn: Collection[int], added: Sequence[Block], first: int
) -> dict[int, Block]:
    """The blocks of a task by number, without those withdrawn, and new ones from number `first`."""
    kept = {number: block for number, block in blocks.items() if number not in withdrawn}
    return kept | dict(enumerate(added, first))


def plan_gift(
    holder: str, receivers: Collection[str], chunk_count: int, overlay: UsableOverlay
) -> Plan:
    """A plan by which the holder of a result sends it to others. Raises PlanError if it cannot."""
    usable = overlay.usable_mbps()
    if holder not in overlay.present:
        raise PlanError(f"{holder} holds the result and cannot be reached")
    found = routes([(holder, site) for site in sorted(receivers)], usable)
    block = Block(((0, chunk_count),), holder, (), tuple(found.values()))
    return Plan((holder,), tuple(sorted(receivers)), chunk_count, (block,))


def _edges(block: Block) -> Iterable[tuple[str, ...]]:
    return itertools.chain(block.in_edges, block.out_edges)


def _both(a: str, b: str) -> tuple[Directed, Directed]:
    return (a, b), (b, a)
