"""Networks in JSON: node-link data of NetworkX and D3, and Cytoscape's elements (pure).

`{"directed": false, "nodes": [{"id": ...}], "links": [{"source": ..., "target": ...}]}`. NetworkX
calls the links `edges` from 3.4 on. Nodes without an id are numbered from 0.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping
from typing import Any

from trunkline.topologies.formats.attributes import Attributes
from trunkline.topologies.formats.graph_network import Graph, make_network
from trunkline.topologies.formats.network_file import Network, check_text
from trunkline.topologies.links import TopologyError

_ENDS = {"source", "target", "key", "id"}


def read_json(text: str) -> Network:
    """Read a network from JSON.

    Raises:
        TopologyError: the text is not such JSON, or an attribute is impossible.
    """
    check_text(text)
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as reason:
        raise TopologyError(f"not JSON: {reason}") from None
    allowed = "expected node-link data: a mapping with nodes: [...] and links: or edges: [...]"
    if not isinstance(data, dict):
        raise TopologyError(allowed)
    data = {**data, **_flatten(data.get("elements"))}
    rows, links = data.get("nodes"), data.get("links", data.get("edges"))
    if not isinstance(rows, list) or not isinstance(links, list):
        raise TopologyError(allowed)
    nodes: dict[Hashable, Attributes] = {}
    for number, row in enumerate(rows):
        row = {"id": row} if isinstance(row, str) else _unwrap(row, f"node {number}")
        key = row.get("id", number)
        if isinstance(key, dict | list) or key in nodes:
            raise TopologyError(f"node {number}: id {key!r}: expected an id of its own")
        nodes[key] = {name: value for name, value in row.items() if name != "id"}
    edges = []
    for number, row in enumerate(links):
        row = _unwrap(row, f"link {number}")
        ends = [_find_end(row.get(end), nodes, f"link {number}: {end}") for end in _SIDES]
        rest = {name: value for name, value in row.items() if name not in _ENDS}
        edges.append((ends[0], ends[1], rest))
    return make_network(Graph(nodes, edges, data.get("directed") is True))


_SIDES = ("source", "target")


def _flatten(elements: Any) -> Mapping[str, Any]:
    """Cytoscape's elements as nodes and links."""
    return elements if isinstance(elements, dict) else {}


def _unwrap(row: Any, where: str) -> Mapping[str, Any]:
    """A node or a link; Cytoscape has its id or its ends in `data`."""
    if not isinstance(row, dict):
        raise TopologyError(f"{where}: {row!r:.40}: expected a mapping")
    data = row.get("data")
    if isinstance(data, dict) and not row.keys() & {"id", *_SIDES}:
        return {**row, **data, "data": None}
    return row


def _find_end(value: Any, nodes: Mapping[Hashable, Attributes], where: str) -> Hashable:
    """The id of a link's end, which may be written as a number or as a text."""
    if isinstance(value, dict):  # D3 replaces ids by nodes
        value = value.get("id")
    for key in (value, str(value)):
        if isinstance(key, Hashable) and key in nodes:
            return key
    same = [key for key in nodes if str(key) == str(value) or nodes[key].get("name") == value]
    if len(same) == 1:
        return same[0]
    raise TopologyError(f"{where} {value!r:.40}: there is no node of this id")
