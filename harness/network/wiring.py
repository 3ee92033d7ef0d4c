"""Veth pairs, addresses, neighbours and routes of the sites, as netlink requests.

Each pair is made directly inside its two sites, so concurrent runs cannot collide. A site has one
address, on its loopback interface; its links have none ("unnumbered"). Routes and neighbours are
static, so no packets are sent to discover them.
"""

from __future__ import annotations

import array
import fcntl
import functools
import socket
import struct
from collections.abc import Iterable, Iterator

from trunkline.harness.network.interface import (
    NetworkOptions,
    device_index,
    device_name,
    hardware_address,
    site_address,
    site_ipv6_address,
)
from trunkline.harness.network.netlink import (
    CHANGE,
    CREATE,
    EXCLUSIVE,
    Channel,
    Request,
    attribute,
    attributes,
    number,
)
from trunkline.topologies.model import Topology

_NEW_LINK, _DELETE_LINK, _GET_LINK = 16, 17, 18
_NEW_ADDRESS, _NEW_ROUTE, _NEW_NEIGHBOUR = 20, 24, 28
_LOOPBACK, _UP, _ALIAS, _GROUP = 1, 1, 20, 27
_LINK_BYTES = 16
_OUR_GROUP = 0x7472
"""The group number of all links of a run: one request can raise or remove a whole group."""

_MAIN_TABLE, _STATIC, _UNICAST, _ON_LINK = 254, 4, 1, 4
_EVERYWHERE, _LINK_LOCAL = 0, 253
_PERMANENT = 0x80
_NO_DUPLICATE_CHECK = 2
_MULTICAST = 0x1000
_QUEUE_LENGTH = 1000  # the kernel's default for every interface

_ETHTOOL, _GET_STRINGS, _GET_SET_SIZES, _SET_FEATURES, _FEATURES = 0x8946, 0x1B, 0x37, 0x3B, 4
_STRING_BYTES = 32
_MERGING_FEATURES = (
    "tx-tcp-segmentation",
    "tx-tcp-ecn-segmentation",
    "tx-tcp-mangleid-segmentation",
    "tx-tcp6-segmentation",
    "tx-udp-segmentation",
    "tx-generic-segmentation",
    "rx-gro",
)


def make_pair(src: int, dst: int, dst_handle: int, options: NetworkOptions) -> Request:
    """Makes both ends of a link, by a request to site `src`; `dst_handle` is `dst`'s namespace."""
    peer = _link_message(device_index(src)) + _end(dst, src, options) + number(28, dst_handle)
    data = attribute(18, attribute(1, b"veth"), attribute(2, attribute(1, peer)))
    body = _link_message(device_index(dst)) + _end(src, dst, options) + data
    return Request(f"interface {device_name(src, dst)}", _NEW_LINK, CREATE | EXCLUSIVE, body)


def make_own_interface(rank: int, options: NetworkOptions) -> Request:
    """Makes `eth0` of a site, which carries nothing: many programs look for no address on `lo`."""
    body = _link_message(device_index(rank)) + attribute(3, b"eth0\0")
    body += attribute(1, hardware_address(rank, rank)) + number(4, options.mtu)
    body += number(_GROUP, _OUR_GROUP) + attribute(18, attribute(1, b"dummy"))
    return Request(f"eth0 of site {rank}", _NEW_LINK, CREATE | EXCLUSIVE, body)


def raise_links(
    rank: int, tag: str, options: NetworkOptions, *, has_own_interface: bool
) -> Iterator[Request]:
    """Gives a site its addresses and the owner's tag, and sets all of its interfaces up.

    The addresses are those of its `eth0` if it has one, else of the loopback interface.
    """
    own = device_index(rank) if has_own_interface else _LOOPBACK
    up = _link_message(_LOOPBACK, _UP) + attribute(_ALIAS, tag.encode())
    yield Request(f"address of site {rank}", _NEW_LINK, CHANGE, up)
    for family in families(options):
        address = address_of(family, rank)
        flags = _NO_DUPLICATE_CHECK if family == socket.AF_INET6 else 0
        body = struct.pack("=BBBBI", family, 8 * len(address), flags, _EVERYWHERE, own)
        body += attribute(1, address) + attribute(2, address)
        yield Request(f"address of site {rank}", _NEW_ADDRESS, CREATE | EXCLUSIVE, body)
    # IPv6 would report at random times to which multicast groups an interface listens.
    body = _link_message(0, _UP, changed=_MULTICAST if options.ipv6 else 0)
    body += number(_GROUP, _OUR_GROUP)
    yield Request(f"interfaces of site {rank}", _NEW_LINK, CHANGE, body)


def lower_link(src: int, dst: int) -> Request:
    """Sets the interface at `src` towards `dst` down; it loses its routes and neighbours."""
    body = _link_message(device_index(dst), changed=_UP)
    return Request(f"interface {device_name(src, dst)}", _NEW_LINK, CHANGE, body)


def raise_link(src: int, dst: int) -> Request:
    """Sets the interface at `src` towards `dst` up, without its routes and neighbours."""
    body = _link_message(device_index(dst), _UP)
    return Request(f"interface {device_name(src, dst)}", _NEW_LINK, CHANGE, body)


def open_link(src: int, dst: int) -> Iterator[Request]:
    """Lets traffic through an interface at once, when both of its ends are up.

    The kernel notices this by itself only after up to a second. It also looks when the length of
    the interface's queue changes. That length is not used here, so it changes there and back.
    """
    for length in (_QUEUE_LENGTH + 1, _QUEUE_LENGTH):
        body = _link_message(device_index(dst)) + number(13, length)
        yield Request(f"interface {device_name(src, dst)}", _NEW_LINK, CHANGE, body)


def remove_links() -> Request:
    """Removes all links of a site, with both ends, by one request."""
    body = _link_message(0) + number(_GROUP, _OUR_GROUP)
    return Request("interfaces", _DELETE_LINK, CHANGE, body)


def read_tag(channel: Channel) -> str:
    """Reads the owner's tag of the channel's namespace; empty if it has none."""
    for link in channel.dump(Request("interfaces", _GET_LINK, CHANGE, _link_message(0))):
        if struct.unpack_from("=i", link, 4) == (_LOOPBACK,):
            return attributes(link, _LINK_BYTES).get(_ALIAS, b"").rstrip(b"\0").decode()
    return ""


def remove_tag() -> Request:
    """Removes the owner's tag of a site."""
    body = _link_message(_LOOPBACK) + attribute(_ALIAS)
    return Request("tag of a site", _NEW_LINK, CHANGE, body)


def set_routes(
    topology: Topology,
    site: str,
    options: NetworkOptions,
    congestion_control: str | None = None,
    through: str | None = None,
) -> Iterator[Request]:
    """Sets the hardware addresses of a site's neighbours and its routes to all other sites.

    Args:
        topology: sites, links and paths.
        site: the site to configure.
        options: the families of addresses, and the packets that a new connection may send at once.
        congestion_control: TCP's algorithm on these routes; None for the site's default.
        through: configure only the link to this neighbour; None for all links.
    """
    algorithm = attribute(16, congestion_control.encode() + b"\0") if congestion_control else b""
    metrics = attribute(8, number(11, options.initial_window), algorithm)
    for family in families(options):
        for name in topology.neighbours(site):
            if through in (None, name):
                yield _set_neighbour(topology, family, site, name)
        for dst, hop in _list_routes(topology, site):
            if through in (None, hop):
                yield _set_route(topology, family, (site, hop, dst), metrics)


def _list_routes(topology: Topology, site: str) -> Iterator[tuple[str | None, str]]:
    """The destinations of a site's packets, and the neighbour that they go to.

    A site with one neighbour has a route to that and one to all others (None): otherwise a thousand
    clients of a server would have a million routes.
    """
    neighbours = topology.neighbours(site)
    if len(neighbours) > 1:
        yield from topology.next_hops(site).items()
        return
    for hop in neighbours:
        yield hop, hop
        if len(topology.node_names) > 2:
            yield None, hop


def _set_neighbour(topology: Topology, family: int, site: str, name: str) -> Request:
    here, there = topology.rank(site), topology.rank(name)
    body = struct.pack("=BxxxiHBB", family, device_index(there), _PERMANENT, 0, _UNICAST)
    body += attribute(1, address_of(family, there)) + attribute(2, hardware_address(there, here))
    return Request(f"neighbour {name} of {site}", _NEW_NEIGHBOUR, CREATE | EXCLUSIVE, body)


def _set_route(
    topology: Topology, family: int, path: tuple[str, str, str | None], metrics: bytes
) -> Request:
    """The route of `path`: (site, its neighbour on the path, destination); None is all nodes."""
    site, hop, dst = path
    here, through = topology.rank(site), topology.rank(hop)
    direct = dst == hop
    if dst is None:
        there, bits = network_of(family, len(topology.node_names))
    else:
        there = address_of(family, topology.rank(dst))
        bits = 8 * len(there)
    body = struct.pack(
        "=BBBBBBBBI",
        *(family, bits, 0, 0, _MAIN_TABLE, _STATIC),
        *(_LINK_LOCAL if direct else _EVERYWHERE, _UNICAST, 0 if direct else _ON_LINK),
    )
    body += attribute(1, there) + attribute(7, address_of(family, here)) + metrics
    body += number(4, device_index(through))
    body += b"" if direct else attribute(5, address_of(family, through))
    return Request(f"route {site} -> {dst or 'all'}", _NEW_ROUTE, CREATE | EXCLUSIVE, body)


def stop_merging(devices: Iterable[str]) -> None:
    """Switches TSO, GSO and GRO of the current namespace's `devices` off."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        command: array.array[int] | None = None
        for device in devices:
            command = command or _make_features_command(control, device)
            _ethtool(control, device, command)


def _make_features_command(control: socket.socket, device: str) -> array.array[int]:
    """The command (struct ethtool_sfeatures) that switches the features off.

    The kernel is asked for the bit of each feature, because bits differ between kernels.
    """
    sizes = array.array("I", (_GET_SET_SIZES, 0, 1 << _FEATURES, 0, 0))
    _ethtool(control, device, sizes)
    count = sizes[4]
    strings = array.array("B", struct.pack("=III", _GET_STRINGS, _FEATURES, count))
    strings.extend(bytes(count * _STRING_BYTES))
    _ethtool(control, device, strings)
    text = strings.tobytes()[12:]
    names = [
        text[at : at + _STRING_BYTES].rstrip(b"\0").decode()
        for at in range(0, len(text), _STRING_BYTES)
    ]
    words = -(-count // 32)
    command = array.array("I", (_SET_FEATURES, words, *(0 for _ in range(2 * words))))
    for name in _MERGING_FEATURES:
        bit = names.index(name)
        command[2 + 2 * (bit // 32)] |= 1 << bit % 32
    return command


def _ethtool(control: socket.socket, device: str, command: array.array[int]) -> None:
    where, _ = command.buffer_info()
    fcntl.ioctl(control, _ETHTOOL, struct.pack("16sP", device.encode(), where))


def _end(here: int, there: int, options: NetworkOptions) -> bytes:
    """The attributes of one end of a pair.

    TCP builds packets as large as the interface allows, also without offloads. So without offloads
    the interface must allow one segment only.
    """
    return b"".join(
        (
            attribute(3, device_name(here, there).encode() + b"\0"),
            attribute(1, hardware_address(here, there)),
            number(4, options.mtu),
            number(_GROUP, _OUR_GROUP),
            number(31, 1),  # one queue in each direction, however many processors there are
            number(32, 1),
            b"" if options.offloads else number(40, 1),
        )
    )


def _link_message(index: int, flags: int = 0, changed: int = 0) -> bytes:
    """A message that sets `flags`, and clears the flags in `changed` that are not in `flags`."""
    return struct.pack("=BxHiII", socket.AF_UNSPEC, 0, index, flags, flags | changed)


def families(options: NetworkOptions) -> tuple[int, ...]:
    """The families of addresses that each site has."""
    return (socket.AF_INET, socket.AF_INET6) if options.ipv6 else (socket.AF_INET,)


def network_of(family: int, nodes: int) -> tuple[bytes, int]:
    """The smallest network with the addresses of so many nodes, and the length of its prefix."""
    first, last = (int.from_bytes(address_of(family, rank)) for rank in (0, nodes - 1))
    size = len(address_of(family, 0))
    rest = (first ^ last).bit_length()
    return (first >> rest << rest).to_bytes(size), 8 * size - rest


@functools.cache
def address_of(family: int, rank: int) -> bytes:
    """A site's address of a family, as the kernel has it."""
    text = site_ipv6_address(rank) if family == socket.AF_INET6 else site_address(rank)
    return socket.inet_pton(family, text)
