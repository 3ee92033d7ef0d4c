"""Processes that another process, the server, forks for us: it has imported what all of them need.

We send the server a message for each process, with the descriptors of its standard input and of its
output and errors; the answer is its pidfd. The server ends when its socket is closed, and each
process gets SIGTERM when the server ends.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from trunkline.harness.processes.fork import Handle, Process, fork

_MESSAGE_BYTES = 64
_FORK = b"fork"


@dataclass(slots=True)
class ForkServer:
    """The server, as its user sees it in a `with` block.

    Attributes:
        command: what starts it; a descriptor, which it gives to `serve`, is added at the end.
        cwd: the folder of the server and of its processes.
    """

    command: Sequence[str]
    cwd: Path
    _socket: socket.socket = field(init=False)
    _server: subprocess.Popen[bytes] = field(init=False)

    def __enter__(self) -> Self:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._server = subprocess.Popen(
                ["setpriv", "--pdeathsig", "TERM", *self.command, str(theirs.fileno())],
                cwd=self.cwd,
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                process_group=0,  # the terminal's Ctrl-C is for its user alone
            )
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()
        self._server.wait()

    def fork(self, given: int, output: int) -> ServedProcess:
        """Fork a process with these descriptors as standard input, and as output and errors.

        Raises ConnectionError if the server has ended.
        """
        socket.send_fds(self._socket, [_FORK], [given, output])
        answer, fds, _, _ = socket.recv_fds(self._socket, _MESSAGE_BYTES, 1)
        if not answer:
            raise ConnectionResetError(f"the server ended with code {self._server.wait()}")
        return ServedProcess(int(answer), fds[0], self._socket)


@dataclass(slots=True, eq=False)
class ServedProcess(Handle):
    """A process that the server has forked."""

    server: socket.socket

    def wait(self) -> int | None:
        """Have it reaped when it has ended; the exit code, or None if the server has ended."""
        os.close(self.pidfd)
        with contextlib.suppress(ConnectionError):
            self.server.send(str(self.pid).encode())
            if answer := self.server.recv(_MESSAGE_BYTES):
                return int(answer)
        return None


def serve(fd: int, act: Callable[[], int]) -> None:
    """Be the server until the socket is closed; each process calls `act` and exits with its code.

    A process has a process group of its own.
    """
    running: dict[int, Process] = {}
    with socket.socket(fileno=fd) as user:
        while True:
            request, ends, _, _ = socket.recv_fds(user, _MESSAGE_BYTES, 2)
            if request == _FORK:
                process = _fork(user, ends, act)
                running[process.pid] = process
                socket.send_fds(user, [str(process.pid).encode()], [process.pidfd])
            elif request:
                process = running.pop(int(request))
                user.send(str(process.wait()).encode())
                process.end()
            else:
                return


def _fork(user: socket.socket, ends: Sequence[int], act: Callable[[], int]) -> Process:
    given, output = ends

    def begin() -> int:
        user.close()
        os.setpgid(0, 0)
        for number, end in enumerate((given, output, output)):
            os.dup2(end, number)
        for end in ends:
            os.close(end)
        return act()

    process = fork(begin, handlers={}, last_signal=signal.SIGTERM)
    for end in ends:
        os.close(end)
    return process
