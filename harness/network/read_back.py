"""What the kernel has for the links of a node, and who else changes it.

A program or a typed command may change a link itself (`tc qdisc change`, `ip link set down`). The
kernel tells every change to sockets that ask for it, with the netlink port of who made it. Those of
the run's own channel are left out, and so is what does not concern the links.
"""

from __future__ import annotations

import ctypes
import errno
import socket
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from trunkline.harness.network.netlink import CHANGE, Channel, Request, attributes, read_messages

_GROUPS = 1 << 0 | 1 << 2 | 1 << 3 | 1 << 4 | 1 << 6 | 1 << 7 | 1 << 8 | 1 << 10
"""Links, neighbours, shaping; addresses, routes and rules of IPv4; addresses and routes of IPv6."""

_NEW_LINK, _DELETE_LINK, _GET_LINK, _GET_QDISC = 16, 17, 18, 38
_OF_TRAFFIC_CONTROL = range(36, 48)
"""Messages about queueing disciplines, classes and filters."""
_NEW_NEIGHBOUR, _DELETE_NEIGHBOUR = 28, 29
_OF_RULES = (32, 33)
_ADDRESSES_OF_WAYS = {20: 8, 21: 8, 24: 12, 25: 12, 28: 12, 29: 12}
"""Messages about addresses, routes and neighbours, and where their attributes begin. The first
attribute of all is the address that they are about."""

_KERNEL = 0
"""The port of what the kernel does by itself, such as to note that a link's other end is down. Some
of what others do to interfaces has it, too."""

_ROOT = 0xFFFFFFFF
_UP, _NO_ARP = 0x1, 0x80
_HARDWARE_ADDRESS, _MTU, _MASTER = 1, 4, 10
_ATTACH_FILTER = 26
_RECEIVE_BYTES = 1 << 18
_NETEM = struct.Struct("=6I")


@dataclass(frozen=True, slots=True)
class Device:
    """What the kernel tells of an interface: is it `up`, its `mtu` and its hardware `address`.

    `arp` is whether it asks for the hardware addresses of others, `master` the index of the bridge
    or bond that has taken it.
    """

    up: bool
    mtu: int
    address: bytes
    arp: bool = True
    master: int = 0


@dataclass(frozen=True, slots=True)
class Interface:
    """What the kernel has for the interface at a link's source: its `device` and its `shaping`."""

    device: Device
    shaping: str

    def describe(self, other: Interface | None) -> str:
        """In words, with what is usually left out where the other interface differs in it."""
        mine, theirs = self.device, other.device if other else self.device
        if not mine.up:
            return "down"
        parts = [self.shaping, f"MTU {mine.mtu}"]
        if mine.address != theirs.address:
            parts.append(f"hardware address {mine.address.hex(':')}")
        if mine.arp != theirs.arp:
            parts.append("ARP on" if mine.arp else "ARP off")
        if mine.master != theirs.master:
            parts.append(f"part of interface {mine.master}" if mine.master else "part of none")
        return ", ".join(parts)


class Heard(NamedTuple):
    """What others have changed.

    Attributes:
        links: the interfaces that they changed, by index, as they were then; None without.
        shaped: the indices of those whose shaping they changed.
        ways: whether routes, addresses, neighbours or rules changed, also by the kernel itself.
        about: the addresses which others have changed the ways to.
        rules: whether others have changed a rule of routing.
        lost: whether there was more than could be told.
    """

    links: Mapping[int, Device | None]
    shaped: frozenset[int] = frozenset()
    ways: bool = False
    about: frozenset[bytes] = frozenset()
    rules: bool = False
    lost: bool = False


class Listener:
    """Hears of changes of a node's links by others than the node's channel; `fd` then is readable.

    It is made inside of the node's namespace. The kernel leaves out what the channel changes, so
    that hearing of it takes no time.
    """

    def __init__(self, channel: Channel) -> None:
        kind = socket.SOCK_RAW | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC
        self._socket = socket.socket(socket.AF_NETLINK, kind, socket.NETLINK_ROUTE)
        _drop_from(self._socket, channel.port)
        self._socket.bind((0, _GROUPS))
        self.fd = self._socket.fileno()

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def take(self) -> Heard:
        """What others have changed since the last call."""
        links: dict[int, Device | None] = {}
        shaped, about = set[int](), set[bytes]()
        ways = rules = lost = False
        while True:
            try:
                data = self._socket.recv(_RECEIVE_BYTES)
            except BlockingIOError:
                return Heard(links, frozenset(shaped), ways, frozenset(about), rules, lost)
            except OSError as error:
                if error.errno != errno.ENOBUFS:
                    raise
                lost = True
                continue
            for message in read_messages(data):
                by_others = message.port != _KERNEL
                if message.kind in (_NEW_LINK, _DELETE_LINK):
                    index, device = _read_link(message.body)
                    links[index] = device if message.kind == _NEW_LINK else None
                elif message.kind in _OF_TRAFFIC_CONTROL and by_others:
                    shaped.add(struct.unpack_from("=4xi", message.body)[0])
                elif message.kind in _OF_RULES:
                    ways, rules = True, rules or by_others
                elif (begin := _ADDRESSES_OF_WAYS.get(message.kind)) is not None:
                    ways = True
                    if by_others:
                        about.add(attributes(message.body, begin).get(1, b""))


def _drop_from(receiver: socket.socket, port: int) -> None:
    """Have the kernel drop messages about requests of this port (a classic BPF program).

    It also drops what the kernel tells by itself of neighbours.
    """
    program = b"".join(
        struct.pack("=HBBI", *line)
        for line in (
            (0x20, 0, 0, 12),  # load nlmsg_pid, in network order
            (0x15, 4, 0, socket.htonl(port)),  # the port: drop
            (0x15, 0, 4, _KERNEL),  # another one than the kernel: keep
            (0x28, 0, 0, 4),  # load nlmsg_type
            (0x15, 1, 0, socket.htons(_NEW_NEIGHBOUR)),
            (0x15, 0, 1, socket.htons(_DELETE_NEIGHBOUR)),
            (0x06, 0, 0, 0),  # drop
            (0x06, 0, 0, 0xFFFFFFFF),  # keep
        )
    )
    kept = ctypes.create_string_buffer(program, len(program))
    where = struct.pack("HP", len(program) // 8, ctypes.addressof(kept))
    receiver.setsockopt(socket.SOL_SOCKET, _ATTACH_FILTER, where)


def read(channel: Channel) -> dict[int, Interface]:
    """What the kernel has now, by interface index."""
    shaped = {}
    for body in channel.dump(Request("links", _GET_QDISC, CHANGE, struct.pack("=20x"))):
        index, parent = struct.unpack_from("=4xi4xI", body)  # struct tcmsg
        if parent == _ROOT:
            found = attributes(body, 20)
            kind = found[1].rstrip(b"\0").decode()
            shaped[index] = describe(kind, found.get(2, b""))
    links = {}
    for body in channel.dump(Request("links", _GET_LINK, CHANGE, struct.pack("=16x"))):
        index, device = _read_link(body)
        links[index] = Interface(device, shaped.get(index, "no shaping"))
    return links


def _read_link(body: bytes) -> tuple[int, Device]:
    """The index of an interface, and its properties."""
    index, flags = struct.unpack_from("=4xiI", body)  # struct ifinfomsg
    found = attributes(body, 16)
    (mtu,) = struct.unpack("=I", found[_MTU])
    (master,) = struct.unpack("=I", found.get(_MASTER, bytes(4)))
    address = found.get(_HARDWARE_ADDRESS, b"")
    return index, Device(bool(flags & _UP), mtu, address, not flags & _NO_ARP, master)


def describe(kind: str, options: bytes) -> str:
    """A queueing discipline in words, with all of its values that the run sets."""
    if kind == "netem":
        return ", ".join(_describe_netem(options))
    if kind == "tbf":
        found = attributes(options)
        (rate,) = struct.unpack_from("=8xI", found[1])
        return f"rate {_wide(found.get(4), rate) * 8e-6:g} Mbit/s"
    return kind


def _describe_netem(options: bytes) -> Iterator[str]:
    _, _, loss, gap, duplicate, _ = _NETEM.unpack_from(options)
    found = attributes(options, _NETEM.size)
    (rate,) = struct.unpack_from("=I", found.get(6, bytes(4)))
    yield f"rate {_wide(found.get(8), rate) * 8e-6:g} Mbit/s"
    for name, key in (("delay", 10), ("jitter", 11)):
        (value_ns,) = struct.unpack("=q", found.get(key, bytes(8)))
        yield f"{name} {value_ns / 1e6:g} ms"
    yield f"loss {_percent(loss):g} %"
    if burst := attributes(found.get(5, b"")).get(2):
        yield f"bursts {struct.unpack_from('=2I', burst)}"
    of_delay, of_loss, of_copies = struct.unpack_from("=3I", found.get(1, bytes(12)))
    reorder, of_reorder = struct.unpack_from("=2I", found.get(3, bytes(8)))
    corrupt, of_corrupt = struct.unpack_from("=2I", found.get(4, bytes(8)))
    for name, value, correlation in (
        ("duplicates", duplicate, of_copies),
        ("reordering", gap and reorder, of_reorder),
        ("corruption", corrupt, of_corrupt),
        ("correlation of delays", of_delay, 0),
        ("correlation of losses", of_loss, 0),
    ):
        if value:
            rest = f" (correlation {_percent(correlation):g} %)" if correlation else ""
            yield f"{name} {_percent(value):g} %{rest}"
    if gap > 1:
        yield f"gaps of {gap} packets"


def _percent(threshold: int) -> float:
    return threshold / 2**32 * 100


def _wide(wide: bytes | None, narrow: int) -> int:
    """A rate in bytes per second, whose 64 bits stand beside if 32 are too few."""
    return narrow if wide is None else int(struct.unpack("=Q", wide)[0])
