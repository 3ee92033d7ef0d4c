"""Run functions at sites, each in a forked process that dies with this process."""

from __future__ import annotations

import contextlib
import ctypes
import json
import socket
import traceback
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from trunkline.harness.network.interface import Network, NetworkError
from trunkline.harness.processes.fork import fork

_libc = ctypes.CDLL(None)
_PR_SET_TIMERSLACK = 29


class SiteProcess:
    """A function that runs at a site in its own process.

    The function gets a `Line` to exchange values with this process; its result is sent last.
    Leaving the context kills its process.
    """

    def __init__(
        self, network: Network, site: str | None, function: Callable[[Line], object]
    ) -> None:
        """Start the function. Without a site it stays in the namespace of this process."""
        ours, theirs = socket.socketpair()

        def act() -> int:
            ours.close()
            return _run(network, site, function, Line(theirs))

        self._process = fork(act)
        theirs.close()
        self._site = site
        self._line = Line(ours)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._line.close()
        self._process.end()

    def send(self, value: object) -> None:
        """Send a value to the function."""
        self._line.send(value)

    def receive(self) -> Any:
        """Receive the next value that the function sends, or at its end its result.

        Raises:
            NetworkError: the function failed, or its process was killed.
        """
        said = self._line.receive()
        if "error" in said:
            raise NetworkError(f"a measurement failed: {said['error']}", f"site {self._site}")
        return said["value"]


class Line:
    """One end of a connection that carries a JSON object per line."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self._file = connection.makefile("rwb")

    def send(self, value: object) -> None:
        """Send a value."""
        self.send_message({"value": value})

    def send_message(self, message: dict[str, object]) -> None:
        """Send a message."""
        self._file.write(json.dumps(message).encode() + b"\n")
        self._file.flush()

    def receive(self) -> dict[str, Any]:
        """Receive the next message; an error message at the end of the connection."""
        said = self._file.readline()
        return dict(json.loads(said)) if said else {"error": "its process was ended"}

    def close(self) -> None:
        """Close the connection."""
        with contextlib.suppress(OSError):
            self._file.close()
        self.connection.close()


def _run(network: Network, site: str | None, function: Callable[[Line], object], line: Line) -> int:
    """Run the function in the child process, whose timers are exact; return its exit code."""
    try:
        _libc.prctl(_PR_SET_TIMERSLACK, 1)  # 1 ns: wake up on time
        if site is not None:
            network.enter(site)
        line.send(function(line))
    except BaseException as error:
        traceback.print_exc()
        with contextlib.suppress(OSError):
            kind = "" if isinstance(error, NetworkError) else f"{type(error).__name__}: "
            line.send({"error": f"{kind}{error}"})
        return 1
    return 0
