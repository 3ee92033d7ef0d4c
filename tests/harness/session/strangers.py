"""Strangers in a site who call all agents; inside the embedded kernel, where imports are dear."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import socket
import time

from inside import run_all

from trunkline.agents.wire.framing import (
    CONTROL,
    HEADER,
    MAGIC,
    VERSION,
    ChunkHeader,
    encode,
    encode_chunk,
)
from trunkline.agents.wire.identity import Identity
from trunkline.agents.wire.messages import Bye
from trunkline.harness.session import agent_main
from trunkline.harness.session.supervisor import Supervisor


def call_in_vain(home: str, quiet: str, loud: str) -> dict:
    """Inside: one run as it is; then one whose site n3 is full of strangers, who call everybody."""
    done = run_all(home, [quiet])
    start, end = Supervisor.start, Supervisor.end
    strangers: list[int] = []

    def start_among_strangers(self):
        start(self)
        agents = self._children
        network, sites = agents._network, agents._scenario.topology.site_names
        doors = [(network.address(site), agent_main.WORKER_PORT) for site in sites]
        for door in (*doors, (network.address(sites[0]), agent_main.CONTROLLER_PORT)):
            strangers.append(os.fork())
            if not strangers[-1]:
                network.enter("n3")
                pester(door, agents.identity)

    def end_them_all(self):
        while strangers:
            pid = strangers.pop()
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        end(self)

    Supervisor.start, Supervisor.end = start_among_strangers, end_them_all
    also = run_all(home, [loud])
    return {"codes": done["codes"] | also["codes"], "left": done["left"] + also["left"]}


def pester(door: tuple[str, int], insider: Identity) -> None:
    """Send this door bytes that might open, cut or block it, until killed."""
    outsider = Identity(insider.run, b"a guess")
    said = [
        b"GET / HTTP/1.1\r\n\r\n",
        encode(outsider.hello("n2", "n1", 2**62)),
        encode(Identity("another", b"its own").hello("n2", "n1", 2**62)),
        *(encode(insider.hello("n1", whom, 1)) for whom in ("n2", "n3", "n4", "controller")),
        HEADER.pack(MAGIC, VERSION - 1, CONTROL, 50, *[0] * 7) + bytes(50),
        HEADER.pack(MAGIC, VERSION, CONTROL, 2**24, *[0] * 7) + bytes(2**12),
        encode_chunk(ChunkHeader(False, 0, 0, 0, 0, (), False, 65536)) + bytes(65536),
        encode(Bye()) * 1000,
        b"T",
    ]
    silent = []
    for each in itertools.cycle(said):
        with contextlib.suppress(OSError):
            sock = socket.create_connection(door, timeout=1)
            sock.sendall(each)
            silent.append(sock)
        for sock in silent[:-50]:
            sock.close()
        del silent[:-50]
        time.sleep(0.02)
