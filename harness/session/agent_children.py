"""The agents of a run as children of the supervisor.

Agents are forked from this process, which has imported all modules already. Several workers may
share a process (`shared_agents`). Each agent has one pipe for its events and one for commands. The
first command is the epoch, which is sent when all agents listen, so that none dials too early. The
secret that agents share is drawn here; it exists only in the memory of these processes.
"""

from __future__ import annotations

import math
import secrets
import signal
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from trunkline.agents.events.causes import Ending
from trunkline.agents.events.event import BACKUP, CONTROLLER, RUNNER
from trunkline.agents.events.event_reading import parse
from trunkline.agents.events.event_writing import LoggedEvent, to_line
from trunkline.agents.events.run_events import AgentExited, AgentFailed, Stopping
from trunkline.agents.timing.clock import Punctuality
from trunkline.agents.timing.exact_waits import await_readable
from trunkline.agents.wire.identity import Identity
from trunkline.harness.faults.fault_steps import AgentChange
from trunkline.harness.network.interface import Network
from trunkline.harness.processes import prefault
from trunkline.harness.processes.fork import Process, fork
from trunkline.harness.processes.lines import Lines, write_all
from trunkline.harness.scenario.settings import Scenario
from trunkline.harness.session.agent_main import (
    EPOCH_BYTES,
    FINISHED,
    LISTENING,
    Agent,
    Pipes,
    Survivors,
    redirect_output,
    run_agent,
)
from trunkline.harness.session.evaluation.model_board import ModelBoard
from trunkline.harness.session.run_schedule import Schedule
from trunkline.harness.session.shared_agents.agent_group import AgentGroup, Earlier, SharedAgent
from trunkline.harness.session.shared_agents.agent_turns import Turns, raise_limit_of_files
from trunkline.harness.session.shared_agents.turn_notes import TurnNotes
from trunkline.harness.session.supervisor import Child, Sink


class AgentChildren:
    """The controllers and workers of a run; see `supervisor.Children`."""

    pipes = 1
    signals: Mapping[AgentChange, int] = {"pause": signal.SIGSTOP, "resume": signal.SIGCONT}
    timers: Punctuality | None = None  # every agent logs its own
    stop_s = math.inf  # the controller watches the time
    schedule: Schedule | None = None

    def __init__(
        self,
        scenario: Scenario,
        network: Network,
        run_id: str,
        log_dir: Path,
        board: ModelBoard | None = None,
    ) -> None:
        self.identity = Identity(run_id, secrets.token_bytes(32))
        self._scenario = scenario
        self._network = network
        self._log_dir = log_dir
        self._board = board
        sites = scenario.topology.site_names
        controllers = (CONTROLLER, BACKUP) if scenario.failover.backup else (CONTROLLER,)
        self._survivors = {name: Survivors() for name in (*controllers, *sites)}
        self._groups = self._make_groups(sites)
        self._pages: list[prefault.Pages] = []
        self._newest: Child | None = None
        self._latest: dict[str, Child] = {}
        self._stop_order = b""

    def names(self) -> Iterator[str]:
        """The controllers, then the workers.

        The first worker with a process of its own shows which memory pages workers write; later
        ones are forked with these.
        """
        controllers = [name for name in self._survivors if name in (CONTROLLER, BACKUP)]
        yield from controllers
        yield from self._groups
        alone = [name for name in self._survivors if name not in (*controllers, *self._groups)]
        for number, name in enumerate(alone):
            yield name
            if not number and len(alone) > 1:
                assert self._newest is not None
                listens = self._newest.read_fds[0]
                if not await_readable(listens, self._scenario.limits.run_s):
                    continue  # its run will not begin in time either
                self._pages = prefault.find_written(self._newest.process.pid)

    def fork(
        self, name: str, ends: Sequence[int], close: Callable[[], None]
    ) -> Process | SharedAgent:
        """Fork an agent, which continues the numbers of earlier agents with its name.

        So a worker continues with the next iteration, and no task number is used twice. An agent of
        a group starts in the process of the group.
        """
        survivors = self._survivors[name]
        earlier = survivors.lives, survivors.next_number
        survivors.lives += 1
        if name in self._groups:
            return self._groups[name].start(name, earlier, ends, close)
        agent = Agent(self._scenario, self._network, self.identity, *earlier, board=self._board)
        events_fd, epoch_fd = ends

        def act() -> int:
            prefault.populate(self._pages)
            close()
            pipes = Pipes(name, survivors, partial(write_all, events_fd), epoch_fd)
            return run_agent(agent, pipes, self._log_dir / f"{name}.log")

        return fork(act)

    def _make_groups(self, sites: Sequence[str]) -> dict[str, AgentGroup]:
        """The group of each site whose agent shares a process."""
        size = self._scenario.agents_per_process
        groups: dict[str, AgentGroup] = {}
        for number, first in enumerate(range(0, len(sites), size) if size > 1 else ()):
            log = self._log_dir / f"agents-{number + 1}.log"
            members = sites[first : first + size]
            notes = TurnNotes(members, watches_code=bool(self._scenario.code))
            group = AgentGroup(members, partial(self._take_turns, log, notes), notes)
            groups |= dict.fromkeys(members, group)
        return groups

    def _take_turns(self, log: Path, notes: TurnNotes, commands: socket.socket) -> int:
        """Run the agents of a group, in its process."""

        def make_agent(earlier: Earlier, opened: Callable[[], socket.socket]) -> Agent:
            given = self._scenario, self._network, self.identity
            return Agent(*given, *earlier, opened, self._board)

        redirect_output(log)
        raise_limit_of_files()
        return Turns(
            commands, make_agent, self._survivors, self._network, self._log_dir, notes
        ).run()

    def sinks(self, child: Child) -> Sequence[Sink]:
        self._newest = self._latest[child.name] = child
        lines = Lines()

        def take_events(data: bytes) -> Iterator[LoggedEvent]:
            for line in lines.split(data):
                if line == LISTENING:
                    child.ready = True
                else:
                    yield LoggedEvent(parse(line), line + b"\n")

        return (take_events,)

    def begin(self, ready: Iterable[Child], epoch_ns: int) -> Iterable[LoggedEvent]:
        for child in ready:
            child.tell(epoch_ns.to_bytes(EPOCH_BYTES))
        if self._stop_order:
            self._send_stop(ready)
        return ()

    def stop(self, begun: Iterable[Child], cause: Ending) -> None:
        """Tell the controllers to stop the run, also those that begin later."""
        if not self._stop_order:
            self._stop_order = to_line(Stopping(0, RUNNER, cause))
            self._send_stop(begun)

    def _send_stop(self, begun: Iterable[Child]) -> None:
        for child in begun:
            if child.ready and child.name in (CONTROLLER, BACKUP):
                child.tell(self._stop_order)

    def note_change(self, child: Child, do: AgentChange) -> None:
        """Does nothing: signals are enough for agents."""

    def is_failure(self, event: AgentExited) -> bool:
        return bool(event.code or event.signal) and event.fault is None

    def cause_to_end(self, forked: Sequence[Child]) -> None:
        """Always None: agents end by themselves when the controller stops the run."""

    def exit_events(self, child: Child, now_ns: Callable[[], int]) -> Iterator[LoggedEvent]:
        status, t_ns = child.process.wait(), now_ns()
        if self._board is not None and self._latest.get(child.name) is child:
            self._board.clear(child.name)
        child.code = 0 if status == FINISHED else status
        if status == 0 and isinstance(child.process, Process):
            reason = "its process ended before its time, with exit code 0"
            yield LoggedEvent.of(AgentFailed(t_ns, child.name, reason))
        if isinstance(child.process, SharedAgent) and child.process.crash:
            yield LoggedEvent.of(AgentFailed(t_ns, child.name, child.process.crash))
        code, number = max(child.code, 0), max(-child.code, 0)
        yield LoggedEvent.of(AgentExited(t_ns, RUNNER, child.name, code, number, child.fault))
