"""Brings requests to a session, in any kernel: numbered files in a folder that both sides see.

The session needs nothing but the file system, so it can look for a request without letting virtual
time pass. The writer renames each file when it is whole; the reader removes it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from trunkline.harness.processes.lines import Message

FOLDER = "requests"
"""The folder in a run's folder, while the run is in progress."""

HOLD = "hold"
"""The session's argument with which a virtual clock stands still between requests."""


@dataclass(slots=True)
class RequestQueue:
    """One side of the queue; `count` are the requests that it has put, or taken, so far."""

    folder: Path
    count: int = 0

    def put(self, request: Message) -> int:
        """Write a request; returns its number, from 1 on."""
        self.count += 1
        draft = self.folder / f".{self.count}"
        draft.write_text(json.dumps(request), encoding="utf-8")
        draft.rename(self.folder / str(self.count))
        return self.count

    def take(self) -> Message | None:
        """The next request, None if there is none yet."""
        path = self.folder / str(self.count + 1)
        try:
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        path.unlink()
        self.count += 1
        request: Message = json.loads(text)
        return request
