"""The control socket of a run: relays a user's lines to the session and the answers back.

`docs/architecture.md` describes the whole path of a line. The socket is in a folder that only the
run's user can enter, other users are refused, and the run's folder has a link to it (`control`).
The shell's front end is connected from the start. Clients send one JSON object per line, `{"line":
text, "cwd": their folder}` or `{"interrupt": true}`. They get the session's messages about their
line; the last one has `done`. Of a fault that another client typed they get `typed`.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import struct
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Self

from trunkline.harness.kernel.process import Program
from trunkline.harness.live.request_queue import FOLDER, RequestQueue
from trunkline.harness.processes.lines import Lines, Message, decode, encode
from trunkline.harness.processes.ownership import Owner

LINK = "control"
"""The name of the symbolic link in a run's folder to the folder of its socket."""

SOCKET = "socket"
MOST_CLIENTS = 16
MOST_BYTES = 1 << 16
SLOW_S = 5.0
"""How long a client other than the front end may leave messages unread, in seconds."""

OVER = "the run is over"


def connect(run_dir: Path) -> socket.socket:
    """Connect to the control socket of a live run. Raises OSError."""
    with _short_path(run_dir / LINK) as way:
        client = socket.socket(socket.AF_UNIX)
        try:
            client.connect(f"{way}/{SOCKET}")
        except BaseException:
            client.close()
            raise
        return client


@dataclass(slots=True, eq=False)
class Client:
    """One connection."""

    sock: socket.socket
    lines: Lines = field(default_factory=Lines)


@dataclass(slots=True)
class ControlSocket:
    """The control socket of one run; `front` is the connection of the shell's front end."""

    run_dir: Path
    front: socket.socket | None = None
    _program: Program | None = None
    _clients: list[Client] = field(default_factory=list)
    _asked: dict[int, Client] = field(default_factory=dict)
    _waiting: list[tuple[Client | None, Message]] = field(default_factory=list)
    _open: bool = False
    _paused: bool = False
    _last: Client | None = None
    _held_s: float = 0.0
    _faults: str = ""
    _ways: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    _listener: socket.socket = field(default_factory=lambda: socket.socket(socket.AF_UNIX))
    _requests: RequestQueue = field(init=False)

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as made:
            self._requests = RequestQueue(self.run_dir / FOLDER)
            self._requests.folder.mkdir(mode=0o700)
            made.callback(shutil.rmtree, self._requests.folder, ignore_errors=True)
            prefix = Owner.me().prefix
            folder = Path(made.enter_context(tempfile.TemporaryDirectory(prefix=prefix)))
            made.enter_context(self._listener)
            with _short_path(folder) as way:
                self._listener.bind(f"{way}/{SOCKET}")
            self._listener.listen(MOST_CLIENTS)
            self._listener.setblocking(False)
            link = self.run_dir / LINK
            link.symlink_to(folder)
            made.callback(link.unlink, missing_ok=True)
            if self.front is not None:
                self._clients.append(Client(self.front))
            self._ways = made.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        for client in [*self._asked.values(), *(client for client, _ in self._waiting)]:
            self._send(client, {"done": False, "text": OVER})
        for client in self._clients:
            client.sock.close()
        self._ways.close()

    # -- as the companion of the program --------------------------------------------------------

    def began(self, program: Program) -> None:
        """See `harness.kernel.process.Companion`."""
        self._program = program

    def handles(self) -> Mapping[int, Callable[[], None]]:
        """See `harness.kernel.process.Companion`."""
        clients = {each.sock.fileno(): partial(self._read, each) for each in self._clients}
        return {self._listener.fileno(): self._accept, **clients}

    def interrupted(self) -> None:
        """See `harness.kernel.process.Companion`; this lets a paused guest run on."""
        self._hand_over(None, {"end": True})

    # -- from the session ------------------------------------------------------------------

    def relay(self, message: Message) -> None:
        """Send a message of the session to the client that it answers, others to the front end.

        A fault that one client typed is news for all others, and so is a step of a held clock.
        """
        if "prompt" in message:
            self._tell_step(message["prompt"])
        if "typed" in message:
            typist = self._asked.get(message.pop("request"))
            for other in [each for each in self._clients if each is not typist]:
                self._send(other, message)
            return
        if "answer" in message:
            number = message.pop("answer")
            self._faults = message.pop("faults", self._faults)
            self._last = self._asked.get(number)
            self._send(self._last, message)
            if "done" in message:
                self._asked.pop(number, None)
            return
        if "open" in message:
            self._open = True
            waiting, self._waiting = self._waiting, []
            for client, request in waiting:
                self._hand_over(client, request)
        elif self._program is not None and message.get("taken") == self._requests.count:
            self._paused = True  # at its prompt, and no request is under way
            self._program.pause()
        self._send(next((each for each in self._clients if each.sock is self.front), None), message)

    def _tell_step(self, held_s: float) -> None:
        """Tell all but the last client that was answered that the clock is held at another time."""
        before_s, self._held_s = self._held_s, held_s
        if held_s > before_s:
            for other in [each for each in self._clients if each is not self._last]:
                self._send(other, {"stepped": held_s, "faults": self._faults})
        self._faults = ""

    # -- clients --------------------------------------------------------------------------------

    def _accept(self) -> None:
        try:
            sock, _ = self._listener.accept()
        except OSError:  # the client has gone
            return
        if _user_of(sock) != os.geteuid() or len(self._clients) > MOST_CLIENTS:
            sock.close()
            return
        sock.settimeout(SLOW_S)
        self._clients.append(Client(sock))

    def _read(self, client: Client) -> None:
        try:
            data = client.sock.recv(MOST_BYTES)
        except OSError:
            data = b""
        lines = client.lines.split(data)
        if not data or len(client.lines.rest) > MOST_BYTES:
            self._drop(client)
            return
        for line in lines:
            if (request := decode(line)) is not None:
                self._hand_over(client, request)
            else:
                self._send(client, {"done": False, "text": "expected a JSON object per line"})

    def _drop(self, client: Client) -> None:
        """Forget a client and interrupt its requests; if it is the front end, end the run."""
        client.sock.close()
        self._clients.remove(client)
        self._waiting = [(who, what) for who, what in self._waiting if who is not client]
        for number in [number for number, who in self._asked.items() if who is client]:
            del self._asked[number]
            self._hand_over(None, {"interrupt": number})
        if client.sock is self.front:
            self._hand_over(None, {"line": "exit"})

    def _hand_over(self, client: Client | None, request: Message) -> None:
        """Hand a request to the session as soon as it takes requests, and wake it."""
        if not self._open or self._program is None:
            self._waiting.append((client, request))
            return
        if request.get("interrupt") is True:
            mine = [number for number, who in self._asked.items() if who is client]
            request = {"interrupt": mine[-1] if mine else 0}
            client = None
        number = self._requests.put(request)
        if client is not None:
            self._asked[number] = client
        if self._paused:
            self._paused = False
            self._program.resume()
        else:
            self._program.nudge()

    def _send(self, client: Client | None, message: Message) -> None:
        if client is None or client not in self._clients:
            return
        try:
            client.sock.sendall(encode(message))
        except OSError:  # the client is gone or too slow
            self._drop(client)


@contextlib.contextmanager
def _short_path(folder: Path) -> Any:
    """A short path of a folder: that of a socket may have 107 letters only."""
    handle = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{handle}"
    finally:
        os.close(handle)


def _user_of(sock: socket.socket) -> int:
    """The user id of the connected process."""
    about = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    user: int = struct.unpack("3i", about)[1]
    return user
