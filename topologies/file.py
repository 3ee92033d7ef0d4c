"""A network from files: GML, GraphML, or CSV (a list of links, or matrices)."""

from __future__ import annotations

import contextlib
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib import resources
from pathlib import Path, PurePath

if __name__ == "builtins":  # exec()ed by `mn --custom`, which leaves the package unimportable
    _FOLDERS = Path(sys._getframe().f_code.co_filename).resolve().parents
    sys.path[:0] = [str(_FOLDERS[1] / "src"), str(_FOLDERS[2])]  # of a checkout, or installed

from trunkline.topologies import csv_file, graph_file
from trunkline.topologies.access import attach_sites
from trunkline.topologies.links import Link, TopologyError, check_values
from trunkline.topologies.mininet_topo import mininet_topo, read_here
from trunkline.topologies.model import Site, Topology
from trunkline.topologies.network_file import (
    NOTED,
    RATE,
    TIME,
    Network,
    Problems,
    ReadFile,
    check_node_count,
    find_links,
    list_some,
)

READERS: dict[str, Callable[[str], Network]] = {
    ".gml": graph_file.read_gml,
    ".graphml": graph_file.read_graphml,
    ".csv": csv_file.read_edges,
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
    sites: list[str] | None = None,
    jitter_ms: float = 0.0,
    loss_percent: float = 0.0,
    queue_bytes: int | None = None,
    rate_factor: float = 1.0,
    read: ReadFile = read_here,
) -> Topology:
    """The network of `file`, or of the matrices `rates` and `delays` or `rtts`; `rng` is not used.

    Options:
        file: a GML, GraphML or CSV file (src, dst, rate, delay or rtt), relative to the scenario;
            or the name of a network that comes with Trunkline, `os3e`.
        rates: a CSV matrix of rates, in Mbit/s or with units, instead of `file`.
        delays: a CSV matrix of one-way delays, in ms or with units.
        rtts: a CSV matrix of round trips instead of `delays`; a delay is half of the round trip.
        default_rate_mbps: the rate of links for which the file has none.
        default_delay_ms: the delay of links for which the file has neither delay nor coordinates.
        route_factor: the length of cables, as a multiple of the great circle between coordinates.
        external: whether nodes with `Internal 0`, which belong to other networks, are sites too.
        sites: the nodes that have a site. All nodes then forward packets as routers, and each of
            these sites has a connection to each other one. By default every node is a site, with
            connections to its neighbours.
        jitter_ms, loss_percent, queue_bytes: of every link.
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
        kept = network if external else network.without_external()
        check_node_count(len(kept.nodes))
        found = find_links(
            kept,
            default_rate_mbps=default_rate_mbps,
            default_delay_ms=default_delay_ms,
            route_factor=route_factor,
        )
        links = tuple(
            Link(
                *pair,
                rate_factor * values.rate_mbps,
                values.delay_ms,
                jitter_ms,
                loss_percent,
                queue_bytes,
            )
            for pair, values in found.items()
        )
        _check_file_values(links)
        notes = kept.notes if external else (*_note_external(network), *kept.notes)
        nodes = tuple(Site(node.name) for node in kept.nodes)
        name = PurePath(file).stem if file else "file"
        topology = Topology(name, nodes, links, places=_find_places(kept), notes=notes)
    return topology if sites is None else attach_sites(topology, sites)


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
        return csv_file.combine(tables.get("rates"), tables.get("delays") or tables.get("rtts"))


def _read_file(name: str, read: ReadFile) -> Network:
    if name in (shipped := find_shipped()):
        return graph_file.read_gml((_DATA / f"{name}.gml").read_text(encoding="utf-8"))
    suffix = PurePath(name).suffix.lower()
    if suffix not in READERS:
        forms = f"a file that ends in {', '.join(READERS)}"
        allowed = f"expected {forms}, or a network that comes with Trunkline: "
        raise TopologyError(allowed + ", ".join(shipped))
    return READERS[suffix](read(name))


def _read_table(key: str, text: str) -> csv_file.Table:
    if key == "rates":
        return csv_file.read_matrix(text, RATE)
    table = csv_file.read_matrix(text, TIME)
    return csv_file.halve(table) if key == "rtts" else table


def _check_file_values(links: Sequence[Link]) -> None:
    """Raises TopologyError if rates or delays are impossible, which the file gives link by link."""
    problems = Problems()
    for link in links:
        with problems.noting():
            bare = Link(link.src, link.dst, link.rate_mbps, link.delay_ms)
            check_values(f"link {link.src} -> {link.dst}", bare)
    problems.refuse()


@contextlib.contextmanager
def _naming(key: str) -> Iterator[None]:
    """Let errors be about this option, unless they are about one of every link."""
    try:
        yield
    except TopologyError as error:
        of_every_link = error.key in ("jitter_ms", "loss_percent", "queue_bytes")
        raise TopologyError(str(error), error.key if of_every_link else key) from None


topos = {"file": mininet_topo(build)}
