"""Agents find each other over real TCP on loopback; strangers and taken ports are told apart."""

from __future__ import annotations

import asyncio
import contextlib
import socket

import pytest

from agents.dial import Peer, accept, dial, listen, mesh
from agents.messages import Begin, Hello, encode
from agents.settings import AgentError

SITES = ("a", "b", "c", "d")


def peers(listeners):
    return {s: Peer(s, *sock.getsockname()) for s, sock in listeners.items()}


def test_a_mesh_has_one_connection_per_pair_and_knows_who_is_who():
    async def scene():
        listeners = {site: listen("127.0.0.1", 0) for site in SITES}
        at = peers(listeners)
        found = await asyncio.gather(
            *(
                mesh(
                    site,
                    "run",
                    listeners[site],
                    [at[other] for other in SITES[:rank]],
                    [at[other] for other in SITES[rank + 1 :]],
                )
                for rank, site in enumerate(SITES)
            )
        )
        sockets = dict(zip(SITES, found, strict=True))
        loop = asyncio.get_running_loop()
        for site in SITES:
            assert set(sockets[site]) == set(SITES) - {site}
            for other in sockets[site]:
                await loop.sock_sendall(sockets[site][other], site.encode())
        for site in SITES:
            for other, sock in sockets[site].items():
                assert await loop.sock_recv(sock, 10) == other.encode()
        for site in SITES:
            for sock in (*sockets[site].values(), listeners[site]):
                sock.close()

    asyncio.run(asyncio.wait_for(scene(), 10))


@pytest.mark.parametrize(
    "greeting",
    [
        encode(Hello("another run", "a")),
        encode(Hello("run", "z")),
        encode(Begin(())),
        b"SSH-2.0-OpenSSH_9.2p1 Debian",
        b"",
    ],
)
def test_strangers_are_turned_away_and_do_not_take_the_place_of_the_expected(greeting):
    async def scene():
        listener = listen("127.0.0.1", 0)
        address = listener.getsockname()
        accepting = asyncio.create_task(accept(listener, "run", [Peer("a", "", 0)]))
        stranger = socket.create_connection(address)
        stranger.sendall(greeting)
        stranger.shutdown(socket.SHUT_WR)
        caller = await dial("a", "run", Peer("b", *address))
        accepted = await accepting
        assert list(accepted) == ["a"]
        stranger.setblocking(False)
        with contextlib.suppress(ConnectionResetError):
            assert await asyncio.get_running_loop().sock_recv(stranger, 1) == b""
        for sock in (stranger, caller, accepted["a"], listener):
            sock.close()

    asyncio.run(asyncio.wait_for(scene(), 10))


def test_a_taken_port_is_named():
    taken = listen("127.0.0.1", 0)
    port = taken.getsockname()[1]
    with pytest.raises(AgentError, match=f"cannot listen on 127.0.0.1 port {port}: Address alre"):
        listen("127.0.0.1", port)
    taken.close()


def test_a_peer_that_does_not_listen_is_named():
    free = listen("127.0.0.1", 0)
    port = free.getsockname()[1]
    free.close()
    with pytest.raises(AgentError, match=r"a cannot reach b at 127\.0\.0\.1: .*Connect"):
        asyncio.run(dial("a", "run", Peer("b", "127.0.0.1", port)))
