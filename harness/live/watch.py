"""Shows a run while it goes on, from outside: `trunkline run --watch`, and `watch` in the shell.

What is shown is read out of the event log as it grows. The run itself does nothing more than
without, so its results are the same.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from rich.console import Console
from rich.live import Live

from trunkline.harness.live import progress
from trunkline.harness.live.live_view import Clock, View
from trunkline.harness.live.progress import Progress, Show
from trunkline.harness.record.progress_counters import STARTS, Tally
from trunkline.harness.scenario.loading import Scenario

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
    with contextlib.closing(Watch(view, None)) as shown, _screen(console, shown):
        yield shown


@dataclass(slots=True)
class Glance:
    """The same picture at a prompt, of a run that is looked at now and then.

    A run that stands still has come to `at_s`, in seconds after its start, whatever its log's last
    event is.
    """

    view: View
    follower: Follower
    console: Console
    at_s: float = 0.0
    _start_ns: int | None = None
    _tally: Tally = field(default_factory=Tally)

    def look(self) -> View:
        """The view with all that is in the log by now."""
        for event in self.follower.lines():
            self.view.update(event)
            self._tally.update(event)
            if self._start_ns is None and event["event"] in STARTS:
                self._start_ns = event["t_ns"]
        self.view.now_ns = max(self.view.now_ns, (self._start_ns or 0) + round(self.at_s * 1e9))
        self._tally.virtual_s = self.view.now_ns / 1e9
        self.view.latest = Progress(**self._tally.fields())
        return self.view

    def print(self) -> None:
        """The picture as it is now; one line where there is no terminal."""
        view = self.look()
        if self.console.is_terminal:
            self.console.print(view)
        else:
            self.console.print(view.line(), markup=False, soft_wrap=True)

    @contextlib.contextmanager
    def live(self) -> Iterator[None]:
        """The picture as it changes, where there is a terminal."""
        with _screen(self.console, self) if self.console.is_interactive else nullcontext():
            yield


def _screen(console: Console, shown: Watch | Glance) -> Live:
    """The whole of a terminal, which is as it was afterwards."""
    look: Callable[[], Any] = shown.look
    return Live(
        get_renderable=look,
        console=console,
        screen=True,
        refresh_per_second=REFRESH_PER_S,
        redirect_stdout=False,
        redirect_stderr=False,
    )
