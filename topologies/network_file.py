"""Networks that users describe in files: nodes, edges, and the links that follow from them (pure).

`graph_file` reads GML and GraphML, `csv_file` reads CSV. Both return a `Network`. A value that the
file lacks is None there; `find_links` computes it from coordinates, or takes a default.
"""

from __future__ import annotations

import contextlib
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal

from trunkline.topologies.links import TopologyError
from trunkline.topologies.matrix import Pair
from trunkline.topologies.model import MAX_SITES, check_link_count, check_site_name

ReadFile = Callable[[str], str]
"""Reads a text file by its name. Raises TopologyError if it cannot."""

MAX_CHARACTERS = 4_000_000
"""The longest file. The largest network of the Internet Topology Zoo has a tenth of this."""

EARTH_RADIUS_KM = 6371.0

FIBRE_KM_PER_MS = 299.792458 * 2 / 3
"""Light in fibre: two thirds of its speed in vacuum."""

_LETTERS = str.maketrans(
    {"æ": "ae", "œ": "oe", "ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "ħ": "h", "ŧ": "t",
     "ŋ": "n", "\u0131": "i", "ĸ": "k", "ə": "e", "ƶ": "z", "ɛ": "e", "ɔ": "o"}
)  # fmt: skip
"""Latin letters that are no letter with an accent, in lower case -> how they are written without
them."""

_MAX_NAME = 32

NOTED = 10
"""A note lists at most this many sites."""

LABEL_CHARACTERS = 40
"""The most characters of a value that notes and errors quote."""


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
    """

    name: str
    latitude: float | None = None
    longitude: float | None = None
    internal: bool = True
    label: str = ""

    def __post_init__(self) -> None:
        for what, value, most in (
            ("latitude", self.latitude, 90),
            ("longitude", self.longitude, 180),
        ):
            if value is not None and not -most <= value <= most:
                text = f"node {self.name}: {what} {value}: expected -{most} to {most}"
                raise TopologyError(text)


@dataclass(frozen=True, slots=True)
class Edge:
    """A directed connection of two nodes; a rate in Mbit/s or delay in ms may be unknown.

    It is `assumed` if the file has only its reverse, although it could have both. Its `label` is
    what the file has in place of a rate.
    """

    src: str
    dst: str
    rate_mbps: float | None = None
    delay_ms: float | None = None
    assumed: bool = False
    label: str = ""


@dataclass(frozen=True, slots=True)
class Network:
    """The nodes of a file in its order, and its directed edges; edges may be parallel."""

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]

    def without_external(self) -> Network:
        """The internal nodes, and the edges between them."""
        nodes = tuple(node for node in self.nodes if node.internal)
        kept = {node.name for node in nodes}
        edges = tuple(edge for edge in self.edges if edge.src in kept and edge.dst in kept)
        return Network(nodes, edges)

    @property
    def external(self) -> tuple[str, ...]:
        """The nodes of neighbouring networks."""
        return tuple(node.name for node in self.nodes if not node.internal)

    @property
    def notes(self) -> tuple[str, ...]:
        """What the file's author should know about how it was read, a sentence each."""
        renamed = [node for node in self.nodes if not keeps_letters(node.name, node.label)]
        assumed = [edge for edge in self.edges if edge.assumed]
        return (*_note_names(renamed), *_note_reverses(assumed), *_note_labels(self.edges))


@dataclass(frozen=True, slots=True)
class Values:
    """The rate in Mbit/s and the one-way delay in ms of a directed link."""

    rate_mbps: float
    delay_ms: float


def find_links(
    network: Network,
    *,
    default_rate_mbps: float | None = None,
    default_delay_ms: float | None = None,
    route_factor: float = 1.0,
) -> dict[Pair, Values]:
    """The directed links of a network.

    A delay that the file lacks is that of light in fibre between the coordinates of both ends, and
    without coordinates the default. Parallel edges are one link: their rates add up, and the
    shortest delay counts.

    Args:
        network: the network.
        default_rate_mbps: the rate of edges without one.
        default_delay_ms: the delay of edges without a delay and without coordinates.
        route_factor: the length of a cable, as a multiple of the great circle.

    Raises:
        TopologyError: edges have no rate or no delay, and there is no default; or there are too
            many links.
    """
    places = {node.name: node for node in network.nodes}
    links: dict[Pair, Values] = {}
    without_rate, without_delay = [], []
    for edge in network.edges:
        rate = default_rate_mbps if edge.rate_mbps is None else edge.rate_mbps
        delay = edge.delay_ms
        if delay is None:
            delay = find_delay_ms(places[edge.src], places[edge.dst], route_factor)
        delay = default_delay_ms if delay is None else delay
        if rate is None:
            without_rate.append(f"{edge.src} -> {edge.dst}")
        if delay is None:
            without_delay.append(f"{edge.src} -> {edge.dst}")
        if rate is not None and delay is not None:
            pair = edge.src, edge.dst
            known = links.get(pair, Values(0.0, math.inf))
            links[pair] = Values(known.rate_mbps + rate, min(known.delay_ms, delay))
    problems = Problems()
    if without_rate:
        problems.texts.append(f"no rate for {list_some(without_rate)}: give default_rate")
    if without_delay:
        where = list_some(without_delay)
        problems.texts.append(f"no delay and no coordinates for {where}: give default_delay")
    problems.refuse()
    check_link_count(len(links))
    return links


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


def _count(number: int, what: str) -> str:
    return f"1 {what} has" if number == 1 else f"{number} {what}s have"


def _note_names(nodes: Sequence[Node]) -> Iterator[str]:
    if nodes:
        sites = _count(len(nodes), "site")
        changes = [f"{node.name} is {quote(node.label)}" for node in nodes]
        yield f"{sites} another name than in the file: {list_some(changes, NOTED)}"


def _note_reverses(edges: Sequence[Edge]) -> Iterator[str]:
    if edges:
        links = _count(len(edges), "link")
        each = "it stands" if len(edges) == 1 else "each stands"
        pairs = [f"{edge.dst} -> {edge.src}" for edge in edges]
        yield f"{links} no reverse in the file, so {each} for both directions: {list_some(pairs)}"


def _note_labels(edges: Sequence[Edge]) -> Iterator[str]:
    labels = dict[frozenset[str], str]()
    for edge in edges:
        if edge.label and edge.rate_mbps is None:
            text = f"{edge.src} - {edge.dst} {quote(edge.label)}"
            labels.setdefault(frozenset((edge.src, edge.dst)), text)
    if labels:
        links = _count(len(labels), "link")
        which = list_some([*labels.values()])
        yield f"{links} a label, which is not read, and no rate, so default_rate holds: {which}"


def check_characters(text: str) -> None:
    """Raises TopologyError if a file is too long, so that reading it would take long."""
    if len(text) > MAX_CHARACTERS:
        raise TopologyError(f"{len(text)} characters: expected {MAX_CHARACTERS} or fewer")


def check_node_count(count: int, where: str = "") -> None:
    """Raises TopologyError if a network has too few or too many nodes."""
    if not 2 <= count <= MAX_SITES:
        raise TopologyError(f"{where}{count} nodes: expected 2 to {MAX_SITES}")


def quote(text: str) -> str:
    """A user's text in quotation marks, without its end if it is long."""
    cut = text if len(text) <= LABEL_CHARACTERS else f"{text[: LABEL_CHARACTERS - 1]}…"
    return repr(cut)


def list_some(names: Sequence[str], most: int = 3) -> str:
    """The first names, at most `most`, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


# -- names of sites -------------------------------------------------------------------------------


def name_site(label: str) -> str:
    """The name of the site with a label: `São Paulo (GRU)` becomes `sao-paulo-gru`.

    A name that a site may have stays as it is. Words that are not names get `node-` in front:
    `7` becomes `node-7`.
    """
    if _is_name(label):
        return label
    name = _join_words(label)[:_MAX_NAME].rstrip("-")
    return name if _is_name(name) else f"node-{name}"[:_MAX_NAME].rstrip("-")


def spell(label: str) -> str:
    """A label in lower case and ASCII; letters that Latin script does not have are left out."""
    latin = label.casefold().translate(_LETTERS)
    return unicodedata.normalize("NFKD", latin).encode("ascii", "ignore").decode()


def _join_words(label: str) -> str:
    """The words of a label, as far as they are Latin, with `-` between them."""
    return re.sub(r"[^a-z0-9]+", "-", spell(label)).strip("-")


def keeps_letters(name: str, label: str) -> bool:
    """Whether a name has all letters of its label, apart from case, accents and `-` for others."""
    is_latin = all(spell(char) for char in label if char.isalnum())
    return not label or (is_latin and name in (label, _join_words(label)))


def name_sites(labels: Sequence[str]) -> list[str]:
    """The names of sites with these labels. Equal names are numbered: `oslo`, `oslo-2`."""
    wanted = [name_site(label) for label in labels]
    taken, seen = set(wanted), set[str]()
    counts: Counter[str] = Counter()
    names: list[str] = []
    for name in wanted:
        chosen = name
        while chosen in seen or (chosen != name and chosen in taken):
            counts[name] += 1
            chosen = _number(name, counts[name] + 1)
        seen.add(chosen)
        names.append(chosen)
    return names


def _number(name: str, number: int) -> str:
    kept = _MAX_NAME - len(f"-{number}")
    numbered = f"{name[:kept]}-{number}"  # `1e` would become the number 1e-2
    return numbered if _is_name(numbered) else f"{f'node-{name}'[:kept]}-{number}"


def _is_name(name: str) -> bool:
    try:
        check_site_name(name)
    except TopologyError:
        return False
    return True


# -- quantities -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Unit:
    """What a number measures, its unit if it has none, and the sizes of the units it may have."""

    name: str
    plain: str
    sizes: Mapping[str, Decimal]
    above_0: bool = False


RATE = Unit(
    "a rate above 0",
    "Mbit/s",
    {
        "bit/s": Decimal("0.000001"),
        "kbit/s": Decimal("0.001"),
        "Mbit/s": Decimal(1),
        "Gbit/s": Decimal(1000),
    },
    above_0=True,
)
TIME = Unit(
    "a time of 0 or more", "ms", {"us": Decimal("0.001"), "ms": Decimal(1), "s": Decimal(1000)}
)

_QUANTITY = re.compile(r"\s*([0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?)\s*(\S*)\s*")


def read_quantity(value: object, unit: Unit) -> float:
    """Read `2.5 Gbit/s`, or a number without a unit in Mbit/s or ms.

    Raises:
        TopologyError: the value is not a quantity of this unit.
    """
    match = _QUANTITY.fullmatch(str(value))
    size = unit.sizes.get(match[2] or unit.plain) if match else None
    try:
        if match is not None and size is not None:
            number = Decimal(match[1]) * size
            if number or not unit.above_0:
                return float(number)
    except ArithmeticError:  # an exponent beyond what Decimal can hold
        return math.inf
    units = ", ".join(unit.sizes)
    allowed = f"expected {unit.name} in {unit.plain}, or with a unit ({units})"
    raise TopologyError(f"{quote(str(value))}: {allowed}")
