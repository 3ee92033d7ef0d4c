"""For your own topologies: sites, directed links, and the overlay that they form.

A topology file has `build(rng: random.Random, *, <options>) -> Topology`. With
`topos = {"name": mininet_topo(build)}`, stock Mininet can load it as well.
"""

from trunkline.topologies import Link, LinkOverride, Site, Topology, TopologyError
from trunkline.topologies.mininet_topo import mininet_topo

__all__ = ["Link", "LinkOverride", "Site", "Topology", "TopologyError", "mininet_topo"]
