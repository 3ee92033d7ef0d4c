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

_GROUPS = 1 << 0 | 1 << 3
"""RTMGRP_LINK and RTMGRP_TC."""

_NEW_LINK, _DELETE_LINK, _GET_LINK, _GET_QDISC = 16, 17, 18, 38
_OF_TRAFFIC_CONTROL = range(36, 48)
"""Messages about queueing disciplines, classes and filters."""

_KERNEL = 0
"""The port of what the kernel does by itself, such as to note that a link's other end is down. Some
of what others do to interfaces has it, too."""

_ROOT = 0xFFFFFFFF
_UP = 1
_MTU = 4
_ATTACH_FILTER = 26
_RECEIVE_BYTES = 1 << 18
_NETEM = struct.Struct("=6I")


@dataclass(frozen=True, slots=True)
class Interface:
    """What the kernel has for the interface at a link's source: `up`, `mtu`, and its `shaping`."""

    up: bool
    mtu: int
    shaping: str

    def __str__(self) -> str:
        return f"{self.shaping}, MTU {self.mtu}" if self.up else "down"


class Heard(NamedTuple):
    """What others have changed.

    Attributes:
        links: the interfaces that they changed, by index: whether each is up, and its MTU.
        shaped: the indices of those whose shaping they changed.
        lost: whether there was more than could be told.
    """

    links: Mapping[int, tuple[bool, int]]
    shaped: frozenset[int]
    lost: bool


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
        links: dict[int, tuple[bool, int]] = {}
        shaped, lost = set[int](), False
        while True:
            try:
                data = self._socket.recv(_RECEIVE_BYTES)
            except BlockingIOError:
                return Heard(links, frozenset(shaped), lost)
            except OSError as error:
                if error.errno != errno.ENOBUFS:
                    raise
                lost = True
                continue
            for message in read_messages(data):
                if message.kind in (_NEW_LINK, _DELETE_LINK):
                    index, up, mtu = _read_link(message.body)
                    links[index] = up and message.kind == _NEW_LINK, mtu
                elif message.kind in _OF_TRAFFIC_CONTROL and message.port != _KERNEL:
                    shaped.add(struct.unpack_from("=4xi", message.body)[0])


def _drop_from(receiver: socket.socket, port: int) -> None:
    """Have the kernel drop messages about requests of this port (a classic BPF program)."""
    program = b"".join(
        struct.pack("=HBBI", *line)
        for line in (
            (0x20, 0, 0, 12),  # load nlmsg_pid, in network order
            (0x15, 0, 1, socket.htonl(port)),
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
        index, up, mtu = _read_link(body)
        links[index] = Interface(up, mtu, shaped.get(index, "no shaping"))
    return links


def _read_link(body: bytes) -> tuple[int, bool, int]:
    """The index of an interface, whether it is up, and its MTU."""
    index, flags = struct.unpack_from("=4xiI", body)  # struct ifinfomsg
    (mtu,) = struct.unpack("=I", attributes(body, 16)[_MTU])
    return index, bool(flags & _UP), mtu


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
