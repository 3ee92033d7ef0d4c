"""Checks the `background:` of a scenario against its network (pure)."""

from __future__ import annotations

from collections.abc import Sequence

from trunkline.harness.background.flows import MIN_PACKET_BYTES, Background
from trunkline.harness.config.document import Document, KeyPath, list_choices


def check(source: Document, entries: Sequence[Background], mtu: int, sites: Sequence[str]) -> None:
    """Note flows between no sites, and packets that links do not carry.

    Args:
        source: the document.
        entries: its flows.
        mtu: the largest IP packet of the links, in bytes.
        sites: the sites; empty if they are not known.
    """
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
            allowed = f"allowed is {MIN_PACKET_BYTES} B to {mtu} B, the network's mtu"
            source.refuse((*path, "packet"), allowed)
