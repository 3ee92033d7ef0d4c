"""Sites and links written out one by one, as in a resolved scenario."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

from trunkline.topologies.link_options import Sites, parse_sites
from trunkline.topologies.model import Link, Topology


def build(
    rng: random.Random, *, sites: Sites, links: list[Link], name: str = "explicit"
) -> Topology:
    """The topology of exactly these sites and links; `rng` is not used.

    Options:
        sites: a count, a list of names or regions, or name -> region.
        links: the directed links; each needs its reverse.
        name: the name of the topology.
    """
    return Topology(name, parse_sites(sites), tuple(links))


def options(topology: Topology) -> dict[str, Any]:
    """The options with which `build` returns this topology; every queue has an explicit size."""
    return {
        "name": topology.name,
        "sites": {site.name: site.region for site in topology.sites},
        "links": [replace(link, queue_bytes=topology.queue_bytes(link)) for link in topology.links],
    }
