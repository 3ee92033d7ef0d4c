"""A network from files: GML, GraphML, GEXF, JSON, DOT, SNDlib, Repetita, CSV or matrices."""

from __future__ import annotations

import contextlib
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from importlib import resources
from pathlib import Path, PurePath
from typing import Literal

if __name__ == "builtins":  # exec()ed by `mn --custom`, which leaves the package unimportable
    _FOLDERS = Path(sys._getframe().f_code.co_filename).resolve().parents
    sys.path[:0] = [str(_FOLDERS[1] / "src"), str(_FOLDERS[2])]  # of a checkout, or installed

from trunkline.topologies.formats import csv_file, dot_file, graph_file, json_graph, research_file
from trunkline.topologies.formats.attributes import Values
from trunkline.topologies.formats.network_file import (
    NOTED,
    Defaults,
    Network,
    ReadFile,
    check_node_count,
    find_links,
    list_some,
)
from trunkline.topologies.formats.network_links import make_links
from trunkline.topologies.formats.network_notes import list_notes
from trunkline.topologies.formats.quantities import RATE, TIME
from trunkline.topologies.links import TopologyError, list_choices
from trunkline.topologies.mininet_topo import mininet_topo, read_here
from trunkline.topologies.model import MAX_SITES, Site, Topology
from trunkline.topologies.rates.access import (
    AccessLink,
    add_access_links,
    attach_sites,
    make_routers,
    sum_rates,
)

READERS: dict[str, Callable[[str], Network]] = {
    ".gml": graph_file.read_gml,
    ".graphml": graph_file.read_graphml,
    ".gexf": graph_file.read_gexf,
    ".json": json_graph.read_json,
    ".dot": dot_file.read_dot,
    ".gv": dot_file.read_dot,
    ".xml": research_file.read_sndlib,
    ".graph": research_file.read_repetita,
    **dict.fromkeys((".csv", ".tsv", ".txt", ".edges", ".edgelist"), csv_file.read_edges),
}

_DATA = resources.files("trunkline.topologies") / "data"


def find_shipped() -> list[str]:
    """The names of the networks that come with Trunkline: the GML files in `topologies/data`."""
    names = [PurePath(each.name) for each in _DATA.iterdir()]
    return sorted(name.stem for name in names if name.suffix == ".gml")


def build(
    rng: random.Random,
    *,
    file: str = "",
    rates: str = "",
    delays: str = "",
    rtts: str = "",
    default_rate_mbps: float | None = None,
    default_delay_ms: float | None = None,
    route_factor: float = 1.0,
    external: bool = False,
    part: Literal["all", "largest"] = "all",
    self_loops: Literal["note", "access"] = "note",
    sites: list[str] | None = None,
    sites_per_node: int | None = None,
    hub: str = "",
    jitter_ms: float = 0.0,
    loss_percent: float = 0.0,
    queue_bytes: int | None = None,
    rate_factor: float = 1.0,
    read: ReadFile = read_here,
) -> Topology:
    """The network of `file`, or of the matrices `rates` and `delays` or `rtts`; `rng` is not used.

    Options:
        file: a file in one of the formats of docs/bring_your_network.md, relative to the scenario;
            or the name of a network that comes with Trunkline, `os3e`.
        rates: a CSV matrix of rates, in Mbit/s or with units, instead of `file`.
        delays: a CSV matrix of one-way delays, in ms or with units.
        rtts: a CSV matrix of round trips instead of `delays`; a delay is half of the round trip.
        default_rate_mbps: the rate of links for which the file has none.
        default_delay_ms: the delay of links for which the file has neither delay nor coordinates.
        route_factor: the length of cables, as a multiple of the great circle between coordinates.
        external: whether nodes with `Internal 0`, which belong to other networks, are sites too.
        part: which part of a network is used that is not connected; `largest` leaves out the other
            parts. With `all` they are an error, unless `sites` are all in one part.
        self_loops: what an edge from a node to itself says: with `note` the delay between machines
            of one node, which do not exist here; with `access` twice the delay of the node's access
            link, which its traffic with all others then has, too.
        sites: the nodes that have a site. All nodes then forward packets as routers, and each of
            these sites has a connection to each other one. By default every node is a site, with
            connections to its neighbours.
        sites_per_node: how many sites each of the nodes in `sites` has, or each node without
            `sites`: the node `a` has the sites `a-1`, `a-2` and so on, and forwards packets.
        hub: the site to which each other one has its only connection. Without `sites` and
            `sites_per_node` every node has one site, and forwards packets.
        jitter_ms, loss_percent, queue_bytes: of links for which the file has none.
        rate_factor: multiplies every rate. With a model smaller by the same factor, times
            stay the same.
    """
    matrices = {"rates": rates, "delays": delays, "rtts": rtts}
    network = _read_network(file, {key: name for key, name in matrices.items() if name}, read)
    if not 1 <= route_factor < float("inf"):  # nothing is faster than light
        raise TopologyError(f"route_factor: {route_factor}: expected 1 or more", key="route_factor")
    if not 0 < rate_factor < float("inf"):
        raise TopologyError(f"rate_factor: {rate_factor}: expected above 0", key="rate_factor")
    source = next(key for key, name in {"file": file, **matrices}.items() if name)
    with _naming(source):
        kept = network if external else network.keep(_list_internal(network))
        check_node_count(len(kept.nodes))
        kept, left_out = _choose_part(kept, part, sites)
        check_node_count(len(kept.nodes))
        defaults = Defaults(
            default_rate_mbps, default_delay_ms, jitter_ms, loss_percent, queue_bytes, route_factor
        )
        found = find_links(kept, defaults)
        outside = () if external else _note_external(network)
        unused = kept if self_loops == "note" else replace(kept, loops=())
        notes = (*outside, *left_out, *list_notes(unused))
        name = PurePath(file).stem if file else "file"
        links, origins = make_links(found, rate_factor)
        nodes = tuple(Site(node.name) for node in kept.nodes)
        places = _find_places(kept)
        topology = Topology(name, nodes, links, places=places, notes=notes, origins=origins)
    placed = _place_sites(topology, kept, sites, sites_per_node, hub)
    return _add_access(placed, topology, kept, rate_factor, delays=self_loops == "access")


def _place_sites(
    topology: Topology,
    network: Network,
    names: Sequence[str] | None,
    per_node: int | None,
    hub: str,
) -> Topology:
    """Sites at the nodes that shall have them, and their connections."""
    forwarding = [node.name for node in network.nodes if node.forwards]
    if names is None and per_node is None and not hub:
        return make_routers(topology, forwarding) if forwarding else topology
    if names is None:
        names = [name for name in topology.site_names if name not in forwarding]
    most = MAX_SITES // max(1, len(names))
    if per_node is not None and not 1 <= per_node <= most:
        allowed = f"expected 1 to {most}, which is {MAX_SITES} sites or fewer"
        raise TopologyError(f"sites_per_node: {per_node}: {allowed}", key="sites_per_node")
    for name in names:
        if name in forwarding:
            allowed = "a router of the file: expected nodes that may be sites"
            raise TopologyError(f"sites: {name!r}: {allowed}", key="sites")
    return attach_sites(topology, names, per_node, hub)


def _add_access(
    placed: Topology, nodes: Topology, network: Network, rate_factor: float, *, delays: bool
) -> Topology:
    """The topology with the access links that the file gives to its nodes."""
    inside = {edge.src: edge.values for edge in network.loops} if delays else {}
    entries, origins = [], {}
    for node in network.nodes:
        rates, delay_ms = node.access.rates_mbps, inside.get(node.name, Values()).delay_ms
        if node.name not in placed.site_names or (rates is None and delay_ms is None):
            continue
        up, down = (rate_factor * rate for rate in rates) if rates else sum_rates(nodes, node.name)
        entries.append(AccessLink(up, down, (node.name,), (delay_ms or 0.0) / 2))
        rate_origin = node.access.origin or "the sum of the rates of its node"
        origins[node.name] = {"rate_mbps": rate_origin}
        if delay_ms is not None:
            name = inside[node.name].origins["delay_ms"]
            origins[node.name]["delay_ms"] = f"half of {name} of its edge to itself"
    return add_access_links(placed, entries, origins)


def _list_internal(network: Network) -> list[str]:
    return [node.name for node in network.nodes if node.internal]


def _choose_part(
    network: Network, part: str, sites: Sequence[str] | None
) -> tuple[Network, tuple[str, ...]]:
    """The connected part that is used, and a note about the others."""
    parts = network.find_parts()
    if len(parts) == 1:
        return network, ()
    chosen: Sequence[str] | None = parts[0] if part == "largest" else None
    if sites is not None and chosen is None:
        chosen = _find_part(parts, sites)
    if chosen is None:
        sizes = " + ".join(str(len(each)) for each in parts[:NOTED])
        more = " + ..." if len(parts) > NOTED else ""
        what = f"{parts[1][0]} cannot be reached from {parts[0][0]}"
        where = f"the network has {len(parts)} parts, of {sizes}{more} nodes"
        remedy = f"part: largest takes the {len(parts[0])} nodes around {parts[0][0]}"
        raise TopologyError(f"not connected: {what}; {where}: {remedy}, or name sites: in one part")
    others = [name for each in parts if each is not chosen for name in each]
    note = f"not connected, so nodes of other parts are left out: {list_some(others, NOTED)}"
    return network.keep(chosen), (note,)


def _find_part(parts: Sequence[Sequence[str]], sites: Sequence[str]) -> Sequence[str]:
    """The part that has all of these sites."""
    homes = {name: each for each in parts for name in each}
    for name in sites:
        if name not in homes:
            raise TopologyError(f"sites: {name!r}: {list_choices(homes, name)}", key="sites")
        if homes[name] is not homes[sites[0]]:
            what = f"{name} cannot be reached from {sites[0]}: expected sites in one part"
            near = f"that of {sites[0]} has {list_some(homes[sites[0]], NOTED)}"
            raise TopologyError(f"sites: {what}; {near}", key="sites")
    return homes[sites[0]] if sites else parts[0]


def _note_external(network: Network) -> Iterator[str]:
    """The note that nodes of other networks are left out, if there are some."""
    if network.external:
        left_out = list_some(network.external, NOTED)
        yield f"nodes with Internal 0 are left out, and external: true keeps them: {left_out}"


def _find_places(network: Network) -> tuple[tuple[str, float, float], ...]:
    """The nodes with coordinates: name, latitude and longitude."""
    return tuple(
        (node.name, node.latitude, node.longitude)
        for node in network.nodes
        if node.latitude is not None and node.longitude is not None
    )


def _read_network(file: str, matrices: dict[str, str], read: ReadFile) -> Network:
    if bool(file) == bool(matrices) or {"delays", "rtts"} <= matrices.keys():
        allowed = "expected either file:, or rates: and delays: or rtts:"
        raise TopologyError(f"{', '.join(matrices) or 'no file'}: {allowed}")
    if file:
        with _naming("file"):
            return _read_file(file, read)
    tables = {}
    for key, name in matrices.items():
        with _naming(key):
            tables[key] = _read_table(key, read(name))
    with _naming([*matrices][-1]):
        if "rtts" in tables:
            return csv_file.combine(tables.get("rates"), tables["rtts"], "half of rtts")
        return csv_file.combine(tables.get("rates"), tables.get("delays"))


def _read_file(name: str, read: ReadFile) -> Network:
    if name in (shipped := find_shipped()):
        return graph_file.read_gml((_DATA / f"{name}.gml").read_text(encoding="utf-8"))
    suffix = PurePath(name).suffix.lower()
    if suffix not in READERS:
        forms = f"a file that ends in {', '.join(READERS)}, not compressed"
        allowed = f"expected {forms}, or a network that comes with Trunkline: "
        raise TopologyError(allowed + ", ".join(shipped))
    if not (text := read(name)).strip("\ufeff \t\r\n"):
        raise TopologyError("empty: expected nodes and links")
    return READERS[suffix](text)


def _read_table(key: str, text: str) -> csv_file.Table:
    if key == "rates":
        return csv_file.read_matrix(text, RATE)
    table = csv_file.read_matrix(text, TIME)
    return csv_file.halve(table) if key == "rtts" else table


@contextlib.contextmanager
def _naming(key: str) -> Iterator[None]:
    """Let errors be about this option, unless they are about `sites` or one of every link."""
    try:
        yield
    except TopologyError as error:
        if str(error).startswith("sites: "):
            raise
        kept = ("jitter_ms", "loss_percent", "queue_bytes")
        raise error.with_keys(lambda own: own if own in kept else key) from None


topos = {"file": mininet_topo(build)}
