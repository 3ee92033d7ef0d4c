"""Connects the agents of a run: all of them listen first, then the lower rank dials the higher.

An agent accepts only callers that prove to belong to the run (`agents.wire.identity`). A caller
that does not do so in time is refused; it occupies no more memory than a hello and delays no other
caller. Two neighbours share one connection, which may have several lanes. It is bound to their
link's interface at both ends, so its bytes cross that link and no other. Connections to the
controller use its site's address and the routes of IP.
"""

from __future__ import annotations

import asyncio
import os
import re
import socket
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from trunkline.agents.wire.agent_settings import AgentError
from trunkline.agents.wire.framing import MAX_HELLO_BYTES, FrameReader, encode, no_chunks
from trunkline.agents.wire.hello import Hello
from trunkline.agents.wire.identity import Gate, Identity
from trunkline.agents.wire.lane import lane_name
from trunkline.agents.wire.messages import ProtocolError

WORKER_PORT = 7400
CONTROLLER_PORT = 7401

RECEIVE_BUFFER_BYTES = 32 << 20
"""Enough for 4 Gbit/s x 60 ms, or 400 Mbit/s x 600 ms. The size is fixed because the kernel would
otherwise tune the buffer by how much the receiver has read. The receiver's rare wake-ups
(`lane.RECEIVE_LOWAT_BYTES`) would then keep TCP's window small."""

WINDOW_FOLLOWS_BUFFER = (6, 11)
"""The first kernel in which the window of an open connection follows its receive buffer."""

MAX_GREETINGS = 256
"""How many callers may be connected without a hello. One more, and the oldest is refused."""

_SO_RCVBUFFORCE, _SO_MAX_PACING_RATE = 33, 47
_UNPACED_BYTES_PER_S = 2**40  # any limit turns pacing on; this one never binds


@dataclass(frozen=True, slots=True)
class Peer:
    """Where another agent listens, and the options of a connection to it.

    With a `device`, the connection uses that interface only, and its receive buffer suffices for
    the fastest link (this needs CAP_NET_ADMIN). With `pacing`, TCP spreads its packets over the
    round trip.
    """

    site: str
    address: str
    port: int
    device: str = ""
    pacing: bool = False


def open_socket() -> socket.socket:
    """A TCP socket in the namespace of this process."""
    return socket.socket(socket.AF_INET, socket.SOCK_STREAM)


def listen(
    address: str, port: int, opened: Callable[[], socket.socket] = open_socket
) -> socket.socket:
    """A listening socket, made by `opened`. Raises AgentError when the port is taken."""
    sock = opened()
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((address, port))
        sock.listen(1024)
    except OSError as error:
        sock.close()
        raise AgentError(f"cannot listen on {address} port {port}: {error.strerror}") from error
    sock.setblocking(False)
    return sock


async def dial(
    me: str, identity: Identity, peer: Peer, opened: Callable[[], socket.socket] = open_socket
) -> socket.socket:
    """Connect a socket, made by `opened`, to a listening peer and send a hello.

    Raises AgentError if that fails.
    """
    loop = asyncio.get_running_loop()
    sock = opened()
    sock.setblocking(False)
    try:
        _prepare(sock, peer)
        await loop.sock_connect(sock, (peer.address, peer.port))
        hello = identity.hello(me, peer.site, time.monotonic_ns())
        await loop.sock_sendall(sock, encode(hello))
    except OSError as error:
        sock.close()
        raise AgentError(f"{me} cannot reach {peer.site} at {peer.address}: {error}") from error
    except BaseException:
        sock.close()
        raise
    return sock


async def accept(
    listener: socket.socket, gate: Gate, expected: Sequence[Peer]
) -> dict[str, socket.socket]:
    """Accept a connection from each expected agent; refuse all other callers.

    The listener stays open, for `serve`.
    """
    accepted: dict[str, socket.socket] = {}
    complete = asyncio.Event()

    def welcome(name: str, sock: socket.socket) -> None:
        if name in accepted:
            accepted[name].close()
        accepted[name] = sock
        if len(accepted) == len(expected):
            complete.set()

    if expected:
        serving = asyncio.create_task(
            serve(listener, gate, {peer.site: peer for peer in expected}, welcome)
        )
        waiting = asyncio.create_task(complete.wait())
        try:
            await asyncio.wait((serving, waiting), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (serving, waiting):
                task.cancel()
            await asyncio.gather(serving, waiting, return_exceptions=True)
        if not complete.is_set():
            serving.result()
    return accepted


async def serve(
    listener: socket.socket,
    gate: Gate,
    callers: Mapping[str, Peer],
    on_accepted: Callable[[str, socket.socket], None],
) -> None:
    """Pass connections from `callers` to `on_accepted` until cancelled; refuse other callers."""
    loop = asyncio.get_running_loop()
    greetings: dict[asyncio.Task[None], str] = {}

    def greeted(sock: socket.socket, greeting: asyncio.Task[None]) -> None:
        greetings.pop(greeting, None)
        if greeting.cancelled():  # perhaps before `greet` began, which would close the socket
            sock.close()

    async def greet(sock: socket.socket, address: str) -> None:
        try:
            async with asyncio.timeout(gate.hello_s):
                hello = await _hello(sock)
            gate.admit(hello, callers)
            _prepare(sock, callers[hello.site])
            _open_window(sock, callers[hello.site])
        except TimeoutError:
            sock.close()
            gate.refuse(address, f"no hello within {gate.hello_s:g} s")
        except (ProtocolError, OSError) as error:
            sock.close()
            gate.refuse(address, error)
        else:
            on_accepted(hello.site, sock)

    try:
        while True:
            try:
                sock, (address, _) = await loop.sock_accept(listener)
            except ConnectionError:  # the caller has closed already
                continue
            sock.setblocking(False)
            greeting = asyncio.create_task(greet(sock, address))
            greetings[greeting] = address
            greeting.add_done_callback(partial(greeted, sock))
            if len(greetings) > MAX_GREETINGS:
                longest = next(iter(greetings))
                gate.refuse(greetings.pop(longest), f"no hello before {MAX_GREETINGS} others came")
                longest.cancel()
    finally:
        for greeting in greetings:
            greeting.cancel()


@dataclass(frozen=True, slots=True)
class Caller:
    """Connects to agents by name: a `Reach` over TCP."""

    me: str
    identity: Identity
    peers: Mapping[str, Peer]
    opened: Callable[[], socket.socket] = open_socket

    async def call(self, name: str, lane: int = 0) -> socket.socket:
        """Connect and send a hello. Raises OSError if that fails."""
        try:
            me = lane_name(self.me, lane)
            return await dial(me, self.identity, self.peers[name], self.opened)
        except AgentError as error:
            raise ConnectionError(str(error)) from error


async def mesh(
    listener: socket.socket,
    gate: Gate,
    lower: Sequence[Peer],
    higher: Sequence[Peer],
    opened: Callable[[], socket.socket] = open_socket,
) -> dict[str, socket.socket]:
    """Connect to all neighbours: accept those of lower rank, dial those of higher rank."""
    async with asyncio.TaskGroup() as group:
        accepting = group.create_task(accept(listener, gate, lower))
        dialling = {
            peer.site: group.create_task(dial(gate.me, gate.identity, peer, opened))
            for peer in higher
        }
    return accepting.result() | {site: task.result() for site, task in dialling.items()}


def _prepare(sock: socket.socket, peer: Peer) -> None:
    if peer.device:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, peer.device.encode())
        sock.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, RECEIVE_BUFFER_BYTES)
    if peer.pacing:
        no_limit = struct.pack("=Q", _UNPACED_BYTES_PER_S)
        sock.setsockopt(socket.SOL_SOCKET, _SO_MAX_PACING_RATE, no_limit)


def _open_window(sock: socket.socket, peer: Peer) -> None:
    """Let the window of an accepted connection be as large as its receive buffer.

    Before Linux 6.11 it would stay below the buffer that the connection was opened with, 64 KB.
    """
    if peer.device and _find_kernel() < WINDOW_FOLLOWS_BUFFER:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_WINDOW_CLAMP, RECEIVE_BUFFER_BYTES)


def _find_kernel() -> tuple[int, ...]:
    """The version of this kernel, such as (6, 12)."""
    return tuple(map(int, re.findall(r"\d+", os.uname().release)[:2]))


async def _hello(sock: socket.socket) -> Hello:
    """Read exactly one frame, which must be a hello."""
    loop = asyncio.get_running_loop()
    reader = FrameReader(no_chunks, MAX_HELLO_BYTES)
    frame = None
    while frame is None:
        count = await loop.sock_recv_into(sock, reader.buffer())
        if not count:
            raise ProtocolError("closed before a hello")
        frame = reader.advance(count)
    if not isinstance(frame, Hello):
        raise ProtocolError("the first frame is not a hello")
    return frame
