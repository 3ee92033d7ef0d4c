"""Sites, routers, directed links, and the overlay of the sites (pure).

Every `Topology` object is valid: names are unique, every link has its reverse, every site can be
reached from every other site, and every number is possible. Later code does not check this again.

Without routers, the links are the overlay: each site has a connection to each of its neighbours.
With routers or `pairs`, the links are an *underlay*. An overlay link is then the path of two sites
through it, so overlay links share the underlay's links (`Topology.overlay`).
"""

from __future__ import annotations

import heapq
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations, pairwise, permutations
from typing import Any

from trunkline.topologies.links import (
    MAX_JITTER_MS,
    Link,
    LinkOverride,
    TopologyError,
    check_all_values,
    compute_queue_bytes,
    list_choices,
)

MAX_SITES = 10_000

MAX_LINKS = 50_000
"""The most directed links, a full mesh of 224 sites: `resolved.yaml` has them, and its length is
limited. The largest mesh that was measured has 200 sites (docs/scale.md)."""

MOST_LINKS = f"{MAX_LINKS} or fewer, a full mesh of 224 sites"
"""What is allowed, in words."""

RESERVED_NAMES = ("controller", "backup", "runner")
"""The names by which events call processes that are not sites."""

_SITE_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,31}")
_READ_AS_VALUE = re.compile(r"[0-9]+(e-?[0-9]+)?|nan|null|none|inf|infinity|true|false")
"""Names that a program which reads a table takes for a number, a truth value or a missing one."""


@dataclass(frozen=True, slots=True)
class Site:
    """A data centre, or a machine of a `rack`; empty if it is in none.

    `region` is its measured cloud region (`aws:us-east-1`), empty if none.
    """

    name: str
    region: str = ""
    rack: str = ""


@dataclass(frozen=True, slots=True)
class Topology:
    """A strongly connected network of directed links between sites and routers.

    Attributes:
        name: of the builder.
        sites: the nodes with agents. A site's rank is its index.
        links: between any two nodes.
        routers: the nodes without agents, which forward packets. Their ranks follow the sites'.
        pairs: the pairs of sites that the overlay connects; if empty, those with a link, and with
            routers all.
        places: (node, latitude, longitude) in degrees of nodes whose coordinates are known.
        notes: what its user should know about how a file was read, a sentence each.
        origins: where values of links come from, if a file was read: (src, dst) -> field -> text.
    """

    name: str
    sites: tuple[Site, ...]
    links: tuple[Link, ...]
    routers: tuple[str, ...] = ()
    pairs: tuple[tuple[str, str], ...] = ()
    places: tuple[tuple[str, float, float], ...] = ()
    notes: tuple[str, ...] = field(default=(), compare=False)
    origins: Mapping[tuple[str, str], Mapping[str, str]] = field(
        default_factory=dict, compare=False, repr=False
    )
    _site_names: tuple[str, ...] = field(init=False, repr=False, compare=False)
    _ranks: dict[str, int] = field(init=False, repr=False, compare=False)
    _links: dict[tuple[str, str], Link] = field(init=False, repr=False, compare=False)
    _neighbours: dict[str, tuple[str, ...]] = field(init=False, repr=False, compare=False)
    _trees: dict[str, tuple[dict[str, str], frozenset[str]]] = field(
        init=False, repr=False, compare=False
    )
    _overlay: list[Topology] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _check_sites(self.sites)
        _check_routers(self.routers, self.sites)
        site_names = tuple(site.name for site in self.sites)
        names = (*site_names, *self.routers)
        _check_links(names, self.links)
        ranks = {name: rank for rank, name in enumerate(names)}
        outgoing: dict[str, list[str]] = {name: [] for name in ranks}
        for link in self.links:
            outgoing[link.src].append(link.dst)
        neighbours = {
            name: tuple(sorted(ends, key=ranks.__getitem__)) for name, ends in outgoing.items()
        }
        object.__setattr__(self, "_site_names", site_names)
        object.__setattr__(self, "_ranks", ranks)
        object.__setattr__(self, "_links", {(link.src, link.dst): link for link in self.links})
        object.__setattr__(self, "_neighbours", neighbours)
        object.__setattr__(self, "_trees", {})
        object.__setattr__(self, "_overlay", [])
        _check_connected(neighbours)
        self._check_pairs()
        if self.routers and not self.pairs:
            self._check_reach()

    @property
    def site_names(self) -> tuple[str, ...]:
        """The names of the sites in rank order."""
        return self._site_names

    @property
    def node_names(self) -> tuple[str, ...]:
        """The names of the sites and then of the routers, in rank order."""
        return tuple(self._ranks)

    @property
    def is_underlay(self) -> bool:
        """Whether connections of sites are paths, which may share links."""
        return bool(self.routers or self.pairs)

    @property
    def overlay(self) -> Topology:
        """The links between sites as agents see them. It is this topology, unless an underlay.

        A link of the overlay has the smallest rate of its path, the sum of the delays and jitters,
        and the loss of all of its links together. Its queue is that of the slowest.
        """
        if not self.is_underlay:
            return self
        if not self._overlay:
            pairs = self.pairs or tuple(combinations(self.site_names, 2))
            ends = [end for a, b in pairs for end in ((a, b), (b, a))]
            links = tuple(self._along(src, dst) for src, dst in ends)
            self._overlay.append(Topology(self.name, self.sites, links))
        return self._overlay[0]

    def rank(self, name: str) -> int:
        """The index of a node in `node_names`. Raises TopologyError if there is no such node."""
        if name not in self._ranks:
            raise TopologyError(f"site {name!r}: {list_choices(self._ranks, name)}")
        return self._ranks[name]

    def link(self, src: str, dst: str) -> Link:
        """The link src -> dst. Raises TopologyError if it does not exist."""
        self.rank(src), self.rank(dst)
        if (src, dst) not in self._links:
            ends = ", ".join(self._neighbours[src])
            raise TopologyError(f"link {src} -> {dst}: does not exist; {src} has links to {ends}")
        return self._links[src, dst]

    def neighbours(self, name: str) -> tuple[str, ...]:
        """The nodes with links to and from the node `name`, in rank order."""
        self.rank(name)
        return self._neighbours[name]

    def has_link(self, src: str, dst: str) -> bool:
        """Whether there is a link src -> dst."""
        return (src, dst) in self._links

    def is_overlay_link(self, src: str, dst: str) -> bool:
        """Whether the overlay connects two sites."""
        return self.is_site(src) and self.is_site(dst) and self.overlay.has_link(src, dst)

    def is_site(self, name: str) -> bool:
        """Whether a node of this name is a site."""
        return self._ranks.get(name, len(self.sites)) < len(self.sites)

    def rates_mbps(self) -> dict[tuple[str, str], float]:
        """The rate in Mbit/s of each link, by (src, dst)."""
        return {(link.src, link.dst): link.rate_mbps for link in self.links}

    def overlay_paths(self) -> dict[tuple[str, str], tuple[tuple[str, str], ...]] | None:
        """The links of each overlay link, by (src, dst); None if overlay links share nothing."""
        if not self.is_underlay:
            return None
        ends = ((link.src, link.dst) for link in self.overlay.links)
        return {(src, dst): tuple(pairwise(self.path(src, dst))) for src, dst in ends}

    def delays_ms(self) -> dict[tuple[str, str], float]:
        """The one-way delay in ms of each link, by (src, dst)."""
        return {(link.src, link.dst): link.delay_ms for link in self.links}

    def next_hops(self, src: str) -> dict[str, str]:
        """The routing table of `src`: for every other node, the neighbour that its packets go to.

        A direct link always wins. Otherwise the path has the smallest total delay, then the fewest
        hops, then the next hop of lowest rank. Packets never loop: each hop either reaches the
        destination or strictly lowers (delay, hops) to it. Where there are routers, paths cross as
        few other sites as possible: none, if routers alone can lead there.
        """
        self.rank(src)
        return {dst: self._find_hop(src, dst) for dst in self._ranks if dst != src}

    def next_hop(self, src: str, dst: str) -> str:
        """The neighbour of `src` to which its packets for another node `dst` go."""
        self.rank(src), self.rank(dst)
        return self._find_hop(src, dst)

    def path(self, src: str, dst: str) -> tuple[str, ...]:
        """The nodes from `src` to `dst`, both included, along the `next_hops`."""
        if (src, dst) in self._links:
            return src, dst
        self.rank(src), self.rank(dst)
        nodes = [src]
        while nodes[-1] != dst:
            nodes.append(self._find_hop(nodes[-1], dst))
        return tuple(nodes)

    def path_delay_ms(self, src: str, dst: str) -> float:
        """The one-way delay in ms of the path from `src` to `dst`."""
        return sum(self._links[hop].delay_ms for hop in pairwise(self.path(src, dst)))

    def queue_bytes(self, link: Link) -> int:
        """The bottleneck queue of a link: its own value, or one bandwidth-delay product.

        The delay of the product is the round trip over the link and its reverse, but at least 1 ms.
        The result is at least 64 KiB, and at most what drains in MAX_QUEUE_S.
        """
        if link.queue_bytes is not None:
            return link.queue_bytes
        round_trip_ms = link.delay_ms + self.link(link.dst, link.src).delay_ms
        return compute_queue_bytes(link.rate_mbps, round_trip_ms)

    def with_overrides(self, overrides: Iterable[LinkOverride]) -> Topology:
        """A copy with the values of some links replaced; later overrides win.

        Raises:
            TopologyError: the link of an override does not exist, or a value is impossible.
        """
        links, origins = dict(self._links), dict(self.origins)
        for override in overrides:
            values = override.values()
            for ends in override.ends():
                self.link(*ends)
                links[ends] = replace(links[ends], **values)
                if ends in origins:
                    origins[ends] = {**origins[ends], **dict.fromkeys(values, "overrides")}
        return replace(self, links=tuple(links.values()), origins=origins)

    def _find_hop(self, src: str, dst: str) -> str:
        if (src, dst) in self._links:
            return dst
        near = self._neighbours[src]
        return near[0] if len(near) == 1 else self._tree(dst)[0][src]

    def _tree(self, dst: str) -> tuple[dict[str, str], frozenset[str]]:
        if dst not in self._trees:
            self._trees[dst] = self._tree_towards(dst)
        return self._trees[dst]

    def _along(self, src: str, dst: str) -> Link:
        """The overlay link src -> dst."""
        links = [self._links[hop] for hop in pairwise(self.path(src, dst))]
        slowest = min(links, key=lambda link: link.rate_mbps)
        names = ("loss_percent", "reorder_percent", "duplicate_percent", "corrupt_percent")
        shares: dict[str, Any] = {
            name: _join_shares(getattr(link, name) for link in links) for name in names
        }
        return Link(
            src,
            dst,
            slowest.rate_mbps,
            math.fsum(link.delay_ms for link in links),
            min(MAX_JITTER_MS, math.fsum(link.jitter_ms for link in links)),
            queue_bytes=self.queue_bytes(slowest),
            **shares,
        )

    def _check_pairs(self) -> None:
        seen: set[frozenset[str]] = set()
        for pair in self.pairs:
            for end in pair:
                if self.rank(end) >= len(self.sites):
                    allowed = list_choices(self.site_names, end)
                    raise TopologyError(f"pair {end!r}: {allowed}", key="pairs")
            if len(set(pair)) < 2:
                raise TopologyError(f"pair {' - '.join(pair)}: expected two sites", key="pairs")
            if frozenset(pair) in seen:
                raise TopologyError(f"pair {' - '.join(pair)}: given twice", key="pairs")
            seen.add(frozenset(pair))
        if self.pairs:
            joined: dict[str, tuple[str, ...]] = dict.fromkeys(self.site_names, ())
            for a, b in self.pairs:
                joined[a] += (b,)
                joined[b] += (a,)
            _check_connected(joined, "pairs")

    def _check_reach(self) -> None:
        """Without `pairs`, all sites must reach each other through routers, or over a direct link.

        Otherwise a site would carry a connection of others, which no one asked for.
        """
        connections = len(self.sites) * (len(self.sites) - 1)
        if connections > MAX_LINKS:
            what = f"{len(self.sites)} sites, each with a connection to each other one"
            remedy = f"expected {MOST_LINKS}, or a hub: or pairs: of sites"
            raise TopologyError(f"sites: {what}: {remedy}", key="sites")
        for src, dst in permutations(self.site_names, 2):
            if (src, dst) not in self._links and self._crosses_site(src, dst):
                what = f"{dst} cannot be reached from {src} through routers"
                some = "pairs: [[a, b], ...] with the sites that have a connection"
                remedy = f"add links of routers, or give {some}"
                raise TopologyError(f"links: {what}: {remedy}", key="links")

    def _crosses_site(self, src: str, dst: str) -> bool:
        """Whether the path between two nodes without a link crosses a site."""
        crossing = self._tree(dst)[1]
        if len(self._neighbours[src]) > 1:
            return src in crossing
        (near,) = self._neighbours[src]
        return self.is_site(near) or near in crossing

    def _tree_towards(self, dst: str) -> tuple[dict[str, str], frozenset[str]]:
        """The next hop of each node on its best path to `dst` (Dijkstra, against the links).

        Nodes with a single neighbour are left out: nothing else goes through them, so that the tree
        of a star is small.

        The search starts at the destination, so the cost of a node is exactly that of its next hop
        plus the delay of its link, also after rounding. Costs then fall along every path. With
        routers, the number of sites that forward comes before the delay. The second value has the
        nodes whose path crosses a site.
        """
        settled: set[str] = set()
        costs: dict[str, tuple[int, float, int, int]] = {dst: (0, 0.0, 0, -1)}
        queue = [(0, 0.0, 0, self._ranks[dst], dst)]
        following: dict[str, str] = {}
        while queue:
            sites, delay_ms, hops, _, near = heapq.heappop(queue)
            if near in settled:
                continue
            settled.add(near)
            if self.routers and near != dst and self._ranks[near] < len(self.sites):
                sites += 1
            for far in self._neighbours[near]:
                if len(self._neighbours[far]) == 1:
                    continue
                total_ms = delay_ms + self._links[far, near].delay_ms
                cost = (sites, total_ms, hops + 1, self._ranks[near])
                if far not in settled and (far not in costs or cost < costs[far]):
                    costs[far], following[far] = cost, near
                    heapq.heappush(queue, (sites, total_ms, hops + 1, self._ranks[far], far))
        return following, frozenset(name for name, cost in costs.items() if cost[0])


def _check_sites(sites: tuple[Site, ...]) -> None:
    if len(sites) < 2:
        raise TopologyError(f"sites: {len(sites)}: expected 2 or more", key="sites")
    seen: set[str] = set()
    for site in sites:
        check_site_name(site.name)
        if site.name in seen:
            raise TopologyError(f"site {site.name!r}: named twice", key="sites")
        seen.add(site.name)


def check_site_name(name: str, what: str = "site") -> None:
    """Raises TopologyError if a site or router cannot have this name."""
    allowed = ""
    if not _SITE_NAME.fullmatch(name):
        allowed = "1 to 32 of a-z, 0-9 and '-', the first not '-'"
    elif _READ_AS_VALUE.fullmatch(name):
        allowed = "a name that tables can hold: no number, nan, null, none, inf, true or false"
    elif name in RESERVED_NAMES:
        *others, last = RESERVED_NAMES
        allowed = f"any but {', '.join(others)} and {last}, which events name"
    if allowed:
        raise TopologyError(f"{what} {name!r}: expected {allowed}", key=f"{what}s")


def _check_routers(routers: tuple[str, ...], sites: tuple[Site, ...]) -> None:
    seen = {site.name for site in sites}
    for name in routers:
        check_site_name(name, "router")
        if name in seen:
            raise TopologyError(f"router {name!r}: named twice", key="routers")
        seen.add(name)


def check_link_count(count: int) -> None:
    """Raises TopologyError if a topology has too many directed links."""
    if count > MAX_LINKS:
        raise TopologyError(f"{count} directed links: expected {MOST_LINKS}", key="sites")


def _join_shares(percents: Iterable[float]) -> float:
    """The share of packets that one of several links concerns."""
    found = tuple(percents)
    return 100 * (1 - math.prod(1 - each / 100 for each in found)) if any(found) else 0.0


def _check_links(nodes: tuple[str, ...], links: tuple[Link, ...]) -> None:
    check_link_count(len(links))
    names = {*nodes}
    pairs: set[tuple[str, str]] = set()
    for link in links:
        where = f"link {link.src} -> {link.dst}"
        for end in (link.src, link.dst):
            if end not in names:
                allowed = list_choices(nodes, end)
                raise TopologyError(f"{where}: site {end!r}: {allowed}", key="links")
        if link.src == link.dst:
            raise TopologyError(f"{where}: a site has no link to itself", key="links")
        if (link.src, link.dst) in pairs:
            raise TopologyError(f"{where}: given twice", key="links")
        pairs.add((link.src, link.dst))
    check_all_values(links)
    for link in links:
        if (link.dst, link.src) not in pairs:
            raise TopologyError(
                f"link {link.src} -> {link.dst}: has no reverse; every link needs both directions",
                key="links",
            )


def find_reachable(first: str, neighbours: Mapping[str, Iterable[str]]) -> set[str]:
    """The node, and every node that it reaches over neighbours."""
    reached, queue = {first}, [first]
    while queue:
        for name in neighbours[queue.pop()]:
            if name not in reached:
                reached.add(name)
                queue.append(name)
    return reached


def _check_connected(neighbours: dict[str, tuple[str, ...]], key: str = "links") -> None:
    """Raise TopologyError if a node is unreachable. Links have reverses, so one search suffices."""
    first = next(iter(neighbours))
    reached = find_reachable(first, neighbours)
    lost = [name for name in neighbours if name not in reached]
    if lost:
        raise TopologyError(
            f"{key}: {', '.join(lost)} cannot be reached from {first}; add {key}", key=key
        )
