"""A name server for programs that ask one instead of reading /etc/hosts: a site's own, at loopback.

The init process of each program answers from a thread, so the names of sites resolve as long as a
program runs. It knows what the run's hosts file has; any other name does not exist. It sends
nothing to other sites.
"""

from __future__ import annotations

import ipaddress
import socket
import struct
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

ADDRESS = ("127.0.0.1", 53)
RESOLVER = "nameserver 127.0.0.1\n"
"""The file /etc/resolv.conf of programs."""

_A, _POINTER, _AAAA, _INTERNET = 1, 12, 28, 1
_TIME_TO_LIVE_S = 60
_ANSWER, _WANTED = 0x8480, 0x0100
"""The flags of an answer: with authority, recursion is available; and of the question's wish."""
_UNKNOWN_NAME, _NOT_IMPLEMENTED = 3, 4
_NAME_OF_QUESTION = b"\xc0\x0c"

_SHARED_PORT = (socket.SO_REUSEPORT, socket.SO_REUSEADDR)
"""Each program of a site has a server at this port; one of them gets a question. A program that
shares its port may have one of its own."""


def serve(hosts: Path) -> None:
    """Answer questions about the names in a hosts file from now on. Raises OSError."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    for option in _SHARED_PORT:
        sock.setsockopt(socket.SOL_SOCKET, option, 1)
    sock.bind(ADDRESS)
    names = read_hosts(hosts.read_text())
    threading.Thread(target=_answer_all, args=(sock, names), daemon=True).start()


def read_hosts(text: str) -> dict[str, list[str]]:
    """The addresses of each name in a hosts file."""
    found: dict[str, list[str]] = {}
    for address, *names in filter(None, (line.split() for line in text.splitlines())):
        for name in names:
            found.setdefault(name, []).append(address)
    return found


def answer(question: bytes, names: Mapping[str, list[str]]) -> bytes | None:
    """The answer to a packet of DNS with one question (RFC 1035); None if it is no question."""
    try:
        number, flags, count = struct.unpack_from("!3H", question)
        name, end = _read_name(question, 12)
        kind, family = struct.unpack_from("!2H", question, end)
    except (struct.error, IndexError, UnicodeDecodeError):
        return None
    if flags & 0x8000 or count != 1:
        return None
    records: list[bytes] = []
    code = _NOT_IMPLEMENTED if flags & 0x7800 or family != _INTERNET else 0
    if not code:
        known = dict(_list_pointers(names)) if kind == _POINTER else names
        code = 0 if name in known else _UNKNOWN_NAME
        records = [record for value in known.get(name, ()) for record in _encode(kind, value)]
    head = (number, _ANSWER | flags & _WANTED | code, 1, len(records), 0, 0)
    return struct.pack("!6H", *head) + question[12 : end + 4] + b"".join(records)


def _answer_all(sock: socket.socket, names: Mapping[str, list[str]]) -> None:
    while True:
        question, sender = sock.recvfrom(512)
        reply = answer(question, names)
        if reply is not None:
            sock.sendto(reply, sender)


def _read_name(packet: bytes, at: int) -> tuple[str, int]:
    """The name at a place of a packet, in lower case, and the place after it."""
    labels = []
    while size := packet[at]:
        if size > 63:
            raise IndexError("a pointer in a question")
        labels.append(packet[at + 1 : at + 1 + size].decode("ascii").lower())
        at += 1 + size
    return ".".join(labels), at + 1


def _list_pointers(names: Mapping[str, list[str]]) -> Iterator[tuple[str, list[str]]]:
    """The names of addresses: `1.0.0.10.in-addr.arpa` is that of 10.0.0.1."""
    for name, addresses in names.items():
        for address in addresses:
            yield ipaddress.ip_address(address).reverse_pointer, [name]


def _encode(kind: int, value: str) -> Iterator[bytes]:
    """A value as a record of this kind; none if the value has another kind."""
    if kind == _POINTER:
        labels = value.split(".")
        data = b"".join(bytes([len(label)]) + label.encode() for label in labels) + b"\0"
    else:
        address = ipaddress.ip_address(value)
        if kind != {4: _A, 6: _AAAA}[address.version]:
            return
        data = address.packed
    fields = struct.pack("!2HIH", kind, _INTERNET, _TIME_TO_LIVE_S, len(data))
    yield _NAME_OF_QUESTION + fields + data
