"""Agents that share a process, as their supervisor sees them: like a process each.

The supervisor sends commands through a socket. A message that starts an agent carries its pipes. An
agent's end is the end of a pipe, which holds the exit code. If there is none, the process has ended
with all of its agents, and its exit code is that of each.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trunkline.agents.timing.exact_waits import await_readable
from trunkline.harness.processes.fork import Handle, Process, fork
from trunkline.harness.session.shared_agents.turn_notes import TurnNotes

STOPPED = b"stopped"
"""The answer to `pause`."""

Earlier = tuple[int, int]
"""What an agent continues: the number of earlier lives, and of the next iteration or task."""

_COMMANDS: Mapping[int, str] = {signal.SIGSTOP: "pause", signal.SIGCONT: "resume"}
_MESSAGE_BYTES = 1 << 16


@dataclass(slots=True)
class AgentGroup:
    """The process that some agents share; it is forked when the first of them starts.

    Attributes:
        members: the sites of its agents.
        act: what the process does with its end of the socket; returns its exit code.
        notes: what the process notes of the turns of its agents.
    """

    members: Sequence[str]
    act: Callable[[socket.socket], int]
    notes: TurnNotes
    process: Process | None = None
    commands: socket.socket | None = None

    def start(
        self, name: str, earlier: Earlier, ends: Sequence[int], close: Callable[[], None]
    ) -> SharedAgent:
        """Start an agent; see `supervisor.Children.fork`."""
        end, ended = os.pipe()
        try:
            if self.process is None:
                self._fork((*ends, end, ended), close)
            assert self.process is not None
            assert self.commands is not None
            request = json.dumps({"do": "start", "name": name, "earlier": earlier}).encode()
            with contextlib.suppress(ConnectionError):  # it has ended, and so has this agent
                socket.send_fds(self.commands, [request], [*ends, ended])
        finally:
            os.close(ended)
        return SharedAgent(self.process.pid, end, self, name)

    def _fork(self, ends: Sequence[int], close: Callable[[], None]) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

        def act() -> int:
            close()
            ours.close()
            for fd in ends:
                os.close(fd)
            return self.act(theirs)

        self.process, self.commands = fork(act), ours
        theirs.close()

    def command(self, **command: Any) -> None:
        """Send a command, unless the process has ended."""
        assert self.commands is not None
        with contextlib.suppress(ConnectionError):
            self.commands.send(json.dumps(command).encode())

    def await_answer(self, most_s: float) -> bool:
        """Wait for the answer to a command, or for the end of the process; False if in vain."""
        assert self.commands is not None
        if not await_readable(self.commands.fileno(), most_s):
            return False
        with contextlib.suppress(ConnectionError):
            self.commands.recv(_MESSAGE_BYTES)
        return True

    def wait(self) -> int:
        """Wait for the end of the process; returns its exit code or minus its signal."""
        assert self.process is not None
        return self.process.wait()

    def explain_crash(self) -> str:
        """Why an agent has ended with the process, of which `wait` gave the exit code."""
        assert self.process is not None
        code = self.process.code or 0
        how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
        why = (
            f"while the agent of {self.notes.last} ran, "
            f"the process of {len(self.members)} sites ended {how}"
        )
        if leak := self.notes.find_leak():
            name, taken = leak
            why += f"; of its memory, the agent of {name} took {taken / 1e6:.0f} MB"
        return why

    def end(self) -> None:
        """End the process with all of its agents; a second call does nothing."""
        if self.process is not None and self.commands is not None:
            self.process.end()
            self.commands.close()
            self.process = self.commands = None


@dataclass(slots=True, eq=False)
class SharedAgent(Handle):
    """One agent of a group, in place of a `Process`; its `pidfd` is a pipe.

    `crash` says why it has ended, if its whole process has.
    """

    group: AgentGroup
    name: str
    code: int | None = None
    crash: str = ""

    def send(self, number: int) -> None:
        """Do what a signal does to a process: pause, resume, or end the agent."""
        self.group.command(do=_COMMANDS.get(number, "end"), name=self.name, code=-number)

    def destroy(self) -> None:
        """Kill the group's process, also if it obeys no command because an agent's code sleeps."""
        if self.group.process is not None:
            self.group.process.destroy()

    @property
    def has_ended(self) -> bool:
        """Whether it has ended, also if no one has waited for it yet."""
        return self.code is not None or await_readable(self.pidfd, 0)

    def await_stop(self, most_s: float) -> bool:
        """Wait until it is paused, after SIGSTOP was sent to it; False if that took too long.

        Its process obeys after the turn of the agent whose code runs, which may sleep.
        """
        return self.group.await_answer(most_s)

    def wait(self) -> int:
        """Wait until it has ended; returns `code`."""
        if self.code is None:
            told = os.read(self.pidfd, _MESSAGE_BYTES)
            self.code = int(told) if told else self.group.wait()
            self.crash = "" if told else self.group.explain_crash()
        return self.code

    def end(self) -> None:
        """End the group's process, and free the descriptor."""
        self.group.end()
        os.close(self.pidfd)


def receive(commands: socket.socket) -> tuple[Mapping[str, Any], list[int]] | None:
    """The next command and its descriptors, in the group's process; None if there is no more."""
    message, fds, _, _ = socket.recv_fds(commands, _MESSAGE_BYTES, 4)
    return (json.loads(message), fds) if message else None
