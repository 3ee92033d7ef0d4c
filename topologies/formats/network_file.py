"""Networks that users describe in files: nodes, edges, and the links that follow from them (pure).

Readers such as `graph_file` and `csv_file` return a `Network`. A value that the file lacks is None
there; `find_links` computes it from coordinates, or takes a default, and says which.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from trunkline.topologies.formats.attributes import FIBRE_KM_PER_MS, Access, Values
from trunkline.topologies.links import RATES_MBPS, TopologyError
from trunkline.topologies.model import MAX_SITES, check_link_count
from trunkline.topologies.rates.matrix import Pair

ReadFile = Callable[[str], str]
"""Reads a text file by its name. Raises TopologyError if it cannot."""

MAX_CHARACTERS = 4_000_000
"""The longest file. The largest network of the Internet Topology Zoo has a tenth of this."""

EARTH_RADIUS_KM = 6371.0

DEFAULT = "default"
"""How the origin of a value begins that no file gives."""

BANDWIDTH_DELAY = "default (one bandwidth-delay product)"
"""Where the queue of a link comes from that nothing else gives."""

NOTED = 10
"""A note lists at most this many sites."""


@dataclass(frozen=True, slots=True)
class Problems:
    """What is wrong in a file, noted part by part, so that all of it is refused at once."""

    texts: list[str] = field(default_factory=list)

    @contextlib.contextmanager
    def noting(self, where: str = "") -> Iterator[None]:
        """Note the problems of one part of the file, each with its place in front."""
        try:
            yield
        except TopologyError as error:
            self.texts.extend(f"{where}{text}" for text in error.problems)

    def refuse(self) -> None:
        """Raises TopologyError if a problem has been noted; lines come in their order."""
        if self.texts:
            raise TopologyError("\n".join(sorted(self.texts, key=_find_line)))


def _find_line(problem: str) -> int:
    match = re.match(r"line (\d+):", problem)
    return int(match[1]) if match else 0


@dataclass(frozen=True, slots=True)
class Node:
    """A node of a network.

    Attributes:
        name: its name as a site.
        latitude: in degrees, None if it is unknown.
        longitude: in degrees, None if it is unknown.
        internal: whether it belongs to the network, as opposed to a neighbouring network.
        label: what the file calls it; empty if that is its name.
        forwards: whether it only forwards packets: a hyperedge, or a switch.
        access: the file's values for its own connection, and those of them that are not used.
    """

    name: str
    latitude: float | None = None
    longitude: float | None = None
    internal: bool = True
    label: str = ""
    forwards: bool = False
    access: Access = field(default_factory=Access)

    def __post_init__(self) -> None:
        for what, value, most in (
            ("latitude", self.latitude, 90),
            ("longitude", self.longitude, 180),
        ):
            if value is not None and not -most <= value <= most:
                text = f"{what} {value}: expected -{most} to {most}"
                raise TopologyError(text)


@dataclass(frozen=True, slots=True)
class Edge:
    """A directed connection of two nodes, and what the file says about it.

    It is `assumed` if the file has only its reverse, although it could have both. Its `label` is
    text of the file, which is not read.
    """

    src: str
    dst: str
    values: Values = field(default_factory=Values)
    assumed: bool = False
    label: str = ""


@dataclass(frozen=True, slots=True)
class Network:
    """The nodes of a file in its order, and its directed edges; edges may be parallel.

    Attributes:
        nodes: in the order of the file.
        edges: between two nodes.
        loops: edges from a node to itself, which are no links.
        remarks: what else its user should know, a sentence each.
    """

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    loops: tuple[Edge, ...] = ()
    remarks: tuple[str, ...] = ()

    def keep(self, names: Iterable[str]) -> Network:
        """These nodes, and the edges between them."""
        kept = {*names}
        return replace(
            self,
            nodes=tuple(node for node in self.nodes if node.name in kept),
            edges=tuple(edge for edge in self.edges if {edge.src, edge.dst} <= kept),
            loops=tuple(edge for edge in self.loops if edge.src in kept),
        )

    @property
    def external(self) -> tuple[str, ...]:
        """The nodes of neighbouring networks."""
        return tuple(node.name for node in self.nodes if not node.internal)

    def find_parts(self) -> list[list[str]]:
        """The names of the nodes of each connected part, the largest part first."""
        near: dict[str, list[str]] = {node.name: [] for node in self.nodes}
        for edge in self.edges:
            near[edge.src].append(edge.dst)
            near[edge.dst].append(edge.src)
        parts: list[list[str]] = []
        seen: set[str] = set()
        for name in near:
            if name not in seen:
                part = {name: None}
                queue = [name]
                while queue:
                    new = [each for each in near[queue.pop()] if each not in part]
                    part |= dict.fromkeys(new)
                    queue += new
                seen |= part.keys()
                parts.append([each for each in near if each in part])
        return sorted(parts, key=len, reverse=True)


@dataclass(frozen=True, slots=True)
class Defaults:
    """The values of links that the file lacks; None if there is none.

    Attributes:
        rate_mbps: the rate of edges without one.
        delay_ms: the delay of edges without a delay and without coordinates.
        jitter_ms: the jitter of edges without one.
        loss_percent: the loss of edges without one.
        queue_bytes: the queue of edges without one; None is one bandwidth-delay product.
        route_factor: the length of a cable, as a multiple of the great circle.
    """

    rate_mbps: float | None = None
    delay_ms: float | None = None
    jitter_ms: float = 0.0
    loss_percent: float = 0.0
    queue_bytes: int | None = None
    route_factor: float = 1.0


def find_links(network: Network, defaults: Defaults) -> dict[Pair, Values]:
    """The directed links of a network, each with a rate, a delay, a jitter and a loss.

    A delay that the file lacks is that of light in fibre between the coordinates of both ends, and
    without coordinates the default. Parallel edges are one link: their rates add up, and the other
    values are those of the edge with the shortest delay.

    If all nodes have rates of their own connections, edges without a rate are as fast as all of
    these together, so that they limit nothing.

    Raises:
        TopologyError: edges have no rate or no delay, and there is no default; or there are too
            many links.
    """
    places = {node.name: node for node in network.nodes}
    ample_mbps = _find_ample_mbps(network)
    links: dict[Pair, Values] = {}
    without_rate, without_delay = [], []
    for edge in network.edges:
        values = _complete(edge, places, defaults, ample_mbps)
        if values.rate_mbps is None:
            without_rate.append(f"{edge.src} -> {edge.dst}")
        if values.delay_ms is None:
            without_delay.append(f"{edge.src} -> {edge.dst}")
        if values.rate_mbps is not None and values.delay_ms is not None:
            pair = edge.src, edge.dst
            links[pair] = _join(links[pair], values) if pair in links else values
    problems = Problems()
    if without_rate:
        where = list_some(without_rate)
        example = "give default_rate, such as default_rate: 10 Gbit/s"
        problems.texts.append(f"no rate for {where}: {example}")
    if without_delay:
        where = list_some(without_delay)
        remedy = "give default_delay, such as default_delay: 10 ms"
        problems.texts.append(f"no delay and no coordinates for {where}: {remedy}")
    problems.refuse()
    check_link_count(len(links))
    return links


def _find_ample_mbps(network: Network) -> float | None:
    """A rate that limits no traffic of the nodes; None if their own connections do not say it."""
    known = [node.access.rates_mbps for node in network.nodes if not node.forwards]
    rates = [max(each) for each in known if each is not None]
    return min(math.fsum(rates), RATES_MBPS[1]) if rates and len(rates) == len(known) else None


def _complete(
    edge: Edge, places: Mapping[str, Node], defaults: Defaults, ample_mbps: float | None
) -> Values:
    """The values of an edge: those in the file, and defaults for the others."""
    values = edge.values
    origins = dict(values.origins)
    filled: dict[str, Any] = {}

    def fill(key: str, value: float | None, origin: str) -> None:
        if getattr(values, key) is None and filled.get(key) is None and value is not None:
            filled[key], origins[key] = value, origin

    fill("rate_mbps", defaults.rate_mbps, "default (default_rate)")
    fill("rate_mbps", ample_mbps, "the rates of all nodes together")
    across_ms = find_delay_ms(places[edge.src], places[edge.dst], defaults.route_factor)
    fill("delay_ms", across_ms, "coordinates (light in fibre)")
    fill("delay_ms", defaults.delay_ms, "default (default_delay)")
    fill("jitter_ms", defaults.jitter_ms, "default (jitter)")
    fill("loss_percent", defaults.loss_percent, "default (loss)")
    fill("queue_bytes", defaults.queue_bytes, "default (queue)")
    origins.setdefault("queue_bytes", BANDWIDTH_DELAY)
    return replace(values, **filled, origins=origins)


def _join(one: Values, other: Values) -> Values:
    """The link of two parallel edges."""
    first = min(one, other, key=lambda each: each.delay_ms or 0.0)
    assert one.rate_mbps is not None
    assert other.rate_mbps is not None
    origins = {**first.origins, "rate_mbps": "the sum of parallel edges"}
    return replace(first, rate_mbps=one.rate_mbps + other.rate_mbps, origins=origins)


def find_delay_ms(one: Node, other: Node, route_factor: float = 1.0) -> float | None:
    """The one-way delay of light in fibre along the great circle, in ms, rounded to 1 us.

    It is None if a node has no coordinates.
    """
    if None in (one.latitude, one.longitude, other.latitude, other.longitude):
        return None
    return round(route_factor * great_circle_km(one, other) / FIBRE_KM_PER_MS, 3)


def great_circle_km(one: Node, other: Node) -> float:
    """The distance of two nodes with coordinates on a sphere, by the haversine formula."""
    phi, psi = math.radians(one.latitude or 0), math.radians(other.latitude or 0)
    turn = math.radians((other.longitude or 0) - (one.longitude or 0))
    half = math.sin((psi - phi) / 2) ** 2
    half += math.cos(phi) * math.cos(psi) * math.sin(turn / 2) ** 2
    return 2 * EARTH_RADIUS_KM * math.asin(min(1.0, math.sqrt(half)))


def with_reverses(edges: Sequence[Edge], directed: bool = True) -> tuple[Edge, ...]:
    """Let each edge whose reverse is not there stand for both directions.

    In a `directed` network the reverse is then assumed.
    """
    pairs = {(edge.src, edge.dst) for edge in edges}
    return tuple(
        each
        for edge in edges
        for each in (
            (edge,)
            if (edge.dst, edge.src) in pairs
            else (edge, replace(edge, src=edge.dst, dst=edge.src, assumed=directed))
        )
    )


def check_text(text: str) -> None:
    """Raises TopologyError if a file is too long to be read soon, or obviously something else."""
    if len(text) > MAX_CHARACTERS:
        raise TopologyError(f"{len(text)} characters: expected {MAX_CHARACTERS} or fewer")
    if "\0" in text:
        line = text[: text.index("\0")].count("\n") + 1
        raise TopologyError(f"line {line}: a character 0: expected text, not binary data")
    start = text[:200].lstrip("\ufeff \t\r\n").lower()
    for sign, what in _OTHERS.items():
        if start.startswith(sign):
            raise TopologyError(f"{what}: expected the file of a network itself")


_OTHERS = {
    "version https://git-lfs": "a pointer of Git LFS (`git lfs pull` gets the file)",
    "<!doctype html": "a web page",
    "<html": "a web page",
}
"""How files begin that somebody has downloaded instead of a network."""


def check_node_count(count: int, where: str = "") -> None:
    """Raises TopologyError if a network has too few or too many nodes."""
    if not 2 <= count <= MAX_SITES:
        raise TopologyError(f"{where}{count} nodes: expected 2 to {MAX_SITES}")


def list_some(names: Sequence[str], most: int = 3) -> str:
    """The first names, at most `most`, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
