"""Reads files of which nothing is known: they may have no end, or wait for a writer forever."""

from __future__ import annotations

import errno
import math
import stat
from pathlib import Path

_OPENED = ("/dev/stdin", "/dev/fd/", "/proc/self/fd/")
"""What this process was given open, such as a shell's `<(command)`: its writer has begun."""

_KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def check_regular(path: Path, most: float = math.inf) -> None:
    """Raises OSError if there is no such file of at most so many bytes, or if it may never end."""
    found = path.stat()
    kind = stat.S_IFMT(found.st_mode)
    if kind in _KINDS and not str(path).startswith(_OPENED):
        raise OSError(errno.EINVAL, f"is {_KINDS[kind]}: expected a regular file", str(path))
    if found.st_size > most:
        what = f"has {found.st_size} bytes: expected {most:.0f} or fewer"
        raise OSError(errno.EFBIG, what, str(path))


def read_bytes(path: Path, most: int) -> bytes:
    """The content of a regular file of at most so many bytes. Raises OSError."""
    check_regular(path, most)
    with path.open("rb") as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise OSError(errno.EFBIG, f"expected {most} bytes or fewer", str(path))
    return content
