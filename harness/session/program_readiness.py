"""How a session finds out that a program is ready: by a line of output or a port that listens.

The port is looked up in the kernel's table of the site's sockets. So the program gets no connection
that it did not expect.
"""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass
from pathlib import Path

POLL_NS = 10_000_000
"""How often a port is looked up, in time of the run: nothing tells when a socket listens."""

LONGEST_LINE = 1 << 16

_LISTEN = "0A"


@dataclass(slots=True)
class LineSearch:
    """Looks for a line in a stream that comes piece by piece."""

    pattern: re.Pattern[str]
    _rest: bytes = b""

    def finds(self, data: bytes) -> bool:
        """Whether one of the lines that this data completes matches, or the unfinished last one."""
        *lines, rest = (self._rest + data).split(b"\n")
        self._rest = rest[-LONGEST_LINE:]
        return any(self.pattern.search(line.decode(errors="replace")) for line in (*lines, rest))


def listens(pid: int, port: int) -> bool:
    """Whether a socket listens at a TCP port in the network of this process."""
    rows: list[str] = []
    for name in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):  # the process has ended, or there is no IPv6
            rows += Path(f"/proc/{pid}/net/{name}").read_text().splitlines()[1:]
    found = (row.split()[1:4:2] for row in rows)
    return any(local.endswith(f":{port:04X}") and state == _LISTEN for local, state in found)
