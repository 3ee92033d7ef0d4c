"""What the user of a file should know about how it was read, a sentence each (pure)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from trunkline.topologies.formats.network_file import NOTED, Edge, Network, Node, list_some
from trunkline.topologies.formats.node_names import keeps_letters
from trunkline.topologies.formats.quantities import quote


def list_notes(network: Network) -> tuple[str, ...]:
    """What should be known about these nodes and edges."""
    renamed = [node for node in network.nodes if not keeps_letters(node.name, node.label)]
    return (
        *_note_names(renamed),
        *_note_routers(network.nodes),
        *_note_reverses([edge for edge in network.edges if edge.assumed]),
        *_note_parallels(network.edges),
        *_note_labels(network.edges),
        *_note_loops(network.loops),
        *_note_unused(network),
        *network.remarks,
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
        if edge.label and edge.values.rate_mbps is None:
            text = f"{edge.src} - {edge.dst} {quote(edge.label)}"
            labels.setdefault(frozenset((edge.src, edge.dst)), text)
    if labels:
        links = _count(len(labels), "link")
        which = list_some([*labels.values()])
        yield f"{links} a label, which is not read, and no rate, so default_rate holds: {which}"


def _note_routers(nodes: Sequence[Node]) -> Iterator[str]:
    if names := [node.name for node in nodes if node.forwards]:
        what = "is a router" if len(names) == 1 else "are routers"
        yield f"{list_some(names, NOTED)} {what}, because the file says so, and no site"


def _note_parallels(edges: Sequence[Edge]) -> Iterator[str]:
    counts = Counter((edge.src, edge.dst) for edge in edges)
    several = dict.fromkeys(tuple(sorted(pair)) for pair, count in counts.items() if count > 1)
    if pairs := [f"{src} - {dst}" for src, dst in several]:
        links = _count(len(pairs), "link")
        rule = "their rates add up, and other values are of the edge with the shortest delay"
        yield f"{links} parallel edges in the file: {rule}: {list_some(pairs)}"


def _note_loops(loops: Sequence[Edge]) -> Iterator[str]:
    said = [
        f"{edge.src} {values.delay_ms:g} ms ({values.origins['delay_ms']})"
        for edge in loops
        if (values := edge.values).delay_ms is not None
    ]
    if said:
        text = (
            "an edge from a node to itself is the delay between machines of one place, and a site"
        )
        use = "self_loops: access gives half of it to each access link"
        yield f"{text} is one machine, so it is not used; {use}: {list_some(said, NOTED)}"


def _note_unused(network: Network) -> Iterator[str]:
    of_edges = [
        (" - ".join(sorted((edge.src, edge.dst))), each)
        for edge in network.edges
        if not edge.assumed
        for each in edge.values.unused
    ]
    of_nodes = [(node.name, each) for node in network.nodes for each in node.access.unused]
    for what, rows in (("edges", of_edges), ("nodes", of_nodes)):
        found: dict[str, list[str]] = {}
        for where, (name, value) in rows:
            found.setdefault(name, []).append(f"{where} {quote(value)}")
        for name, texts in found.items():
            some = list_some([*dict.fromkeys(texts)])
            yield f"attribute {name} of {what} is not used: {some}"
