"""Connects the agents of a run: everybody listens first, then the lower rank dials the higher.

Between two sites there is one connection, bound to the link's own interface at both ends, so that
its bytes cross that link or nothing. The controller is reached at its site's address, over
whatever path IP has.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from agents.messages import FrameReader, Hello, ProtocolError, encode, no_chunks
from agents.settings import AgentError

WORKER_PORT = 7400
CONTROLLER_PORT = 7401

RECEIVE_BUFFER_BYTES = 32 << 20
"""4 Gbit/s x 60 ms, or 400 Mbit/s x 600 ms. A fixed buffer also keeps the receiver's rare
wake-ups (`link.RECEIVE_LOWAT_BYTES`) from holding the window down, as they do when the kernel
tunes the buffer by what the receiver has read."""

_SO_RCVBUFFORCE, _SO_MAX_PACING_RATE = 33, 47
_UNPACED_BYTES_PER_S = 2**40  # any limit turns pacing on; this one never binds


@dataclass(frozen=True, slots=True)
class Peer:
    """Where another agent listens, and how to talk to it.

    With a `device` the connection uses that interface and no other, and may have as much in flight
    as the fastest link needs (which takes CAP_NET_ADMIN); with `pacing` TCP spreads its packets
    over the round trip.
    """

    site: str
    address: str
    port: int
    device: str = ""
    pacing: bool = False


def listen(address: str, port: int) -> socket.socket:
    """A listening socket. Raises AgentError when the port is taken."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((address, port))
        sock.listen(1024)
    except OSError as error:
        sock.close()
        raise AgentError(f"cannot listen on {address} port {port}: {error.strerror}") from error
    sock.setblocking(False)
    return sock


async def dial(me: str, run: str, peer: Peer) -> socket.socket:
    """Connect to a peer that listens already, and say hello."""
    loop = asyncio.get_running_loop()
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    sock.setblocking(False)
    try:
        _prepare(sock, peer)
        await loop.sock_connect(sock, (peer.address, peer.port))
        await loop.sock_sendall(sock, encode(Hello(run, me)))
    except OSError as error:
        sock.close()
        raise AgentError(f"{me} cannot reach {peer.site} at {peer.address}: {error}") from error
    except BaseException:
        sock.close()
        raise
    return sock


async def accept(
    listener: socket.socket, run: str, expected: Sequence[Peer]
) -> dict[str, socket.socket]:
    """Accept one connection from each expected site; anybody else is turned away.

    The listener stays open, for `serve`.
    """
    loop = asyncio.get_running_loop()
    missing = {peer.site: peer for peer in expected}
    accepted: dict[str, socket.socket] = {}
    while missing:
        sock, _ = await loop.sock_accept(listener)
        sock.setblocking(False)
        try:
            hello = await _hello(sock)
            if hello.run != run or hello.site not in missing:
                raise ProtocolError(f"{hello.site} of run {hello.run} is not expected")
            _prepare(sock, missing.pop(hello.site))
        except (ProtocolError, OSError):
            sock.close()
        else:
            accepted[hello.site] = sock
    return accepted


async def serve(
    listener: socket.socket,
    run: str,
    callers: Mapping[str, Peer],
    hello_s: float,
    accepted: Callable[[str, socket.socket], None],
) -> None:
    """Pass on whoever of the `callers` calls again, until cancelled.

    Anybody else is turned away, and so is who does not say hello within `hello_s`.
    """
    loop = asyncio.get_running_loop()
    greetings: set[asyncio.Task[None]] = set()

    async def greet(sock: socket.socket) -> None:
        try:
            hello = await asyncio.wait_for(_hello(sock), hello_s)
            if hello.run != run or hello.site not in callers:
                raise ProtocolError(f"{hello.site} of run {hello.run} is not expected")
            _prepare(sock, callers[hello.site])
        except (ProtocolError, OSError, TimeoutError):
            sock.close()
        else:
            accepted(hello.site, sock)

    try:
        while True:
            sock, _ = await loop.sock_accept(listener)
            sock.setblocking(False)
            greeting = asyncio.create_task(greet(sock))
            greetings.add(greeting)
            greeting.add_done_callback(greetings.discard)
    finally:
        for greeting in greetings:
            greeting.cancel()


@dataclass(frozen=True, slots=True)
class Caller:
    """Calls agents by name: neighbours over their link, controllers over whatever path IP has."""

    me: str
    run: str
    peers: Mapping[str, Peer]

    async def call(self, name: str) -> socket.socket:
        """A connection on which hello has been said. Raises OSError."""
        try:
            return await dial(self.me, self.run, self.peers[name])
        except AgentError as error:
            raise ConnectionError(str(error)) from error


async def mesh(
    me: str, run: str, listener: socket.socket, lower: Sequence[Peer], higher: Sequence[Peer]
) -> dict[str, socket.socket]:
    """Connections to all neighbours: those of lower rank call, those of higher rank are called."""
    async with asyncio.TaskGroup() as group:
        accepting = group.create_task(accept(listener, run, lower))
        dialling = {peer.site: group.create_task(dial(me, run, peer)) for peer in higher}
    return accepting.result() | {site: task.result() for site, task in dialling.items()}


def _prepare(sock: socket.socket, peer: Peer) -> None:
    if peer.device:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, peer.device.encode())
        sock.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, RECEIVE_BUFFER_BYTES)
    if peer.pacing:
        no_limit = struct.pack("=Q", _UNPACED_BYTES_PER_S)
        sock.setsockopt(socket.SOL_SOCKET, _SO_MAX_PACING_RATE, no_limit)


async def _hello(sock: socket.socket) -> Hello:
    """Read exactly one frame, which must be a hello."""
    loop = asyncio.get_running_loop()
    reader = FrameReader(no_chunks)
    frame = None
    while frame is None:
        count = await loop.sock_recv_into(sock, reader.buffer())
        if not count:
            raise ProtocolError("closed before a hello")
        frame = reader.filled(count)
    if not isinstance(frame, Hello):
        raise ProtocolError("the first frame is no hello")
    return frame
