"""Checks the `background:` of a scenario against its network (pure)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from trunkline.harness.background.flows import MIN_PACKET_BYTES, Background
from trunkline.harness.config import units
from trunkline.harness.config.document import Document, KeyPath, list_choices
from trunkline.topologies.model import Topology

MOST_OVERLOAD = 10.0
"""A flow may have up to this many times the rate of the slowest link on its way: each packet that
is dropped costs as much real time as one that arrives."""


def check(
    source: Document, entries: Sequence[Background], mtu: int, topology: Topology | None
) -> None:
    """Note flows between no sites, packets that links do not carry, and rates far above theirs.

    Args:
        source: the document.
        entries: its flows.
        mtu: the largest IP packet of the links, in bytes.
        topology: the network; None if that is not known.
    """
    sites = topology.site_names if topology else ()
    for index, entry in enumerate(entries):
        path: KeyPath = ("background", index)
        for key in ("src", "dst"):
            given = source.get((*path, key))
            named: dict[KeyPath, str] = {(*path, key): given}
            if not isinstance(given, str):
                named = {(*path, key, number): site for number, site in enumerate(given)}
            for place, site in named.items():
                if sites and site not in sites:
                    source.refuse(place, list_choices(sites, site))
        if entry.kind != "tcp" and entry.packet_bytes > mtu:
            allowed = f"expected {MIN_PACKET_BYTES} B to {mtu} B, the network's mtu"
            source.refuse((*path, "packet"), allowed)
        if topology and set(entry.sites) <= set(sites):
            least_mbps = min(_slowest_mbps(topology, *ends) for ends in entry.pairs())
            if entry.rate_mbps > MOST_OVERLOAD * least_mbps:
                most = units.render(MOST_OVERLOAD * least_mbps, units.RATE_MBPS)
                allowed = f"expected up to {most}, {MOST_OVERLOAD:g} times the slowest link there"
                source.refuse((*path, "rate"), allowed)


def _slowest_mbps(topology: Topology, src: str, dst: str) -> float:
    return min(topology.link(*hop).rate_mbps for hop in pairwise(topology.path(src, dst)))
