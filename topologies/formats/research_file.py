"""Networks in the formats of SNDlib and Repetita (pure).

Orlowski et al., "SNDlib 1.0: Survivable Network Design Library", Networks 55(3), 2010: XML, where a
link has a capacity in Mbit/s, unless the file names another unit, and nodes have coordinates.

Gay, Schaus and Vissicchio, "REPETITA", arXiv:1710.08665: text, where a directed edge has a
bandwidth in kbit/s and a delay in us, and a node has a longitude and a latitude.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping, Sequence
from typing import Any
from xml.etree import ElementTree

from trunkline.topologies.formats.attributes import Attributes
from trunkline.topologies.formats.graph_file import check_entities
from trunkline.topologies.formats.graph_network import Graph, make_network
from trunkline.topologies.formats.network_file import Network, check_text, list_some
from trunkline.topologies.links import TopologyError

_UNITS = {"KBITPERSEC": "kbit/s", "MBITPERSEC": "Mbit/s", "GBITPERSEC": "Gbit/s"}


def read_sndlib(text: str) -> Network:
    """Read a network from SNDlib's XML.

    Raises:
        TopologyError: the text is not SNDlib's XML, or a value is impossible.
    """
    check_text(text)
    check_entities(text)
    try:
        root = ElementTree.fromstring(re.sub(r'\sxmlns="[^"]*"', "", text, count=1))
    except (ElementTree.ParseError, ValueError) as reason:
        raise TopologyError(f"not XML: {reason}") from None
    structure = root.find("networkStructure")
    if structure is None:
        raise TopologyError("not SNDlib's XML: expected network > networkStructure > nodes, links")
    listed = structure.find("nodes")
    pixels = listed is not None and listed.get("coordinatesType") == "pixel"
    unit = _UNITS.get((root.findtext("meta/unit") or "MBITPERSEC").strip(), "")
    nodes: dict[Hashable, Attributes] = {
        each.get("id", ""): {} if pixels else _read_place(each)
        for each in structure.iterfind("nodes/node")
    }
    links = structure.findall("links/link")
    edges = [
        (_text(each, "source"), _text(each, "target"), _read_capacity(each, unit)) for each in links
    ]
    return make_network(Graph(nodes, edges, False, tuple(_note_modules(links))))


def _text(element: Any, path: str) -> str:
    return (element.findtext(path) or "").strip()


def _read_place(node: Any) -> Attributes:
    x, y = (_text(node, f"coordinates/{axis}") for axis in "xy")
    return {"longitude": x, "latitude": y} if x and y else {}


def _read_capacity(link: Any, unit: str) -> dict[str, str]:
    """The installed capacity, or the one that can be installed if there is one only."""
    installed = _text(link, "preInstalledModule/capacity")
    choices = [_text(each, "capacity") for each in link.iterfind("additionalModules/addModule")]
    if not _is_above_0(installed):
        installed = choices[0] if len(choices) == 1 else ""
    return {"capacity": f"{installed} {unit}"} if installed else {}


def _is_above_0(number: str) -> bool:
    return bool(re.search("[1-9]", number.partition("e")[0]))


def _note_modules(links: Sequence[Any]) -> list[str]:
    """The links whose capacity the file leaves open."""
    several = [
        f"{_text(each, 'source')} - {_text(each, 'target')}"
        for each in links
        if not _is_above_0(_text(each, "preInstalledModule/capacity"))
        and len(each.findall("additionalModules/addModule")) > 1
    ]
    if not several:
        return []
    return [f"several capacities could be installed, so default_rate holds: {list_some(several)}"]


_NODES = ("label", "x", "y")
_EDGES = ("label", "src", "dest", "weight", "bw", "delay")


def read_repetita(text: str) -> Network:
    """Read a network from Repetita's text.

    Raises:
        TopologyError: the text is not in this format, or a value is impossible.
    """
    check_text(text)
    nodes: dict[Hashable, Attributes] = {}
    edges: list[tuple[Hashable, Hashable, Attributes]] = []
    columns: tuple[str, ...] = ()
    for number, line in enumerate(text.splitlines(), 1):
        cells = line.split()
        if not cells or line.startswith("#") or tuple(cells) in (_NODES, _EDGES):
            continue
        if cells[0] in ("NODES", "EDGES") and len(cells) <= 2:
            columns = _NODES if cells[0] == "NODES" else _EDGES
            continue
        if not columns or len(cells) != len(columns):
            allowed = " ".join(columns) or "NODES, and then EDGES"
            raise TopologyError(f"line {number}: {line[:40]!r}: expected {allowed}")
        row = dict(zip(columns, cells, strict=True))
        if columns is _NODES:
            nodes[str(len(nodes))] = _read_repetita_node(row)
        else:
            values = {"bw": f"{row['bw']} kbit/s", "delay": f"{row['delay']} us"}
            edges.append((row["src"], row["dest"], {**values, "weight": row["weight"]}))
    return make_network(Graph(nodes, edges, True))


def _read_repetita_node(row: Mapping[str, str]) -> dict[str, str]:
    label = re.sub(r"^\d+_(?=.)", "", row["label"])  # `3_Oslo` has its index in front
    try:
        x, y = float(row["x"]), float(row["y"])
    except ValueError:
        return {"label": label}
    on_earth = -180 <= x <= 180 and -90 <= y <= 90 and (x, y) != (0, 0)
    return {"label": label, **({"longitude": row["x"], "latitude": row["y"]} if on_earth else {})}
