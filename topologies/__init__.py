"""What the WAN looks like: sites, directed links, and one builder per file, found by its name.

A builder is a module of this package with a function
`build(rng: random.Random, *, <options>) -> Topology`. The keyword-only, typed parameters of that
function are its options, except `read: Callable[[str], str]`, which reads a text file beside the
scenario by its name. The first line of the module's docstring describes it. A new topology is
one new file; no list has to be changed.
"""

from __future__ import annotations

from trunkline.named_modules import NamedModules
from trunkline.topologies.links import Link, LinkOverride, TopologyError
from trunkline.topologies.model import Site, Topology

__all__ = ["Link", "LinkOverride", "Site", "Topology", "TopologyError", "find_builders"]


def find_builders() -> NamedModules:
    """Every module of this package that has `build`, by name."""
    return NamedModules(__name__, __path__, "build")
