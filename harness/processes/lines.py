"""How processes talk to each other: by lines, most of which hold one JSON object each."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from typing import Any

Message = dict[str, Any]


@dataclass(slots=True)
class Lines:
    """Cuts a stream of bytes into lines; `rest` is the beginning of a line that goes on."""

    rest: bytes = b""

    def split(self, data: bytes) -> list[bytes]:
        """The lines that end in this data, which follows what came before, without line feeds."""
        *lines, self.rest = (self.rest + data).split(b"\n")
        return lines


def encode(message: Message) -> bytes:
    """A message as a line."""
    return json.dumps(message).encode() + b"\n"


def decode(line: bytes) -> Message | None:
    """The message in a line, None if the line holds anything else than a JSON object."""
    try:
        message = json.loads(line)
    except ValueError:
        return None
    return message if isinstance(message, dict) else None


def write_all(fd: int, data: bytes) -> None:
    """Write all of the data to a descriptor. Raises OSError."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]


def print_message(message: Message) -> None:
    """Print a message at once, for the process that reads our standard output."""
    sys.stdout.write(encode(message).decode())
    sys.stdout.flush()
