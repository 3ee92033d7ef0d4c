"""What a process of several agents notes of their turns; its supervisor reads it after a crash too.

If agents run code of the user, the process has the host name of the site whose turn it is, for the
guest's watch for processes that spin. The memory that it grows by in a turn counts for that site.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import resource
import socket
import struct
from collections.abc import Sequence

LEAK_BYTES = 100 << 20
"""An agent whose turns took more memory, and more than all others took, is named with a crash."""

_NEW_HOST_NAME = 0x04000000
_libc = ctypes.CDLL(None, use_errno=True)
_TURN = struct.Struct("=L?")
_MEMORY = struct.Struct("=Q")
_MEMORY_AT = 8


class TurnNotes:
    """Notes in memory that the process shares with its supervisor."""

    def __init__(self, members: Sequence[str], watches_code: bool) -> None:
        """`watches_code` is whether agents run code of the user."""
        self._members = members
        self._numbers = {name: number for number, name in enumerate(members)}
        self._watches_code = watches_code
        self._shared = mmap.mmap(-1, _MEMORY_AT + _MEMORY.size * len(members))
        self._peak_bytes = 0

    def start(self) -> None:
        """Get ready, in the process of the agents. Raises OSError."""
        if not self._watches_code:
            return
        if _libc.unshare(_NEW_HOST_NAME):
            error = ctypes.get_errno()
            raise OSError(error, f"cannot have an own host name: {os.strerror(error)}")
        self._peak_bytes = _peak_bytes()

    def begin(self, name: str) -> None:
        """The turn of an agent begins."""
        _TURN.pack_into(self._shared, 0, self._numbers[name], True)
        if self._watches_code:
            socket.sethostname(name)

    def end(self) -> None:
        """It has ended."""
        number, _ = _TURN.unpack_from(self._shared)
        _TURN.pack_into(self._shared, 0, number, False)
        if self._watches_code and (peak_bytes := _peak_bytes()) > self._peak_bytes:
            grown = _grown_at(number)
            (before,) = _MEMORY.unpack_from(self._shared, grown)
            _MEMORY.pack_into(self._shared, grown, before + peak_bytes - self._peak_bytes)
            self._peak_bytes = peak_bytes

    @property
    def last(self) -> str:
        """The agent that has, or had, the last turn."""
        number: int = _TURN.unpack_from(self._shared)[0]
        return self._members[number]

    @property
    def busy(self) -> str | None:
        """The agent whose code runs; None between turns."""
        return self.last if _TURN.unpack_from(self._shared)[1] else None

    def find_leak(self) -> tuple[str, int] | None:
        """The agent that took most memory in its turns that have ended, and how many bytes.

        None unless that is more than LEAK_BYTES and than all others took.
        """
        places = range(len(self._members))
        grown = [_MEMORY.unpack_from(self._shared, _grown_at(number))[0] for number in places]
        most = max(grown)
        if most < max(LEAK_BYTES, sum(grown) - most):
            return None
        return self._members[grown.index(most)], most


def _grown_at(number: int) -> int:
    """The place of the count of an agent's memory."""
    return _MEMORY_AT + _MEMORY.size * number


def _peak_bytes() -> int:
    """The most memory that this process has had so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
