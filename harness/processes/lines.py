"""Lines: messages between processes, most of which hold one JSON object each, and ends of files."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Message = dict[str, Any]


@dataclass(slots=True)
class Lines:
    """Splits a stream of bytes into lines; `rest` is the line that has not ended yet."""

    rest: bytes = b""

    def split(self, data: bytes) -> list[bytes]:
        """Add data to the stream; returns the lines that have ended, without line feeds."""
        *lines, self.rest = (self.rest + data).split(b"\n")
        return lines


def encode(message: Message) -> bytes:
    """Encode a message as a line."""
    return json.dumps(message).encode() + b"\n"


def decode(line: bytes) -> Message | None:
    """Decode the message in a line; None if the line is not a JSON object."""
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


def read_tail(path: Path, most_bytes: int) -> bytes:
    """The last bytes of a file, up to so many. Raises OSError."""
    with path.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - most_bytes))
        return file.read()


def print_message(message: Message) -> None:
    """Print a message at once, for the process that reads our standard output."""
    sys.stdout.write(encode(message).decode())
    sys.stdout.flush()
