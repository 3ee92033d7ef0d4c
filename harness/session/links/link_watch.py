"""Logs changes of links that the run does not make: by a program, or by a typed command."""

from __future__ import annotations

import socket
from collections.abc import Callable, Collection
from functools import partial

from trunkline.agents.events.fault_events import LinkAltered, WaysAltered
from trunkline.harness.network.interface import site_address, site_ipv6_address
from trunkline.harness.network.mininet_net import MininetNetwork
from trunkline.harness.network.read_back import Heard, Interface
from trunkline.harness.network.ways import Difference

SET_BACK = "something was changed and set back, or added that the run does not read"
"""What is found if the kernel has told a change, and everything is as it should be."""


class LinkWatch:
    """Hears of changes at all nodes, and reads back what the kernel has.

    `readable` has a function for each descriptor, to be called when there is something to read.
    Each difference is logged once by `add`, which stamps events.
    """

    def __init__(self, network: MininetNetwork, add: Callable[..., None]) -> None:
        self._network = network
        self._add = add
        self._listeners = {node: network.listen(node) for node in network.topology.node_names}
        self._found: dict[tuple[str, str], Interface | None] = {}
        self._ways: dict[str, list[Difference]] = {}
        self._names: dict[bytes, str] = {}
        for rank, node in enumerate(network.topology.node_names):
            self._names[socket.inet_pton(socket.AF_INET, site_address(rank))] = node
            self._names[socket.inet_pton(socket.AF_INET6, site_ipv6_address(rank))] = node
        self.readable = {
            listener.fd: partial(self._hear, node) for node, listener in self._listeners.items()
        }

    def close(self) -> None:
        """Close the sockets."""
        for listener in self._listeners.values():
            listener.close()

    def finish(self) -> None:
        """Read all links back as the run ends."""
        for node, listener in self._listeners.items():
            heard = listener.take()
            self._compare(node, heard.shaped)
            if heard.ways or heard.lost:
                self._compare_ways(node, heard)

    def _hear(self, node: str) -> None:
        """Read a node back if what the kernel tells is not what the run has set."""
        heard = self._listeners[node].take()
        wanted = {index: interface.device for _, index, interface in self._network.wanted(node)}
        differs = any(
            index in wanted and heard.links[index] != wanted[index] for index in heard.links
        )
        if differs or heard.lost or heard.shaped & wanted.keys():
            self._compare(node, heard.shaped)
        if differs or heard.lost or heard.ways:
            self._compare_ways(node, heard)

    def _compare(self, node: str, told: Collection[int]) -> None:
        """Log how the links from a node differ from what the run has set, unless it is logged."""
        kernel = self._network.read_back(node)
        for end, index, wanted in self._network.wanted(node):
            found = kernel.get(index)
            text = wanted.describe(found)
            if found == wanted:
                self._found.pop((node, end), None)
                if index in told:
                    self._add(LinkAltered, node, end, text, SET_BACK)
            elif (node, end) not in self._found or self._found[node, end] != found:
                self._found[node, end] = found
                is_now = found.describe(wanted) if found else "no interface"
                self._add(LinkAltered, node, end, text, is_now)

    def _compare_ways(self, node: str, heard: Heard) -> None:
        """Log the first difference of a node's routes, addresses and neighbours, and how many.

        While one of its links is not as set, routes are not either, and the link's event says it.
        """
        if any(src == node for src, _ in self._found):
            return
        found = list(self._network.differing_ways(node))
        told = sorted(self._names[address] for address in heard.about & self._names.keys())
        if not found and (told or heard.rules):
            what = f"the way to {told[0]}" if told else "a rule of routing"
            self._add(WaysAltered, node, what, "unchanged", SET_BACK)
        elif found and found != self._ways.get(node):
            more = f", and {len(found) - 1} more" if len(found) > 1 else ""
            first = found[0]
            self._add(WaysAltered, node, first.what, first.wanted, first.found + more)
        self._ways[node] = found
