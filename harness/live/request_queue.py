"""How requests get to a session that runs, in whatever kernel: numbered files in a folder.

The session's side needs nothing but the file system, so it can wait for a request without letting
virtual time pass. Each file is written whole under another name and then renamed; whoever has read
it removes it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = "inbox"
"""Where it is in a run's folder, while the run goes on."""

HOLD = "hold"
"""The session's argument with which a virtual clock stands still until somebody asks for time."""

Request = dict[str, Any]


@dataclass(slots=True)
class Outbox:
    """The side that asks; `sent` counts the requests."""

    folder: Path
    sent: int = 0

    def put(self, request: Request) -> int:
        """Hand in a request; returns its number, from 1 on."""
        number = self.sent + 1
        draft = self.folder / f".{number}"
        draft.write_text(json.dumps(request), encoding="utf-8")
        draft.rename(self.folder / str(number))
        self.sent = number
        return number


@dataclass(slots=True)
class Inbox:
    """The session's side; `taken` counts the requests."""

    folder: Path
    taken: int = 0

    def take(self) -> Request | None:
        """The next request, None if there is none yet."""
        path = self.folder / str(self.taken + 1)
        try:
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        path.unlink()
        self.taken += 1
        request: Request = json.loads(text)
        return request
