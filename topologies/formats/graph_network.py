"""From a graph, as a reader of any format gives it, to a network (pure)."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from trunkline.topologies.formats.attributes import (
    Attributes,
    flatten,
    read_access,
    read_degrees,
    read_link,
)
from trunkline.topologies.formats.network_file import (
    Edge,
    Network,
    Node,
    Problems,
    check_node_count,
    with_reverses,
)
from trunkline.topologies.formats.node_names import name_sites, spell
from trunkline.topologies.formats.quantities import RATE, has_unit, read_quantity
from trunkline.topologies.links import TopologyError

LATITUDE, LONGITUDE = "latitude lat", "longitude long lon lng"
"""Attributes of nodes in degrees, squashed: in lower case, without spaces and `_`."""

_PLACES = {*LATITUDE.split(), *LONGITUDE.split()}


@dataclass(frozen=True, slots=True)
class Graph:
    """Nodes by their ids and edges between ids, with attributes; edges may be parallel."""

    nodes: Mapping[Hashable, Attributes]
    edges: Sequence[tuple[Hashable, Hashable, Attributes]]
    directed: bool
    remarks: tuple[str, ...] = ()


def make_network(graph: Graph) -> Network:
    """The network of a graph, by what its attributes mean.

    Raises:
        TopologyError: there are too few or too many nodes, or an attribute is impossible.
    """
    check_node_count(len(graph.nodes))
    given = {key: flatten(attributes) for key, attributes in graph.nodes.items()}
    nodes = {key: _lower(attributes) for key, attributes in given.items()}
    labels = {key: _find_label(key, attributes) for key, attributes in nodes.items()}
    wanted = [
        label if re.search("[a-z0-9]", spell(label)) else str(key) for key, label in labels.items()
    ]
    names = dict(zip(labels, name_sites(wanted), strict=True))
    problems, sites = Problems(), list[Node]()
    edges, loops = list[Edge](), list[Edge]()
    for key, name in names.items():
        with problems.noting(f"node {name}: "):
            sites.append(_read_node(name, labels[key], given[key], nodes[key]))
    for src, dst, attributes in graph.edges:
        for end in (src, dst):
            if end not in names:
                raise TopologyError(f"edge {src} - {dst}: there is no node {end}")
        with problems.noting(f"edge {names[src]} - {names[dst]}: "):
            edge = _read_edge(names[src], names[dst], flatten(attributes))
            (edges if src != dst else loops).append(edge)
    problems.refuse()
    both = with_reverses(edges, graph.directed)
    return Network(tuple(sites), both, tuple(loops), graph.remarks)


def _lower(attributes: Attributes) -> dict[str, Any]:
    return {str(name).lower(): value for name, value in attributes.items() if value != ""}


def _find_label(key: Hashable, attributes: Attributes) -> str:
    """What a file calls a node: its label, its name (igraph), or its id."""
    for name in ("label", "name", "_nx_name"):
        if isinstance(value := attributes.get(name), str | int | float):
            return str(value)
    return str(key)


def _read_node(name: str, label: str, given: Attributes, lower: Attributes) -> Node:
    access = read_access({key: value for key, value in given.items() if key.lower() not in _PLACES})
    return Node(
        name,
        read_degrees(given, LATITUDE),
        read_degrees(given, LONGITUDE),
        _is_true(lower.get("internal", 1)),
        label,
        _is_true(lower.get("hyperedge", 0)),
        access,
    )


def _is_true(value: object) -> bool:
    return str(value).lower() not in ("0", "0.0", "false")


def _read_edge(src: str, dst: str, attributes: Attributes) -> Edge:
    values = read_link(attributes)
    labels = {name: each for name, each in attributes.items() if str(name).lower() in _LABELS}
    label = next((each for each in labels.values() if isinstance(each, str)), "")
    # Without a rate, a note of its own says that the label is not read.
    if values.rate_mbps is None or _says(label, values.rate_mbps):
        unused = tuple(each for each in values.unused if each[0] not in labels)
        values = replace(values, unused=unused)
    return Edge(src, dst, values, label=label)


_LABELS = ("linklabel", "label")


def _says(label: str, rate_mbps: float) -> bool:
    """Whether a label is the rate that is known from another attribute."""
    try:
        return has_unit(label) and read_quantity(label, RATE) == rate_mbps
    except TopologyError:
        return False
