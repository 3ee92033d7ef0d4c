"""Shows a run while it goes on, from outside: `trunkline run --watch`.

What is shown is read out of the event log as it grows. The run itself does nothing more than
without, so its results are the same.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from rich.console import Console
from rich.live import Live

from harness import progress
from harness.progress import Progress, Show
from harness.scenario import Scenario
from harness.view import Clock, View

REFRESH_PER_S = 4.0


@dataclass(slots=True)
class Follower:
    """Reads what a file has got since the last time, line by line, until it is closed."""

    path: Path
    _file: BinaryIO | None = None
    _rest: bytes = b""

    def lines(self) -> Iterator[dict[str, Any]]:
        """New events; none as long as there is no file."""
        if self._file is None:
            with contextlib.suppress(FileNotFoundError):
                self._file = self.path.open("rb")
        if self._file is None:
            return
        *lines, self._rest = (self._rest + self._file.read()).split(b"\n")
        for line in lines:
            yield json.loads(line)

    def close(self) -> None:
        """Let the file go."""
        if self._file is not None:
            self._file.close()


@dataclass(slots=True)
class Watch:
    """What shows a run: `progress` and `folder` are for `runner.run`."""

    view: View
    show: Show | None
    _follower: Follower | None = None

    def folder(self, run_dir: Path) -> None:
        """From now on the run is this folder's."""
        self._follower = Follower(run_dir / "events.jsonl")

    def progress(self, latest: Progress) -> None:
        """The session says how far it is."""
        self.view.latest = latest
        if self.show is not None:
            self.look()
            self.show(self.view.share, self.view.line())

    def look(self) -> View:
        """The view with all that is in the log by now."""
        for event in self._follower.lines() if self._follower else ():
            self.view.update(event)
        return self.view

    def close(self) -> None:
        """Look no more."""
        if self._follower is not None:
            self._follower.close()


@contextlib.contextmanager
def watch(console: Console, scenario: Scenario, clock: Clock = time.monotonic) -> Iterator[Watch]:
    """Show a run: on the whole of a terminal, which is as it was afterwards; elsewhere in lines."""
    view = View(scenario, clock)
    if not console.is_interactive or console.quiet:
        with progress.live(console, clock) as show, contextlib.closing(Watch(view, show)) as shown:
            yield shown
        return
    with contextlib.closing(Watch(view, None)) as shown:
        look: Callable[[], Any] = shown.look
        with Live(
            get_renderable=look,
            console=console,
            screen=True,
            refresh_per_second=REFRESH_PER_S,
            redirect_stdout=False,
            redirect_stderr=False,
        ):
            yield shown
