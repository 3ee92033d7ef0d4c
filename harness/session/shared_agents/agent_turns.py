"""The process that several agents share: each has an event loop of its own, and they take turns.

A loop has a turn when one of its descriptors is ready or its next timer is due. So agents know
nothing of each other. An agent that is killed gets no more turns, and its sockets are closed, as
the kernel does it for a process; none of its code runs again. A paused agent gets no turns for the
time being.
"""

from __future__ import annotations

import asyncio
import heapq
import math
import os
import resource
import select
import socket
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from trunkline.agents.timing.exact_waits import Alarm
from trunkline.harness.network.interface import Network
from trunkline.harness.session.agent_main import (
    FINISHED,
    Agent,
    Pipes,
    Survivors,
    log_failure,
    run_timed,
)
from trunkline.harness.session.shared_agents.agent_group import STOPPED, Earlier, receive
from trunkline.harness.session.shared_agents.member_loop import MemberLoop, MemberSelector
from trunkline.harness.session.shared_agents.turn_notes import TurnNotes


@dataclass(slots=True)
class Outlet:
    """A pipe to the supervisor. What does not fit into it waits here, so that no turn blocks."""

    fd: int
    rest: bytearray = field(default_factory=bytearray)

    def write(self, data: bytes) -> None:
        """Write data, after what waits."""
        self.rest += data
        self.flush()

    def flush(self) -> None:
        """Write what the pipe takes."""
        try:
            while self.rest:
                del self.rest[: os.write(self.fd, self.rest)]
        except BlockingIOError:
            pass
        except BrokenPipeError:  # the supervisor has closed it
            self.rest.clear()


@dataclass(slots=True, eq=False)
class Member:
    """One agent of this process.

    Attributes:
        task: the agent as a task of its loop.
        end_fd: the pipe whose end is the agent's end.
        log: where its output goes.
        due_s: when its loop needs its next turn; NaN if it is unknown, or while it is paused.
        code: its exit code, or minus a signal, once it has ended.
    """

    name: str
    runner: asyncio.Runner
    loop: MemberLoop
    task: asyncio.Task[None]
    pipes: Pipes
    outlet: Outlet
    end_fd: int
    log: IO[str]
    due_s: float = math.nan
    is_paused: bool = False
    code: int | None = None


class Turns:
    """All agents of this process."""

    def __init__(
        self,
        commands: socket.socket,
        make_agent: Callable[[Earlier, Callable[[], socket.socket]], Agent],
        survivors: Mapping[str, Survivors],
        network: Network,
        log_dir: Path,
        notes: TurnNotes,
    ) -> None:
        """`make_agent` makes an agent of what it continues, and of what makes its sockets."""
        self._commands = commands
        self._make_agent = make_agent
        self._survivors = survivors
        self._network = network
        self._log_dir = log_dir
        self._members: dict[str, Member] = {}
        self._owners: dict[int, str] = {}
        self._due: list[tuple[float, int, Member]] = []
        self._turns = 0
        self._dead: list[object] = []
        self._notes = notes
        self._alarm = Alarm()
        self._alarm_s = math.inf
        self._poll = select.epoll()
        self._poll.register(commands, select.EPOLLIN)
        self._poll.register(self._alarm.fd, select.EPOLLIN)

    def run(self) -> int:
        """Give turns until there are no more commands; returns the process's exit code."""
        self._notes.start()
        while True:
            ready = self._wait()
            if self._commands.fileno() in ready and not self._obey():
                return 0
            woken: dict[Member, None] = {}
            for fd, mask in ready.items():
                if (name := self._owners.get(fd)) is None:
                    continue
                member = self._members[name]
                if fd == member.outlet.fd:
                    self._flush(member)
                else:
                    member.loop.selector.ready.append((fd, mask))
                    woken[member] = None
            for member in woken:
                self._give_turn(member)
            self._serve_due(self._alarm.fd in ready)

    # -- turns ---------------------------------------------------------------------------------

    def _wait(self) -> dict[int, int]:
        """Wait until a descriptor is ready or a timer is due; returns the events by descriptor."""
        while self._due and self._due[0][0] != self._due[0][2].due_s:
            heapq.heappop(self._due)  # it has had a turn since
        due_s = self._due[0][0] if self._due else math.inf
        if due_s > 0 and due_s != self._alarm_s:
            self._alarm.set(None if due_s == math.inf else math.ceil(due_s * 1e9))
            self._alarm_s = due_s
        return dict(self._poll.poll(None if due_s > 0 else 0))

    def _flush(self, member: Member) -> None:
        member.outlet.flush()
        if not member.outlet.rest:
            self._forget(member.outlet.fd)
            if member.code is not None:
                self._close(member, member.code)

    def _serve_due(self, has_rung: bool) -> None:
        """Give a turn to those whose time has come; what these cause comes later.

        Only the alarm tells that the time of a timer has come.
        """
        now_s = time.monotonic() if has_rung else -math.inf
        due: dict[Member, None] = {}
        while self._due and self._due[0][0] <= now_s:
            due_s, _, member = heapq.heappop(self._due)
            if due_s == member.due_s:
                due[member] = None
        for member in due:
            member.due_s = math.nan
            self._give_turn(member)

    def _give_turn(self, member: Member) -> None:
        if member.is_paused or member.code is not None:
            return
        self._notes.begin(member.name)
        sys.stdout = sys.stderr = member.log
        try:
            member.loop.take_turn()
        except BaseException as error:  # user code, such as sys.exit()
            self._end(member, log_failure(error, member.pipes))
        else:
            if member.task.done():
                self._finish(member)
            else:
                self._schedule(member)
        finally:
            sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__
            self._notes.end()
        if member.outlet.rest and member.code is None:
            self._watch_outlet(member)

    def _schedule(self, member: Member) -> None:
        due_s = member.loop.due_s
        if due_s != member.due_s and due_s < math.inf:
            self._turns += 1
            heapq.heappush(self._due, (due_s, self._turns, member))
        member.due_s = due_s

    # -- commands ------------------------------------------------------------------------------

    def _obey(self) -> bool:
        """Carry out a command; False if there will be none any more."""
        received = receive(self._commands)
        if received is None:
            return False
        command, fds = received
        if command["do"] == "start":
            self._start(command, *fds)
            return True
        member = self._members.get(command["name"])
        if member is not None and member.code is None:
            match command["do"]:
                case "pause":
                    self._pause(member)
                case "resume":
                    self._resume(member)
                case _:
                    self._kill(member, command["code"])
        if command["do"] == "pause":
            self._commands.send(STOPPED)
        return True

    def _start(
        self, command: Mapping[str, Any], events_fd: int, epoch_fd: int, end_fd: int
    ) -> None:
        name = command["name"]
        os.set_blocking(events_fd, False)
        outlet = Outlet(events_fd)
        loop = MemberLoop(MemberSelector(name, self._poll, self._owners))
        runner = asyncio.Runner(loop_factory=lambda: loop)
        runner.get_loop()

        def open_socket() -> socket.socket:
            sock = self._network.open_socket(name)
            loop.add_socket(sock)
            return sock

        lives, number = command["earlier"]
        agent = self._make_agent((lives, number), open_socket)
        pipes = Pipes(name, self._survivors[name], outlet.write, epoch_fd, shares_process=True)
        task = loop.create_task(run_timed(agent, pipes))
        log = (self._log_dir / f"{name}.log").open("a", encoding="utf-8", buffering=1)
        member = Member(name, runner, loop, task, pipes, outlet, end_fd, log)
        self._members[name] = member
        self._give_turn(member)

    def _pause(self, member: Member) -> None:
        if not member.is_paused:
            member.is_paused, member.due_s = True, math.nan
            member.loop.selector.pause()

    def _resume(self, member: Member) -> None:
        if member.is_paused:
            member.is_paused = False
            member.loop.selector.resume()
            self._schedule(member)

    def _kill(self, member: Member, code: int) -> None:
        """End an agent without another turn. What would run code of its own when freed is kept."""
        self._dead.append((member, asyncio.all_tasks(member.loop)))
        self._end(member, code)

    # -- ends ----------------------------------------------------------------------------------

    def _finish(self, member: Member) -> None:
        """End an agent whose task is done."""
        code = FINISHED
        if member.task.cancelled():
            code = log_failure(asyncio.CancelledError(), member.pipes)
        elif (error := member.task.exception()) is not None:
            code = log_failure(error, member.pipes)
        member.loop.leave()
        member.runner.close()
        self._end(member, code)

    def _end(self, member: Member, code: int) -> None:
        """Close an agent's sockets, and tell its end as soon as its events are written."""
        member.code, member.due_s = code, math.nan
        member.loop.selector.pause()
        member.loop.close_sockets()
        member.outlet.flush()
        if member.outlet.rest:
            self._watch_outlet(member)
        else:
            self._close(member, code)

    def _close(self, member: Member, code: int) -> None:
        os.write(member.end_fd, str(code).encode())
        self._forget(member.outlet.fd)
        for fd in (member.outlet.fd, member.pipes.epoch_fd, member.end_fd):
            os.close(fd)
        member.log.close()

    # -- descriptors ---------------------------------------------------------------------------

    def _watch_outlet(self, member: Member) -> None:
        if member.outlet.fd not in self._owners:
            self._owners[member.outlet.fd] = member.name
            self._poll.register(member.outlet.fd, select.EPOLLOUT)

    def _forget(self, fd: int) -> None:
        if self._owners.pop(fd, None) is not None:
            self._poll.unregister(fd)


def raise_limit_of_files() -> None:
    """Let this process open as many files as it may: it has the sockets of many sites."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
