"""How packets leave a node: whether the kernel's routes, addresses and neighbours are as set.

A program or a typed command may change them (`ip route`, `ip addr`, `ip neigh`, `ip rule`). The
kernel is asked for the route to each address, so all of its tables and rules count.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Collection, Iterator
from typing import NamedTuple

from trunkline.harness.network.interface import (
    NetworkOptions,
    device_index,
    device_name,
    hardware_address,
)
from trunkline.harness.network.netlink import (
    CHANGE,
    Channel,
    RefusedError,
    Request,
    attribute,
    attributes,
)
from trunkline.harness.network.wiring import address_of, families
from trunkline.topologies.model import Topology

_GET_LINK, _GET_ROUTE, _GET_NEIGHBOUR = 18, 26, 30
_NAME = 3
_DEVICE, _GATEWAY = 4, 5
_KINDS = {1: "", 2: "local", 6: "blackhole", 7: "unreachable", 8: "prohibit"}
_LOCAL = 2
_HARDWARE_ADDRESS = 2


class Difference(NamedTuple):
    """What is not as set, such as `the route to oslo`; how it was set, and how it is."""

    what: str
    wanted: str
    found: str


def differences(
    channel: Channel, topology: Topology, node: str, options: NetworkOptions, down: Collection[str]
) -> Iterator[Difference]:
    """How the ways from a node differ from what the run has set.

    Args:
        channel: a channel into the node's namespace.
        topology: nodes and paths.
        node: the node.
        options: the families of addresses.
        down: the neighbours to which the run itself has no way now.
    """
    hops = {dst: hop for dst, hop in topology.next_hops(node).items() if hop not in down}
    for family in families(options):
        yield from _compare_routes(channel, topology, family, node, hops)
    yield from _compare_neighbours(channel, topology, node, options, down)


def _compare_routes(
    channel: Channel, topology: Topology, family: int, node: str, hops: dict[str, str]
) -> Iterator[Difference]:
    names: dict[int, str] = {}
    asked = [node, *hops]
    answers = channel.look_up(_look_up(topology, family, dst) for dst in asked)
    for dst, answer in zip(asked, list(answers), strict=True):
        if dst == node:
            if isinstance(answer, RefusedError) or answer[7] != _LOCAL:
                text = socket.inet_ntop(family, address_of(family, topology.rank(node)))
                yield Difference(f"the address of {node}", text, "none")
            continue
        hop = hops[dst]
        wanted = device_name(topology.rank(node), topology.rank(hop))
        gateway = b"" if hop == dst else address_of(family, topology.rank(hop))
        if isinstance(answer, RefusedError):
            found = f"none ({os.strerror(answer.code)})"
        else:
            said = attributes(answer, 12)
            (index,) = struct.unpack("=i", said.get(_DEVICE, bytes(4)))
            right = index == device_index(topology.rank(hop)) and answer[7] == 1
            if right and said.get(_GATEWAY, b"") == gateway:
                continue
            names = names or _read_names(channel)
            found = _name_way(family, names.get(index, "none"), answer[7], said.get(_GATEWAY, b""))
        yield Difference(f"the route to {dst}", _name_way(family, wanted, 1, gateway), found)


def _look_up(topology: Topology, family: int, dst: str) -> Request:
    address = address_of(family, topology.rank(dst))
    body = struct.pack("=BBBBBBBBI", family, 8 * len(address), 0, 0, 0, 0, 0, 0, 0)
    return Request(f"route to {dst}", _GET_ROUTE, CHANGE, body + attribute(1, address))


def _name_way(family: int, device: str, kind: int, gateway: bytes) -> str:
    parts = [_KINDS.get(kind, f"kind {kind}"), device]
    if len(gateway) == (16 if family == socket.AF_INET6 else 4):
        parts.append(f"through {socket.inet_ntop(family, gateway)}")
    return " ".join(part for part in parts if part)


def _read_names(channel: Channel) -> dict[int, str]:
    """The names of all interfaces, by index."""
    bodies = channel.dump(Request("interfaces", _GET_LINK, CHANGE, struct.pack("=16x")))
    return {
        struct.unpack_from("=4xi", body)[0]: attributes(body, 16)[_NAME].rstrip(b"\0").decode()
        for body in bodies
    }


def _compare_neighbours(
    channel: Channel,
    topology: Topology,
    node: str,
    options: NetworkOptions,
    down: Collection[str],
) -> Iterator[Difference]:
    known: dict[tuple[int, bytes], bytes] = {}
    for body in channel.dump(Request("neighbours", _GET_NEIGHBOUR, CHANGE, struct.pack("=12x"))):
        (index,) = struct.unpack_from("=4xi", body)  # struct ndmsg
        said = attributes(body, 12)
        known[index, said.get(1, b"")] = said.get(_HARDWARE_ADDRESS, b"")
    here = topology.rank(node)
    for end in topology.neighbours(node):
        if end in down:
            continue
        there = topology.rank(end)
        wanted = hardware_address(there, here)
        for family in families(options):
            found = known.get((device_index(there), address_of(family, there)), b"")
            if found != wanted:
                what = f"the hardware address of {end}"
                yield Difference(what, wanted.hex(":"), found.hex(":") or "none")
