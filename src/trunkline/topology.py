"""What a topology of your own imports: sites, directed links, and the overlay that they form.

A topology file has `build(rng: random.Random, *, <options>) -> Topology`, and `topos` if stock
Mininet is to load it as well: `topos = {"name": mininet_topo(build)}`.
"""

from trunkline.topologies import Link, LinkOverride, Site, Topology, TopologyError
from trunkline.topologies.mininet_topo import mininet_topo

__all__ = ["Link", "LinkOverride", "Site", "Topology", "TopologyError", "mininet_topo"]
