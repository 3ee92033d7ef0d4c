"""Networks in GML and GraphML, in the form of the Internet Topology Zoo (pure).

Knight et al., "The Internet Topology Zoo", IEEE JSAC 29(9), 2011. Nodes have `label`, `Latitude`,
`Longitude` and `Internal`; edges have `LinkSpeedRaw` in bit/s, or `LinkSpeed` and `LinkSpeedUnits`.
In files of your own, edges may have `rate` and `delay` instead. Upper and lower case are alike.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from trunkline.topologies.links import TopologyError
from trunkline.topologies.network_file import (
    RATE,
    TIME,
    Edge,
    Network,
    Node,
    Problems,
    check_characters,
    check_node_count,
    name_sites,
    quote,
    read_quantity,
    spell,
    with_reverses,
)

SPEED_UNITS = {"K": "kbit/s", "M": "Mbit/s", "G": "Gbit/s"}
"""The values of `LinkSpeedUnits`."""

_Attributes = Mapping[str, Any]


def read_gml(text: str) -> Network:
    """Read a network from GML.

    Raises:
        TopologyError: the text is not GML, or an attribute is impossible.
    """

    def parse(networkx: Any) -> Any:
        # Many files of the Topology Zoo have parallel edges, and not all of them declare it.
        several = re.sub(r"\bgraph\s*\[", r"\g<0> multigraph 1 ", text, count=1)
        return networkx.parse_gml(several.splitlines(), label="id")

    return _read(text, "GML", parse)


def read_graphml(text: str) -> Network:
    """Read a network from GraphML.

    Raises:
        TopologyError: the text is not GraphML, or an attribute is impossible.
    """

    def parse(networkx: Any) -> Any:
        if "<!ENTITY" in text:
            raise TopologyError("expected XML without entities")
        return networkx.parse_graphml(text, force_multigraph=True)

    return _read(text, "GraphML", parse)


def _read(text: str, form: str, parse: Callable[[Any], Any]) -> Network:
    check_characters(text)
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
    check_node_count(graph.number_of_nodes())
    nodes = {key: _lower(attributes) for key, attributes in graph.nodes(data=True)}
    labels = {key: str(attributes.get("label", key)) for key, attributes in nodes.items()}
    wanted = [
        label if re.search("[a-z0-9]", spell(label)) else str(key) for key, label in labels.items()
    ]
    names = dict(zip(labels, name_sites(wanted), strict=True))
    problems, sites, edges = Problems(), list[Node](), list[Edge]()
    for key, attributes in nodes.items():
        with problems.noting():
            sites.append(_read_node(names[key], labels[key], attributes))
    for src, dst, attributes in graph.edges(data=True):
        if src != dst:  # the Topology Zoo's Interoute has an edge from a node to itself
            with problems.noting():
                edges.append(_read_edge(names[src], names[dst], _lower(attributes)))
    problems.refuse()
    return Network(tuple(sites), with_reverses(edges, graph.is_directed()))


def _lower(attributes: _Attributes) -> _Attributes:
    return {str(name).lower(): value for name, value in attributes.items() if value != ""}


def _read_node(name: str, label: str, attributes: _Attributes) -> Node:
    where = f"node {name}"
    return Node(
        name,
        _read_degrees(where, "latitude", attributes),
        _read_degrees(where, "longitude", attributes),
        str(attributes.get("internal", 1)).lower() not in ("0", "0.0", "false"),
        label,
    )


def _read_degrees(where: str, what: str, attributes: _Attributes) -> float | None:
    value = attributes.get(what, attributes.get(what[:3]))
    try:
        return None if value is None else float(value)
    except (TypeError, ValueError):
        allowed = "expected a number of degrees"
        raise TopologyError(f"{where}: {what} {quote(str(value))}: {allowed}") from None


def _read_edge(src: str, dst: str, attributes: _Attributes) -> Edge:
    where, name = f"edge {src} - {dst}", ""
    rate = delay = None
    try:
        if "rate" in attributes:
            name = "rate"
            rate = read_quantity(attributes["rate"], RATE)
        elif "linkspeedraw" in attributes:
            name = "LinkSpeedRaw"
            rate = read_quantity(f"{attributes['linkspeedraw']} bit/s", RATE)
        elif "linkspeed" in attributes:
            name = "LinkSpeed"
            unit = _read_speed_unit(attributes.get("linkspeedunits"))
            rate = read_quantity(f"{attributes['linkspeed']} {unit}", RATE)
        if "delay" in attributes:
            name = "delay"
            delay = read_quantity(attributes["delay"], TIME)
    except TopologyError as error:
        raise TopologyError(f"{where}: {name} {error}") from None
    return Edge(src, dst, rate, delay, label=str(attributes.get("linklabel", "")))


def _read_speed_unit(value: object) -> str:
    if value not in SPEED_UNITS:
        given = "" if value is None else f" {quote(str(value))}"
        allowed = ", ".join(SPEED_UNITS)
        raise TopologyError(f"with LinkSpeedUnits{given}: expected one of {allowed}")
    return SPEED_UNITS[str(value)]
