"""Sites, directed links and the overlay they form (pure: values in, values out).

A `Topology` that exists is valid: names are unique, every link has its reverse, every site is
reachable from every other one, every number is possible. Nothing after it checks that again.
"""

from __future__ import annotations

import heapq
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

MIN_QUEUE_BYTES = 64 * 1024
MIN_QUEUE_MS = 1.0
"""Smallest default bottleneck queue: short links still have to hold a burst, and fast ones what
comes until a busy machine gets round to them."""

PACKET_BYTES = 1514
"""One full Ethernet frame: a queue below it can pass nothing."""

RATES_MBPS = (0.001, 1_000_000.0)
"""The slowest and the fastest link: 1 kbit/s to 1 Tbit/s."""

MAX_DELAY_MS = 60_000.0

MAX_JITTER_MS = 2000.0
"""The kernel draws jitter as 32 bits of nanoseconds."""

MAX_QUEUE_S = 270.0
"""What the longest queue takes to drain. The kernel counts that as 32 bits of 64 ns, 274.8 s, at a
rate that it rounds to whole bytes per second."""

RESERVED_NAMES = ("controller", "backup", "runner")
"""What events call those that are not sites."""

_SITE_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,31}")
_LINK_NAME = re.compile(r"\s*([^\s<>]+?)\s*(<->|->)\s*([^\s<>]+)\s*")


class TopologyError(ValueError):
    """An impossible topology, option or name.

    `key` is the builder option at fault, as Python spells it (`"rates_mbps"`), or empty.
    """

    def __init__(self, message: str, key: str = "") -> None:
        super().__init__(message)
        self.key = key


@dataclass(frozen=True, slots=True)
class Site:
    """A data centre. `region` is the measured cloud region it stands for (`aws:us-east-1`)."""

    name: str
    region: str = ""


@dataclass(frozen=True, slots=True)
class Link:
    """The directed connection `src -> dst`; delay, jitter and loss are one-way.

    Options:
        src: the site that sends.
        dst: the site that receives.
        rate_mbps: what it carries, headers included.
        delay_ms: of propagation.
        jitter_ms: how far the delay is off, uniformly, either way.
        loss_percent: of random losses.
        queue_bytes: the bottleneck queue; by default that of `Topology.queue_bytes`.
    """

    src: str
    dst: str
    rate_mbps: float
    delay_ms: float = 0.0
    jitter_ms: float = 0.0
    loss_percent: float = 0.0
    queue_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class LinkOverride:
    """New values for one direction of a link, or both; None keeps.

    Options:
        link: `a -> b` for one direction, `a <-> b` for both.
        rate_mbps, delay_ms, jitter_ms, loss_percent, queue_bytes: instead of the builder's.
    """

    link: str
    rate_mbps: float | None = None
    delay_ms: float | None = None
    jitter_ms: float | None = None
    loss_percent: float | None = None
    queue_bytes: int | None = None

    def ends(self) -> tuple[tuple[str, str], ...]:
        """The directed pairs (src, dst) that `link` names. TopologyError if it names none."""
        match = _LINK_NAME.fullmatch(self.link)
        if match is None:
            allowed = "'a -> b' for one direction, 'a <-> b' for both"
            raise TopologyError(f"link {self.link!r}: allowed is {allowed}", key="link")
        src, arrow, dst = match.groups()
        return ((src, dst),) if arrow == "->" else ((src, dst), (dst, src))

    def values(self) -> dict[str, Any]:
        """The fields of `Link` that this override sets."""
        names = ("rate_mbps", "delay_ms", "jitter_ms", "loss_percent", "queue_bytes")
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}


@dataclass(frozen=True, slots=True)
class Topology:
    """A strongly connected overlay of directed links; a site's rank is its index in `sites`."""

    name: str
    sites: tuple[Site, ...]
    links: tuple[Link, ...]
    _ranks: dict[str, int] = field(init=False, repr=False, compare=False)
    _links: dict[tuple[str, str], Link] = field(init=False, repr=False, compare=False)
    _neighbours: dict[str, tuple[str, ...]] = field(init=False, repr=False, compare=False)
    _next_towards: dict[str, dict[str, str]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _check_sites(self.sites)
        _check_links(self.sites, self.links)
        ranks = {site.name: rank for rank, site in enumerate(self.sites)}
        outgoing: dict[str, list[str]] = {name: [] for name in ranks}
        for link in self.links:
            outgoing[link.src].append(link.dst)
        neighbours = {
            name: tuple(sorted(ends, key=ranks.__getitem__)) for name, ends in outgoing.items()
        }
        object.__setattr__(self, "_ranks", ranks)
        object.__setattr__(self, "_links", {(link.src, link.dst): link for link in self.links})
        object.__setattr__(self, "_neighbours", neighbours)
        object.__setattr__(self, "_next_towards", {})
        _check_connected(neighbours)

    @property
    def site_names(self) -> tuple[str, ...]:
        """Names in rank order."""
        return tuple(self._ranks)

    def rank(self, name: str) -> int:
        """The site's index in `sites`. TopologyError if there is no such site."""
        if name not in self._ranks:
            raise TopologyError(f"site {name!r}: allowed are {', '.join(self._ranks)}")
        return self._ranks[name]

    def link(self, src: str, dst: str) -> Link:
        """The link src -> dst. TopologyError if it does not exist."""
        self.rank(src), self.rank(dst)
        if (src, dst) not in self._links:
            ends = ", ".join(self._neighbours[src])
            raise TopologyError(f"link {src} -> {dst}: does not exist; {src} has links to {ends}")
        return self._links[src, dst]

    def neighbours(self, name: str) -> tuple[str, ...]:
        """The sites that `name` has a link to (and, as every link has a reverse, from)."""
        self.rank(name)
        return self._neighbours[name]

    def rates_mbps(self) -> dict[tuple[str, str], float]:
        """(src, dst) -> rate, one entry per link."""
        return {(link.src, link.dst): link.rate_mbps for link in self.links}

    def delays_ms(self) -> dict[tuple[str, str], float]:
        """(src, dst) -> one-way delay, one entry per link."""
        return {(link.src, link.dst): link.delay_ms for link in self.links}

    def next_hops(self, src: str) -> dict[str, str]:
        """Every other site -> the neighbour of `src` that packets for it go to.

        A direct link always wins; otherwise the smallest total delay, then the fewest hops, then
        the neighbour of lowest rank. Following the tables hop by hop never loops: each hop
        either ends at the destination or strictly lowers (delay, hops) to it.
        """
        self.rank(src)
        return {dst: self._next_hop(src, dst) for dst in self._ranks if dst != src}

    def path(self, src: str, dst: str) -> tuple[str, ...]:
        """The sites from `src` to `dst`, both included, that `next_hops` leads through."""
        self.rank(src), self.rank(dst)
        nodes = [src]
        while nodes[-1] != dst:
            nodes.append(self._next_hop(nodes[-1], dst))
        return tuple(nodes)

    def queue_bytes(self, link: Link) -> int:
        """The link's bottleneck queue: its own, or one bandwidth-delay product.

        The delay of that product is the round trip over this link and its reverse, or 1 ms if that
        is more; the result is at least 64 KiB, but never more than drains in `MAX_QUEUE_S`.
        """
        if link.queue_bytes is not None:
            return link.queue_bytes
        round_trip_ms = link.delay_ms + self.link(link.dst, link.src).delay_ms
        drains_ms = max(MIN_QUEUE_MS, round_trip_ms)
        wanted_bytes = max(MIN_QUEUE_BYTES, math.ceil(link.rate_mbps * 125.0 * drains_ms))
        return min(wanted_bytes, _longest_queue_bytes(link.rate_mbps))

    def with_overrides(self, overrides: Iterable[LinkOverride]) -> Topology:
        """A copy with some links' values replaced; later overrides win.

        TopologyError names the first override whose link does not exist or whose value is
        impossible.
        """
        links = dict(self._links)
        for override in overrides:
            for ends in override.ends():
                self.link(*ends)
                links[ends] = replace(links[ends], **override.values())
        return Topology(self.name, self.sites, tuple(links.values()))

    def _next_hop(self, src: str, dst: str) -> str:
        if (src, dst) in self._links:
            return dst
        if dst not in self._next_towards:
            self._next_towards[dst] = self._tree_towards(dst)
        return self._next_towards[dst][src]

    def _tree_towards(self, dst: str) -> dict[str, str]:
        """Dijkstra from `dst` against the links: site -> next hop on its shortest path.

        Grown from the destination so that a site's cost is its link's delay plus its next hop's
        cost in floating point too: costs fall along every path, exactly.
        """
        settled: set[str] = set()
        costs: dict[str, tuple[float, int, int]] = {dst: (0.0, 0, -1)}
        queue = [(0.0, 0, self._ranks[dst], dst)]
        following: dict[str, str] = {}
        while queue:
            delay_ms, hops, _, near = heapq.heappop(queue)
            if near in settled:
                continue
            settled.add(near)
            for far in self._neighbours[near]:
                total_ms = delay_ms + self._links[far, near].delay_ms
                cost = (total_ms, hops + 1, self._ranks[near])
                if far not in settled and (far not in costs or cost < costs[far]):
                    costs[far], following[far] = cost, near
                    heapq.heappush(queue, (total_ms, hops + 1, self._ranks[far], far))
        return following


def _check_sites(sites: tuple[Site, ...]) -> None:
    if len(sites) < 2:
        raise TopologyError(f"sites: {len(sites)}: allowed are 2 or more", key="sites")
    seen: set[str] = set()
    for site in sites:
        if not _SITE_NAME.fullmatch(site.name):
            allowed = "1 to 32 of a-z, 0-9 and '-', the first not '-'"
            raise TopologyError(f"site {site.name!r}: allowed is {allowed}", key="sites")
        if site.name in RESERVED_NAMES:
            *others, last = RESERVED_NAMES
            allowed = f"any but {', '.join(others)} and {last}, which events name"
            raise TopologyError(f"site {site.name!r}: allowed is {allowed}", key="sites")
        if site.name in seen:
            raise TopologyError(f"site {site.name!r}: named twice", key="sites")
        seen.add(site.name)


def _check_links(sites: tuple[Site, ...], links: tuple[Link, ...]) -> None:
    names = {site.name for site in sites}
    pairs: set[tuple[str, str]] = set()
    for link in links:
        where = f"link {link.src} -> {link.dst}"
        for end in (link.src, link.dst):
            if end not in names:
                allowed = ", ".join(site.name for site in sites)
                raise TopologyError(f"{where}: site {end!r}: allowed are {allowed}", key="links")
        if link.src == link.dst:
            raise TopologyError(f"{where}: a site has no link to itself", key="links")
        if (link.src, link.dst) in pairs:
            raise TopologyError(f"{where}: given twice", key="links")
        pairs.add((link.src, link.dst))
        check_values(where, link)
        if link.loss_percent == 100:
            what = "loss_percent 100.0: allowed is below 100; an outage stops a link"
            raise TopologyError(f"{where}: {what}", key="loss_percent")
    for link in links:
        if (link.dst, link.src) not in pairs:
            raise TopologyError(
                f"link {link.src} -> {link.dst}: has no reverse; every link needs both directions",
                key="links",
            )


def check_values(where: str, link: Link) -> None:
    """Whether a network can have such a link, to begin with or after a change.

    The one place that knows what rates, delays, jitter, losses and queues are possible. Raises
    TopologyError, which starts with `where` and has the field at fault as its key.
    """

    def refuse(name: str, value: object, allowed: str) -> None:
        raise TopologyError(f"{where}: {name} {value}: allowed is {allowed}", key=name)

    slowest, fastest = RATES_MBPS
    if not slowest <= link.rate_mbps <= fastest:
        refuse("rate_mbps", link.rate_mbps, f"{slowest:g} to {fastest:.0f}")
    if not 0 <= link.delay_ms <= MAX_DELAY_MS:
        refuse("delay_ms", link.delay_ms, f"0 to {MAX_DELAY_MS:.0f}")
    if not 0 <= link.jitter_ms <= MAX_JITTER_MS:
        refuse("jitter_ms", link.jitter_ms, f"0 to {MAX_JITTER_MS:.0f}")
    if link.jitter_ms > link.delay_ms:
        refuse("jitter_ms", link.jitter_ms, f"0 to the link's delay, {link.delay_ms} ms")
    if not 0 <= link.loss_percent <= 100:
        refuse("loss_percent", link.loss_percent, "0 to 100")
    longest_bytes = _longest_queue_bytes(link.rate_mbps)
    if link.queue_bytes is not None and not PACKET_BYTES <= link.queue_bytes <= longest_bytes:
        drains = f"what drains in {MAX_QUEUE_S:.0f} s at {link.rate_mbps:g} Mbit/s"
        allowed = f"{PACKET_BYTES} (one packet) to {longest_bytes}, {drains}"
        refuse("queue_bytes", link.queue_bytes, allowed)


def _longest_queue_bytes(rate_mbps: float) -> int:
    return int(rate_mbps * 125_000 * MAX_QUEUE_S)


def _check_connected(neighbours: dict[str, tuple[str, ...]]) -> None:
    """One search from the first site suffices: every link has its reverse."""
    first = next(iter(neighbours))
    reached, queue = {first}, [first]
    while queue:
        for name in neighbours[queue.pop()]:
            if name not in reached:
                reached.add(name)
                queue.append(name)
    lost = [name for name in neighbours if name not in reached]
    if lost:
        raise TopologyError(
            f"links: {', '.join(lost)} cannot be reached from {first}; add links", key="links"
        )
