"""Networks in GML, GraphML and GEXF, which NetworkX reads (pure).

The Internet Topology Zoo is in the first two: Knight et al., "The Internet Topology Zoo", IEEE JSAC
29(9), 2011. `attributes` has the words that are read.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from importlib import import_module
from typing import Any

from trunkline.topologies.formats.graph_network import Graph, make_network
from trunkline.topologies.formats.network_file import Network, check_text
from trunkline.topologies.links import TopologyError


def read_gml(text: str) -> Network:
    """Read a network from GML.

    Raises:
        TopologyError: the text is not GML, or an attribute is impossible.
    """

    def parse(networkx: Any) -> Any:
        # Many files of the Topology Zoo have parallel edges, and not all of them declare it.
        several = re.sub(r"\bgraph\s*\[", r"\g<0> multigraph 1 ", text, count=1)
        several = _WHOLE_POWER.sub(lambda match: match[1] or f"{match[2]}.0{match[3]}", several)
        return networkx.parse_gml(several.splitlines(), label="id")

    return _read(text, "GML", parse)


_WHOLE_POWER = re.compile(r'("[^"]*")|(?<![\w.])([+-]?[0-9]+)([eE][+-]?[0-9]+)(?![\w.])')
"""A text, or a number such as `1e-05`, which igraph writes and networkx does not read."""


def read_graphml(text: str) -> Network:
    """Read a network from GraphML.

    Raises:
        TopologyError: the text is not GraphML, or an attribute is impossible.
    """

    def parse(networkx: Any) -> Any:
        check_entities(text)
        return networkx.parse_graphml(text, force_multigraph=True)

    return _read(text, "GraphML", parse)


def read_gexf(text: str) -> Network:
    """Read a network from GEXF, the format of Gephi.

    Raises:
        TopologyError: the text is not GEXF, or an attribute is impossible.
    """

    def parse(networkx: Any) -> Any:
        check_entities(text)
        return networkx.read_gexf(io.BytesIO(text.encode()))

    return _read(text, "GEXF", parse)


def check_entities(text: str) -> None:
    """Raises TopologyError for XML whose entities could make it as long as they like."""
    if "<!ENTITY" in text:
        raise TopologyError("expected XML without entities")


def _read(text: str, form: str, parse: Callable[[Any], Any]) -> Network:
    check_text(text)
    try:
        networkx = import_module("networkx")
    except ImportError:  # stock Mininet may run in a Python of its own
        needed = "networkx (python3-networkx in Debian), which this Python lacks"
        raise TopologyError(f"{form} needs {needed}") from None
    try:
        graph = parse(networkx)
    except TopologyError:
        raise
    except Exception as reason:  # networkx raises errors of many kinds for broken files
        first = str(reason).strip().partition("\n")[0] or type(reason).__name__
        raise TopologyError(f"not {form} that networkx reads: {first[:200]}") from None
    of_node, of_edge = (graph.graph.get(f"{each}_default", {}) for each in ("node", "edge"))
    nodes = {name: {**of_node, **data} for name, data in graph.nodes(data=True)}
    edges = [(a, b, {**of_edge, **data}) for a, b, data in graph.edges(data=True)]
    return make_network(Graph(nodes, edges, graph.is_directed()))
