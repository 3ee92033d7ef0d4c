"""The agents of a run as children of the supervisor: how they are forked and what they say.

Agents are forked from this one process, which has imported everything already. Each has a pipe for
its events and one for what it is told, first the epoch: all agents listen before any of them dials.
The secret by which they know each other is drawn here, and nowhere but in their memory.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import secrets
import select
import signal
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from trunkline.agents.wire.clock import Punctuality
from trunkline.agents.wire.identity import Identity
from trunkline.harness.network.interface import Network
from trunkline.harness.processes import prefault
from trunkline.harness.processes.fork import Process, fork, signals_held
from trunkline.harness.processes.lines import Lines
from trunkline.harness.record.events import BACKUP, CONTROLLER, RUNNER
from trunkline.harness.scenario.loading import Scenario
from trunkline.harness.session.agent_main import (
    EPOCH_BYTES,
    FINISHED,
    STOP,
    Agent,
    Pipes,
    Survivors,
    run_agent,
)
from trunkline.harness.session.supervisor import Event


@dataclass(slots=True)
class AgentChild:
    """One agent that was forked, and the supervisor's ends of its two pipes."""

    name: str
    process: Process
    events_fd: int
    epoch_fd: int
    fault: int | None = None
    asked: bool = False
    ready: bool = False
    begun: bool = False
    lines: Lines = field(default_factory=Lines)

    @property
    def sinks(self) -> Mapping[int, Callable[[bytes], Iterable[Event]]]:
        """See `supervisor.Child`."""
        return {self.events_fd: self._events_of}

    def _events_of(self, data: bytes) -> Iterator[Event]:
        for line in self.lines.split(data):
            event = json.loads(line)
            if event["event"] == "listening":
                self.ready = True
            else:
                yield event

    def begin(self, epoch_ns: int, stop: bool) -> None:
        """Tell the agent when the clock started, and whether the run is asked to stop already."""
        self.begun = True
        self._tell(epoch_ns.to_bytes(EPOCH_BYTES))
        if stop:
            self.stop()

    def stop(self) -> None:
        """Ask the agent to stop the run, if it is a controller that has begun."""
        if self.begun and self.name in (CONTROLLER, BACKUP):
            self._tell(STOP)

    def _tell(self, data: bytes) -> None:
        with contextlib.suppress(BrokenPipeError):  # it has ended
            os.write(self.epoch_fd, data)

    def exit_events(self, now_ns: Callable[[], int]) -> Iterator[Event]:
        """See `supervisor.Child`."""
        code, t_ns = self.process.wait(), now_ns()
        if code == 0:
            reason = "its process ended before its time, with exit code 0"
            yield {"t_ns": t_ns, "site": self.name, "event": "agent_failed", "reason": reason}
        yield {
            "t_ns": t_ns,
            "site": RUNNER,
            "event": "agent_exited",
            "who": self.name,
            "code": 0 if code == FINISHED else max(code, 0),
            "signal": max(-code, 0),
            "fault": self.fault,
        }

    def close(self) -> None:
        """See `supervisor.Child`."""
        os.close(self.events_fd)
        os.close(self.epoch_fd)


class AgentChildren:
    """The controllers and workers of a run; see `supervisor.Children`."""

    pause_signal = signal.SIGSTOP
    resume_signal = signal.SIGCONT
    timers: Punctuality | None = None  # every agent says itself how late its timers were
    stop_s = math.inf  # the controller watches it

    def __init__(self, scenario: Scenario, network: Network, run_id: str, log_dir: Path) -> None:
        self.forked: list[AgentChild] = []
        self.identity = Identity(run_id, secrets.token_bytes(32))
        self._scenario = scenario
        self._network = network
        self._log_dir = log_dir
        self._survivors: defaultdict[str, Survivors] = defaultdict(Survivors)
        self._pages: list[prefault.Pages] = []
        self._asked_to_stop = False

    def start(self) -> Iterator[AgentChild]:
        """Fork the controllers, then the workers, of which the first shows what they write to."""
        backup = (BACKUP,) if self._scenario.failover.backup else ()
        first, *others = self._scenario.topology.site_names
        for name in (CONTROLLER, *backup):
            yield self.fork(name)
        worker = self.fork(first)
        yield worker
        select.select([worker.events_fd], [], [])  # until it listens
        self._pages = prefault.written(worker.process.pid)
        for site in others:
            yield self.fork(site)

    def fork(self, name: str) -> AgentChild:
        """Fork an agent, which knows what earlier ones of its name had begun.

        So a worker goes on with the next iteration, and no task gets a number that another had.
        """
        survivors = self._survivors[name]
        agent = Agent(
            self._scenario,
            self._network,
            self.identity,
            lives=sum(child.name == name for child in self.forked),
            first_iteration=survivors.first_iteration,
            last_tasks=survivors.last_tasks,
        )
        events_read, events_write = os.pipe()
        epoch_read, epoch_write = os.pipe()

        def act() -> int:
            prefault.populate(self._pages)
            for child in self.forked:
                child.close()
            os.close(events_read)
            os.close(epoch_write)
            pipes = Pipes(name, events_write, epoch_read, survivors)
            return run_agent(agent, pipes, self._log_dir / f"{name}.log")

        with signals_held():
            child = AgentChild(name, fork(act), events_read, epoch_write)
            self.forked.append(child)
        os.close(events_write)
        os.close(epoch_read)
        return child

    def begin(self, ready: Iterable[AgentChild], epoch_ns: int) -> Iterable[Event]:
        """Tell them the epoch, on which they connect."""
        for child in ready:
            child.begin(epoch_ns, self._asked_to_stop)
        return ()

    def stop(self) -> None:
        """Ask the controllers, also those that are started later, to stop the run."""
        self._asked_to_stop = True
        for child in self.forked:
            child.stop()

    def reason_to_end(self) -> None:
        """None: agents end by themselves, when their controller stops the run."""
