"""Shows a live run from outside: `trunkline run --watch`, and `watch` in the shell.

The picture is drawn from the event log as it grows. The run itself does nothing more for it, so
its results stay the same.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from rich.console import Console
from rich.live import Live

from trunkline.agents.events.event import Event
from trunkline.agents.events.event_reading import parse
from trunkline.harness.live import progress
from trunkline.harness.live.live_state import Progress
from trunkline.harness.live.live_view import Clock, View
from trunkline.harness.live.progress import Show
from trunkline.harness.scenario.settings import Scenario

REFRESH_PER_S = 4.0


@dataclass(slots=True)
class Follower:
    """Reads the events that an event log has got since the last time, until it is closed."""

    path: Path
    _file: BinaryIO | None = None
    _rest: bytes = b""

    def read_events(self) -> Iterator[Event]:
        """Read the new events; there are none as long as there is no file."""
        if self._file is None:
            with contextlib.suppress(FileNotFoundError):
                self._file = self.path.open("rb")
        if self._file is None:
            return
        *lines, self._rest = (self._rest + self._file.read()).split(b"\n")
        for line in lines:
            yield parse(line)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()


@dataclass(slots=True)
class Watch:
    """Shows a run: `runner.run` calls `show_progress` and `follow`."""

    view: View
    show: Show | None
    _follower: Follower | None = None

    def follow(self, run_dir: Path) -> None:
        """Follow the event log of this run folder from now on."""
        self._follower = Follower(run_dir / "events.jsonl")

    def show_progress(self, latest: Progress) -> None:
        """Show the progress that the session has reported."""
        self.view.latest = latest
        if self.show is not None:
            self.refresh()
            self.show(self.view.share, self.view.describe())

    def refresh(self) -> View:
        """Bring the view up to the end of the log."""
        for event in self._follower.read_events() if self._follower else ():
            self.view.state.update(event)
        return self.view

    def close(self) -> None:
        """Close the log."""
        if self._follower is not None:
            self._follower.close()


@contextlib.contextmanager
def watch(console: Console, scenario: Scenario, clock: Clock = time.monotonic) -> Iterator[Watch]:
    """Show a run: on the whole of a terminal until it ends, or line by line without a terminal."""
    view = View(scenario, clock)
    if not console.is_interactive or console.quiet:
        with progress.live(console, clock) as show, contextlib.closing(Watch(view, show)) as shown:
            yield shown
        return
    with contextlib.closing(Watch(view, None)) as shown, _screen(console, shown):
        yield shown


@dataclass(slots=True)
class PromptView:
    """The same picture at a prompt, drawn when the user asks for it.

    `at_s` is the time of a held clock, in seconds after the run's start; the last event of the log
    may be older.
    """

    view: View
    follower: Follower
    console: Console
    at_s: float = 0.0

    def refresh(self) -> View:
        """Bring the view up to the end of the log, and to `at_s`."""
        state = self.view.state
        for event in self.follower.read_events():
            state.update(event)
        state.now_ns = max(state.now_ns, (state.start_ns or 0) + round(self.at_s * 1e9))
        self.view.latest = state.progress()
        return self.view

    def print(self) -> None:
        """Print the picture as it is now; without a terminal, one line of words."""
        view = self.refresh()
        if self.console.is_terminal:
            self.console.print(view)
        else:
            self.console.print(view.describe(), markup=False, soft_wrap=True)

    @contextlib.contextmanager
    def show_live(self) -> Iterator[None]:
        """Show the picture as it changes, if there is a terminal."""
        with _screen(self.console, self) if self.console.is_interactive else nullcontext():
            yield


def _screen(console: Console, shown: Watch | PromptView) -> Live:
    """The whole of a terminal, which gets its former contents back afterwards."""
    return Live(
        get_renderable=shown.refresh,
        console=console,
        screen=True,
        refresh_per_second=REFRESH_PER_S,
        redirect_stdout=False,
        redirect_stderr=False,
    )
