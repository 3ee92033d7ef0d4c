"""Logs changes of links that the run does not make: by a program, or by a typed command."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial

from trunkline.agents.events.fault_events import LinkAltered
from trunkline.harness.network.mininet_net import MininetNetwork
from trunkline.harness.network.read_back import Interface

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
            self._compare(node, listener.take().shaped)

    def _hear(self, node: str) -> None:
        """Read the links of a node back if what the kernel tells is not what the run has set."""
        heard = self._listeners[node].take()
        wanted = {index: (want.up, want.mtu) for _, index, want in self._network.wanted(node)}
        differs = any(
            index in wanted and heard.links[index] != wanted[index] for index in heard.links
        )
        if differs or heard.lost or heard.shaped & wanted.keys():
            self._compare(node, heard.shaped)

    def _compare(self, node: str, told: Collection[int]) -> None:
        """Log how the links from a node differ from what the run has set, unless it is logged."""
        kernel = self._network.read_back(node)
        for end, index, wanted in self._network.wanted(node):
            found = kernel.get(index)
            if found == wanted:
                self._found.pop((node, end), None)
                if index in told:
                    self._add(LinkAltered, node, end, str(wanted), SET_BACK)
            elif (node, end) not in self._found or self._found[node, end] != found:
                self._found[node, end] = found
                self._add(LinkAltered, node, end, str(wanted), str(found or "no interface"))
