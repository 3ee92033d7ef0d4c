"""The protocol between client and server: one JSON object per line, some followed by bytes.

`{"file": "tables/tasks.csv", "bytes": 17}` is followed by 17 bytes of that file, which replaces an
existing one. A file longer than `PIECE_BYTES` is sent in pieces; those after the first have
`"more": true`. `{"end": true}` follows the last file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from trunkline.harness.runs.remote import BrokenError, RemoteError

Message = dict[str, Any]

PIECE_BYTES = 1 << 18
MAX_LINE_BYTES = 1 << 26
"""The longest message: the text of a network with a hundred thousand links."""


@dataclass(slots=True)
class Wire:
    """One end of a connection.

    `read` returns the next bytes, none at the end; `write` sends all given bytes. Both may raise
    OSError.
    """

    read: Callable[[], bytes]
    write: Callable[[bytes], None]
    rest: bytes = b""

    def send(self, message: Message, payload: bytes | None = None) -> None:
        """Send one message, followed by the payload. Raises BrokenError."""
        if payload is not None:
            message = {**message, "bytes": len(payload)}
        try:
            self.write(json.dumps(message).encode() + b"\n" + (payload or b""))
        except OSError as error:
            raise BrokenError(_describe_error(error)) from error

    def receive(self) -> tuple[Message, bytes]:
        """Receive the next message and its payload. Raises BrokenError, even if it is invalid."""
        line = self._read_line()
        try:
            message = json.loads(line)
            size = int(message.get("bytes", 0))
        except (ValueError, AttributeError, TypeError):
            shown = line[:60].decode(errors="replace")
            raise BrokenError(f"{shown!r} is not a message") from None
        if not 0 <= size <= PIECE_BYTES:
            raise BrokenError(f"{size} bytes in one piece")
        while len(self.rest) < size:
            self._read_more()
        payload, self.rest = self.rest[:size], self.rest[size:]
        return message, payload

    def skip_to(self, start: bytes, most_bytes: int = 1 << 16) -> None:
        """Drop lines before the one that begins with `start`: a login shell may print some.

        Raises BrokenError after `most_bytes`.
        """
        dropped = 0
        while True:
            while len(self.rest) < len(start) and b"\n" not in self.rest:
                self._read_more()
            if self.rest.startswith(start):
                return
            dropped += len(self._read_line()) + 1
            if dropped > most_bytes:
                raise BrokenError("its output is not Trunkline's")

    def send_files(self, files: Iterable[tuple[str, Path]]) -> None:
        """Send files under these names. Raises BrokenError, and OSError for an unreadable file."""
        for name, path in files:
            with path.open("rb") as file:
                about = {"file": name, "program": os.access(path, os.X_OK)}
                self.send(about, file.read(PIECE_BYTES))
                while piece := file.read(PIECE_BYTES):
                    self.send({"file": name, "more": True}, piece)
        self.send({"end": True})

    def receive_files(self, folder: Path) -> None:
        """Receive files into a folder.

        After a failed write it reads the other files too, so that the connection stays usable.
        Raises BrokenError, RemoteError, and OSError if a file could not be written.
        """
        failed: OSError | None = None
        while True:
            message, payload = self.receive()
            if "end" in message:
                break
            if "refused" in message:
                raise RemoteError(message["refused"])
            path = folder / check_name(message.get("file"))
            try:
                if failed is None:
                    path.parent.mkdir(parents=True, exist_ok=True)
                    with path.open("ab" if message.get("more") else "wb") as file:
                        file.write(payload)
                    if message.get("program"):
                        path.chmod(0o755)
            except OSError as error:
                failed = error
        if failed is not None:
            raise failed

    def _read_line(self) -> bytes:
        while b"\n" not in self.rest:
            if len(self.rest) > MAX_LINE_BYTES:
                raise BrokenError("a message without an end")
            self._read_more()
        line, _, self.rest = self.rest.partition(b"\n")
        return line

    def _read_more(self) -> None:
        try:
            data = self.read()
        except OSError as error:
            raise BrokenError(_describe_error(error)) from error
        if not data:
            raise BrokenError("the connection was closed")
        self.rest += data


def check_name(name: object) -> PurePosixPath:
    """A file name of the other side as a path that stays inside its folder.

    Raises BrokenError for any other path.
    """
    path = PurePosixPath(str(name))
    if path.is_absolute() or ".." in path.parts or not path.parts or "\0" in str(name):
        raise BrokenError(f"{name!r} is not allowed as a file name")
    return path


def list_files(folder: Path, last: tuple[str, ...] = ()) -> Iterator[tuple[str, Path]]:
    """The regular files below a folder, by relative name; those in `last` come last."""
    paths = (Path(at, name) for at, _, names in os.walk(folder) for name in names)
    regular = (path for path in paths if path.is_file() and not path.is_symlink())
    named = {path.relative_to(folder).as_posix(): path for path in regular}
    for name in (*sorted(named.keys() - set(last)), *(name for name in last if name in named)):
        yield name, named[name]


def _describe_error(error: OSError) -> str:
    if isinstance(error, TimeoutError):
        return "no answer for too long"
    return error.strerror or str(error) or type(error).__name__
