"""The user's side of a run's control socket: it has lines carried out, and saves the session."""

from __future__ import annotations

import json
import select
import socket
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from trunkline.harness.config import units
from trunkline.harness.faults import fault_syntax
from trunkline.harness.faults.timeline import Entry
from trunkline.harness.live.control_socket import MOST_BYTES
from trunkline.harness.processes.lines import Lines, Message, encode
from trunkline.harness.scenario.loading import resolve
from trunkline.harness.scenario.settings import Scenario, WarmUp

WAIT_S = 1.0
"""A command that is silent for so long gets a line of progress."""


class RunOverError(Exception):
    """The run ends, and with it the shell."""


@dataclass(slots=True)
class Channel:
    """A connection to the run's control socket."""

    sock: socket.socket
    lines: Lines = field(default_factory=Lines)
    messages: deque[Message] = field(default_factory=deque)

    def send(self, request: Message) -> None:
        """Send a request. Raises RunOverError."""
        try:
            self.sock.sendall(encode(request))
        except OSError:
            raise RunOverError from None

    def receive(self) -> Message:
        """The next message. Raises RunOverError when the connection is closed."""
        while not self.messages:
            try:
                data = self.sock.recv(1 << 16)
            except ConnectionError:
                data = b""
            if not data:
                raise RunOverError
            self.messages += map(json.loads, self.lines.split(data))
        return self.messages.popleft()

    def has_message(self, within_s: float = 0.0) -> bool:
        """Whether `receive` would return at once, now or after this time at most."""
        return bool(self.messages) or bool(select.select([self.sock], [], [], within_s)[0])

    def ask(
        self, line: str, show: Callable[[str], None], wait: Callable[[], None] = lambda: None
    ) -> Message:
        """Have a line carried out; returns the last message about it. Ctrl-C interrupts it.

        `show` gets its output, and `wait` is called for each WAIT_S without any.
        """
        request: Message = {"line": line, "cwd": str(Path.cwd())}
        if (size := len(encode(request))) > MOST_BYTES:
            text = f"a line of {size} bytes: expected at most {MOST_BYTES}"
            return {"done": False, "text": text, "unsent": True}
        self.send(request)
        while True:
            try:
                while not self.has_message(WAIT_S):
                    wait()
                said = self.receive()
            except KeyboardInterrupt:
                self.send({"interrupt": True})
                continue
            if "output" in said:
                show(said["output"])
            elif "done" in said:
                return said
            elif "ending" in said:
                show(f"the run is ending: {said['ending']}\n")
            elif text := announce(said):
                show(text)


def announce(news: Message) -> str:
    """A line on what was done at another prompt, or by `inject`: a fault, or a step of the clock.

    It is empty for other messages. After a step, the faults that began or ended in it follow.
    """
    if "typed" in news:
        return f"typed elsewhere at {news['t_s']:.3f} s: {news['typed']}\n"
    if "stepped" in news:
        step = f"stepped elsewhere to {news['stepped']:.3f} s"
        return "; ".join([step, *news["faults"].splitlines()]) + "\n"
    return ""


def session_scenario(scenario: Scenario, name: str, session: Message) -> str:
    """A session as the text of a scenario with the typed faults, which ends when it was saved."""
    at_s = (float(units.parse(line["at"], units.TIME_S)) for line in session["timeline"])
    faults = (
        fault_syntax.parse(line["do"], scenario.topology, targets=scenario.targets)
        for line in session["timeline"]
    )
    entries = tuple(map(Entry, at_s, faults))
    whole = scenario.whole_stop
    ends_s = [time_s for time_s in (whole.time_s, session["end_s"]) if time_s]
    stop = replace(whole, time_s=min(ends_s, default=None))
    notes = "".join(f"# not repeated: {note}\n" for note in session["notes"])
    if scenario.warm_up.unit:
        notes += "# not repeated: the warm-up\n"
    saved = replace(scenario, name=name, timeline=entries, stop=stop, warm_up=WarmUp())
    return notes + resolve(saved)


def save(scenario: Scenario, path: Path, session: Message, *, replaces: bool = False) -> str | None:
    """Write a session as a scenario; returns why that failed, None if it did not.

    A file that is there already stays as it is, unless `replaces`.
    """
    try:
        text = session_scenario(scenario, path.stem, session)
        with path.open("w" if replaces else "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        return f"save {path}: this file exists: expected a new one"
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        return f"{path}: cannot be written: {reason}"
    return None
