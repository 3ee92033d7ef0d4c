"""Access links: what a site's traffic to and from all other sites has to share (pure).

A site with an access link gets a router, its *gateway*. The site's other links begin and end there.
So all its traffic crosses the two directions of one link, whose queue and rate it shares.

In a network of many nodes, some may have a site, and the others only forward (`attach_sites`).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from trunkline.topologies.links import Link, TopologyError, compute_queue_bytes, list_choices
from trunkline.topologies.model import Topology

GATEWAY = "-gw"

ORIGINS = ("rate_mbps", "delay_ms", "jitter_ms", "loss_percent", "queue_bytes")
"""The values of links whose origins are known where a file was read."""


@dataclass(frozen=True, slots=True)
class AccessLink:
    """The access links of some sites, each with the same values.

    Options:
        up_mbps: the rate of the direction from the site to its gateway.
        down_mbps: the rate of the direction from the gateway to the site.
        sites: the sites that have such a link; by default all sites that no other entry names.
        delay_ms: the propagation delay of each direction.
        loss_percent: the share of packets that each direction loses at random.
        queue_bytes: the queue of each direction; by default one bandwidth-delay product with the
            longest round trip from the site to another one in the overlay, at least 64 KiB.
        burst: how many packets in a row are lost on average.
        duplicate_percent: the share of packets that arrive twice.
        corrupt_percent: the share of packets with a wrong bit.
    """

    up_mbps: float
    down_mbps: float
    sites: tuple[str, ...] = ()
    delay_ms: float = 0.0
    loss_percent: float = 0.0
    queue_bytes: int | None = None
    burst: float = 1.0
    duplicate_percent: float = 0.0
    corrupt_percent: float = 0.0

    def links(self, site: str, gateway: str) -> tuple[Link, Link]:
        """The two directions between a site and its gateway."""
        rest: dict[str, Any] = {
            "delay_ms": self.delay_ms,
            "loss_percent": self.loss_percent,
            "queue_bytes": self.queue_bytes,
            "burst": self.burst,
            "duplicate_percent": self.duplicate_percent,
            "corrupt_percent": self.corrupt_percent,
        }
        up = Link(site, gateway, self.up_mbps, **rest)
        return up, Link(gateway, site, self.down_mbps, **rest)


def add_access_links(
    topology: Topology,
    entries: Sequence[AccessLink],
    origins: Mapping[str, Mapping[str, str]] | None = None,
) -> Topology:
    """The topology with access links; without entries, the same topology.

    The overlay keeps its pairs of sites. `origins` says where the values of a site's access link
    come from, by default from `access`.

    Raises:
        TopologyError: an entry names a site that does not exist or that another one names, or a
            value is impossible.
    """
    chosen = _assign(topology, entries)
    if not chosen:
        return topology
    gateways = {site: find_gateway(topology, site) or f"{site}{GATEWAY}" for site in chosen}
    own = {ends for pair in gateways.items() for ends in (pair, pair[::-1])}
    links = _move_links((x for x in topology.links if (x.src, x.dst) not in own), gateways)
    for site, entry in chosen.items():
        links += entry.links(site, gateways[site])
    overlay = topology.overlay
    pairs = ((x.src, x.dst) for x in overlay.links if overlay.rank(x.src) < overlay.rank(x.dst))
    routers = tuple(dict.fromkeys((*topology.routers, *gateways.values())))
    texts = {site: (origins or {}).get(site, dict.fromkeys(ORIGINS, "access")) for site in chosen}
    moved = _move_origins(topology, gateways, gateways, texts)
    found = replace(
        topology, links=tuple(links), routers=routers, pairs=tuple(pairs), origins=moved
    )
    sized = (_size_queue(found, x) if (x.src, x.dst) in own else x for x in found.links)
    return replace(found, links=tuple(sized))


def find_gateway(topology: Topology, site: str) -> str | None:
    """The router that all traffic of a site crosses; None if it has no such gateway.

    Sites of one node share its gateway (`attach_sites`).
    """
    own, near = f"{site}{GATEWAY}", topology.neighbours(site)
    if own in near or len(near) != 1:
        return own if own in near else None
    is_gateway = near[0].endswith(GATEWAY) and not topology.is_site(near[0])
    return near[0] if is_gateway else None


def attach_sites(
    topology: Topology, names: Sequence[str], per_node: int | None = None, hub: str = ""
) -> Topology:
    """A network of routers in which only some nodes have sites.

    A site is at a gateway in its node's place, by a link as fast as all links of the node together
    and without delay.

    Args:
        topology: its sites are the nodes; it has no routers.
        names: the nodes that have a site, in the order of their ranks; at least two sites in all.
        per_node: how many sites each of these nodes has: the node `a` then has `a-1`, `a-2`
            and so on. By default it has one with its own name.
        hub: the site to which each other one has its only connection. By default each site has one
            to each other.

    Raises:
        TopologyError: a name is not that of a node or site, or is named twice.
    """
    for name in names:
        if name not in topology.site_names:
            allowed = list_choices(topology.site_names, name)
            raise TopologyError(f"sites: {name!r}: {allowed}", key="sites")
        if names.count(name) > 1:
            raise TopologyError(f"sites: {name!r}: named twice", key="sites")
    gateways = {name: f"{name}{GATEWAY}" for name in names}
    nodes = dict[str, str]()  # site -> its node
    for name in names:
        own = [name] if per_node is None else [f"{name}-{n}" for n in range(1, per_node + 1)]
        nodes |= dict.fromkeys(own, name)
    if hub and hub not in nodes:
        raise TopologyError(f"hub: {hub!r}: {list_choices(nodes, hub)}", key="hub")
    links = _move_links(topology.links, gateways)
    for site, name in nodes.items():
        links += AccessLink(*sum_rates(topology, name)).links(site, gateways[name])
    by_name = {site.name: site for site in topology.sites}
    sites = tuple(replace(by_name[name], name=site) for site, name in nodes.items())
    origin = {"rate_mbps": "the sum of the rates of its node"}
    inside = {site: gateways[name] for site, name in nodes.items()}
    at = {node: (latitude, longitude) for node, latitude, longitude in topology.places}
    places = {site: at[name] for site, name in nodes.items() if name in at}
    return replace(
        topology,
        sites=sites,
        links=tuple(links),
        routers=tuple(gateways.get(name, name) for name in topology.site_names),
        pairs=tuple((hub, site) for site in nodes if site != hub) if hub else (),
        places=tuple((name, *each) for name, each in (at | places).items()),
        origins=_move_origins(topology, gateways, inside, dict.fromkeys(nodes, origin)),
    )


def sum_rates(topology: Topology, name: str) -> tuple[float, float]:
    """The rates in Mbit/s of all links from a node together, and of all links to it."""
    near = topology.neighbours(name)
    return (
        math.fsum(topology.link(name, other).rate_mbps for other in near),
        math.fsum(topology.link(other, name).rate_mbps for other in near),
    )


def make_routers(topology: Topology, names: Collection[str]) -> Topology:
    """A network in which these nodes have no site and only forward.

    Two sites have a connection if they have a link, or a path that crosses such nodes only.

    Args:
        topology: its sites are the nodes; it has no routers.
        names: the nodes that become routers.
    """
    rest = [name for name in topology.site_names if name not in names]
    pairs = dict[tuple[str, str], None]()
    for site in rest:
        reached, queue = {site}, [site]
        while queue:
            for name in topology.neighbours(queue.pop()):
                if name not in reached:
                    reached.add(name)
                    queue += [name] if name in names else []
        pairs |= {(site, other): None for other in rest[rest.index(site) + 1 :] if other in reached}
    if 2 * len(pairs) == len(rest) * (len(rest) - 1):
        pairs = {}  # each with each, which needs no list
    sites = tuple(site for site in topology.sites if site.name not in names)
    routers = tuple(name for name in topology.site_names if name in names)
    return replace(topology, sites=sites, routers=routers, pairs=tuple(pairs))


def _move_origins(
    topology: Topology,
    gateways: Mapping[str, str],
    inside: Mapping[str, str],
    own: Mapping[str, Mapping[str, str]],
) -> dict[tuple[str, str], Mapping[str, str]]:
    """Where values come from, with gateways in place of nodes.

    `inside` has each site's gateway, and `own` where the values of its link to it come from; what
    that lacks is a default.
    """
    if not topology.origins:
        return {}
    found = {
        (gateways.get(src, src), gateways.get(dst, dst)): each
        for (src, dst), each in topology.origins.items()
        if gateways.get(src) != dst and gateways.get(dst) != src
    }
    for site, origins in own.items():
        filled = {**dict.fromkeys(ORIGINS, "default"), **origins}
        found |= {(site, inside[site]): filled, (inside[site], site): filled}
    return found


def _move_links(links: Iterable[Link], gateways: Mapping[str, str]) -> list[Link]:
    """The links with gateways in place of their sites."""
    return [
        replace(link, src=gateways.get(link.src, link.src), dst=gateways.get(link.dst, link.dst))
        for link in links
    ]


def _size_queue(topology: Topology, link: Link) -> Link:
    """An access link with a queue for the longest round trip of its site."""
    if link.queue_bytes is not None:
        return link
    overlay = topology.overlay
    site = link.src if link.src in topology.site_names else link.dst
    round_trip_ms = max(
        overlay.link(site, other).delay_ms + overlay.link(other, site).delay_ms
        for other in overlay.neighbours(site)
    )
    return replace(link, queue_bytes=compute_queue_bytes(link.rate_mbps, round_trip_ms))


def _assign(topology: Topology, entries: Sequence[AccessLink]) -> dict[str, AccessLink]:
    """The entry of each site that has one, in the order of the sites."""
    found: dict[str, AccessLink] = {}
    rest = [entry for entry in entries if not entry.sites]
    if len(rest) > 1:
        raise TopologyError("access: only one entry may be without sites", key="access")
    for entry in entries:
        for site in entry.sites:
            if site not in topology.site_names:
                allowed = list_choices(topology.site_names, site)
                raise TopologyError(f"access: site {site!r}: {allowed}", key="access")
            if site in found:
                raise TopologyError(f"access: site {site!r}: named twice", key="access")
            found[site] = entry
    for entry in rest:
        found |= {site: entry for site in topology.site_names if site not in found}
    return {site: found[site] for site in topology.site_names if site in found}
