"""Sites and links written out one by one, as in a resolved scenario."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

from trunkline.topologies.formats.network_file import ReadFile
from trunkline.topologies.link_defaults import read_links
from trunkline.topologies.link_options import Sites, parse_sites
from trunkline.topologies.links import Link, TopologyError, list_choices
from trunkline.topologies.model import Topology


def build(
    rng: random.Random,
    *,
    sites: Sites,
    links: list[Link],
    routers: list[str] | None = None,
    pairs: list[list[str]] | None = None,
    racks: dict[str, str] | None = None,
    places: dict[str, tuple[float, float]] | None = None,
    name: str = "explicit",
    read: ReadFile | None = None,
) -> Topology:
    """The topology of exactly these sites and links; `rng` is not used.

    Options:
        sites: a count, a list of names or regions, or name -> region.
        links: the directed links between sites and routers, such as `{src: a, dst: b, rate: 50
            Mbit/s}`; each needs its reverse, `{src: b, dst: a, rate: 50 Mbit/s}`. A list, or a
            text in the form of CSV whose first line has the keys.
        routers: nodes without agents, which forward packets. The links are then an underlay.
        pairs: which sites have a connection, such as `[[a, b], [a, c]]`; by default those with a
            link, and with routers each site with each other one.
        racks: the rack of each site that is in one: site -> rack; plans such as `owl` use them.
        places: latitude and longitude of nodes in degrees, for the map: node -> [55.7, 12.6].
        name: the name of the topology.
    """
    ends = []
    for pair in pairs or ():
        if len(pair) != 2:
            raise TopologyError(f"pairs: {pair}: expected two sites", key="pairs")
        ends.append((pair[0], pair[1]))
    placed = tuple(
        replace(site, rack=(racks or {}).get(site.name, "")) for site in parse_sites(sites)
    )
    known = tuple((node, *place) for node, place in (places or {}).items())
    names = [site.name for site in placed]
    for site in (racks or {}).keys() - set(names):
        raise TopologyError(f"racks: {site!r}: {list_choices(names, site)}", key="racks")
    return Topology(name, placed, read_links(links, read), tuple(routers or ()), tuple(ends), known)


def options(topology: Topology) -> dict[str, Any]:
    """The options with which `build` returns this topology; every queue has an explicit size."""
    found: dict[str, Any] = {
        "name": topology.name,
        "sites": {site.name: site.region for site in topology.sites},
        "links": [replace(link, queue_bytes=topology.queue_bytes(link)) for link in topology.links],
    }
    racks = {site.name: site.rack for site in topology.sites if site.rack}
    if racks:
        found["racks"] = racks
    if topology.places:
        found["places"] = {node: [*place] for node, *place in topology.places}
    if topology.routers:
        found["routers"] = list(topology.routers)
    if topology.pairs:
        found["pairs"] = [list(pair) for pair in topology.pairs]
    return found
