"""Access links: what a site's traffic to and from all other sites has to share (pure).

A site with an access link gets a router, its *gateway*. The site's other links begin and end there.
So all its traffic crosses the two directions of one link, whose queue and rate it shares.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from trunkline.topologies.model import Link, Topology, TopologyError, compute_queue_bytes

GATEWAY = "-gw"


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
    """

    up_mbps: float
    down_mbps: float
    sites: tuple[str, ...] = ()
    delay_ms: float = 0.0
    loss_percent: float = 0.0
    queue_bytes: int | None = None

    def links(self, site: str, gateway: str) -> tuple[Link, Link]:
        """The two directions between a site and its gateway."""
        rest = self.delay_ms, 0.0, self.loss_percent, self.queue_bytes
        return Link(site, gateway, self.up_mbps, *rest), Link(gateway, site, self.down_mbps, *rest)


def add_access_links(topology: Topology, entries: Sequence[AccessLink]) -> Topology:
    """The topology with access links; without entries, the same topology.

    The overlay keeps its pairs of sites.

    Raises:
        TopologyError: an entry names a site that does not exist or that another one names, or a
            value is impossible.
    """
    chosen = _assign(topology, entries)
    if not chosen:
        return topology
    gateways = {site: f"{site}{GATEWAY}" for site in chosen}
    links = [
        replace(link, src=gateways.get(link.src, link.src), dst=gateways.get(link.dst, link.dst))
        for link in topology.links
    ]
    for site, entry in chosen.items():
        links += entry.links(site, gateways[site])
    overlay = topology.overlay
    pairs = ((x.src, x.dst) for x in overlay.links if overlay.rank(x.src) < overlay.rank(x.dst))
    routers = *topology.routers, *gateways.values()
    found = Topology(topology.name, topology.sites, tuple(links), routers, tuple(pairs))
    own = {ends for pair in gateways.items() for ends in (pair, pair[::-1])}
    sized = (_size_queue(found, x) if (x.src, x.dst) in own else x for x in found.links)
    return replace(found, links=tuple(sized))


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
                allowed = ", ".join(topology.site_names)
                raise TopologyError(f"access: site {site!r}: allowed are {allowed}", key="access")
            if site in found:
                raise TopologyError(f"access: site {site!r}: named twice", key="access")
            found[site] = entry
    for entry in rest:
        found |= {site: entry for site in topology.site_names if site not in found}
    return {site: found[site] for site in topology.site_names if site in found}
