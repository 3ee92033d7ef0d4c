"""The routers of a network with too many sites for a map, as a network of their own (pure)."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from trunkline.topologies.links import TopologyError
from trunkline.topologies.model import Site, Topology
from trunkline.topologies.rates.access import GATEWAY, find_gateway

MAX_ROUTERS = 100


def find_routers(topology: Topology) -> tuple[Topology, list[int]] | None:
    """A network whose nodes are the routers, and the numbers of its links in the whole network.

    A gateway has the name of its node. None if the routers are too many or not connected.
    """
    if not 2 <= len(topology.routers) <= MAX_ROUTERS:
        return None
    names = {router: router.removesuffix(GATEWAY) for router in topology.routers}
    kept = {
        number: replace(link, src=names[link.src], dst=names[link.dst])
        for number, link in enumerate(topology.links)
        if link.src in names and link.dst in names
    }
    sites = tuple(map(Site, names.values()))
    try:
        found = Topology(topology.name, sites, tuple(kept.values()), places=topology.places)
    except TopologyError:
        return None
    return found, [*kept]


def count_sites(topology: Topology) -> str:
    """How many sites the routers have, in words."""
    sizes = Counter(find_gateway(topology, name) for name in topology.site_names)
    del sizes[None]
    least, most = min(sizes.values(), default=0), max(sizes.values(), default=0)
    each = f"{most}" if least == most else f"{least} to {most}"
    return f"{len(topology.sites)} sites, {each} at each of {len(sizes)} routers"
