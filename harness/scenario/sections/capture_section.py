"""A scenario's section `capture`: which directed links its names stand for (pure)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from trunkline.agents.planning.plan import Directed
from trunkline.harness.config.document import Document
from trunkline.harness.scenario.settings import Capture
from trunkline.topologies.links import LinkOverride, TopologyError
from trunkline.topologies.model import Topology


def read(source: Document, capture: Capture, topology: Topology) -> Capture:
    """Name each directed link once, as `a -> b`; note the names that stand for no link."""
    if capture.links == "all":
        return replace(capture, links=_names((link.src, link.dst) for link in topology.links))
    found: list[Directed] = []
    for index, name in enumerate(capture.links):
        try:
            found += find_links(name, topology)
        except TopologyError as error:
            text = str(error).removeprefix(f"link {name!r}: ")
            source.refuse(("capture", "links", index), text)
    return replace(capture, links=_names(iter(dict.fromkeys(found))))


def find_links(name: str, topology: Topology) -> tuple[Directed, ...]:
    """The directed links that `a -> b`, `a <-> b` or `a-b` stand for.

    Names of nodes may contain `-`, so the links of the topology decide what `a-b` means.

    Raises:
        TopologyError: there is no such link, or `a-b` may be more than one.
    """
    if "->" in name:
        ends = LinkOverride(name).ends()
        for end in ends:
            topology.link(*end)
        return ends
    words = name.strip().split("-")
    pairs = [("-".join(words[:at]), "-".join(words[at:])) for at in range(1, len(words))]
    linked = [pair for pair in pairs if topology.has_link(*pair)]
    if len(linked) == 1:
        return linked[0], linked[0][::-1]
    if linked:
        allowed = " or ".join(f"'{a} <-> {b}'" for a, b in linked)
        raise TopologyError(f"may be more than one link: expected {allowed}")
    nodes = topology.node_names
    for src, dst in sorted(pairs, key=lambda pair: -len({*pair} & {*nodes})):
        if src in nodes or dst in nodes:
            topology.link(src, dst)  # it says which site is unknown, or that there is no link
    form = "expected the name of a link, such as {0}-{1}, {0} <-> {1} or {0} -> {1}; or all"
    raise TopologyError(form.format(*_first(topology)))


def _first(topology: Topology) -> Directed:
    return topology.links[0].src, topology.links[0].dst


def _names(links: Iterator[Directed]) -> tuple[str, ...]:
    return tuple(" -> ".join(ends) for ends in links)
