"""The processes of a run's background traffic: one per site that sends, one per receiver.

They are forked before the agents, begin with the run's clock, and end after the agents.
"""

from __future__ import annotations

import contextlib
import functools
import os
import select
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from trunkline.agents.events.event import RUNNER
from trunkline.agents.events.event_reading import parse
from trunkline.agents.events.event_writing import LoggedEvent
from trunkline.agents.events.run_events import AgentFailed
from trunkline.harness.background.endpoint import EPOCH_BYTES, LISTENING, STOP, Endpoint
from trunkline.harness.background.flows import Flow, schedule
from trunkline.harness.background.sink import Sink
from trunkline.harness.background.source import Source
from trunkline.harness.network.interface import Network
from trunkline.harness.processes.fork import Process, fork, signals_held
from trunkline.harness.processes.lines import Lines, write_all

GRACE_S = 5.0
"""The time in which a process must report and end when it is told to."""

READ_BYTES = 1 << 20

Watch = Callable[[int, Callable[[], Iterator[LoggedEvent]]], None]


@dataclass(slots=True, eq=False)
class _Child:
    """A process of background traffic, the pipe from it and the pipe to it."""

    name: str
    process: Process
    events_fd: int
    commands_fd: int
    lines: Lines = field(default_factory=Lines)
    listens: bool = False


class BackgroundTraffic:
    """The senders and receivers of a run's flows. Without flows there are no processes.

    Args:
        flows: the run's flows.
        network: the network, which must have started.
        seed: the run's seed.
        mtu: the largest IP packet of the links.
        log_dir: the folder for what the processes print.
    """

    def __init__(
        self, flows: tuple[Flow, ...], network: Network, seed: int, mtu: int, log_dir: Path
    ) -> None:
        self._network, self._log_dir = network, log_dir
        self._schedule = functools.partial(schedule, seed=seed, mtu=mtu)
        self._from: defaultdict[str, list[Flow]] = defaultdict(list)
        self._to: defaultdict[str, set[int]] = defaultdict(set)
        for flow in flows:
            self._from[flow.src].append(flow)
            self._to[flow.dst].add(flow.number)
        self._children: list[_Child] = []
        self._epoch_ns = 0
        self._ending = False
        self._unwatch: Callable[[int], None] | None = None

    def start(self, watch: Watch, unwatch: Callable[[int], None]) -> None:
        """Fork the processes and wait until they listen; raises OSError.

        `watch` gets a descriptor and a function that reads events from it, to be called whenever
        there are some, until `unwatch` gets the descriptor.
        """
        for site, numbers in self._to.items():
            make = functools.partial(Sink, frozenset(numbers), self._network.address(site))
            self._fork(f"background-to-{site}", site, make)
        for site, flows in self._from.items():
            make_source = functools.partial(Source, flows, self._schedule, self._network.address)
            self._fork(f"background-from-{site}", site, make_source)
        for child in self._children:
            while not child.listens:
                for _ in self._take(child):
                    raise OSError(f"{child.name} failed; see its file in {self._log_dir}")
        self._unwatch = unwatch
        for child in self._children:
            watch(child.events_fd, functools.partial(self._take, child))

    def begin(self, epoch_ns: int) -> None:
        """Let the flows begin: the run's clock has started at `epoch_ns`."""
        self._epoch_ns = epoch_ns
        for child in self._children:
            self._tell(child, epoch_ns.to_bytes(EPOCH_BYTES))

    def finish(self) -> Iterator[LoggedEvent]:
        """End the senders, then the receivers; yields their last events."""
        self._ending = True
        try:
            for child in reversed(self._children):
                self._tell(child, STOP)
                ended, _, _ = select.select([child.process.pidfd], [], [], GRACE_S)
                if ended:
                    child.process.wait()
                while ended and child.events_fd >= 0:
                    yield from self._take(child)
        finally:
            self.close()

    def close(self) -> None:
        """Kill what runs, and free everything."""
        while self._children:
            child = self._children.pop()
            child.process.end()
            for fd in (child.events_fd, child.commands_fd):
                if fd >= 0:
                    os.close(fd)

    def _fork(self, name: str, site: str, make: Callable[[int, int], Endpoint]) -> None:
        events_fd, events_end = os.pipe()
        commands_end, commands_fd = os.pipe()

        def act() -> int:
            errors = os.open(self._log_dir / f"{name}.log", os.O_WRONLY | os.O_CREAT, 0o644)
            os.dup2(errors, 1)
            os.dup2(errors, 2)
            self._network.enter(site)
            return make(events_end, commands_end).run()

        with signals_held():
            process = fork(act)
            self._children.append(_Child(name, process, events_fd, commands_fd))
        os.close(events_end)
        os.close(commands_end)

    def _tell(self, child: _Child, command: bytes) -> None:
        with contextlib.suppress(BrokenPipeError):
            write_all(child.commands_fd, command)

    def _take(self, child: _Child) -> Iterator[LoggedEvent]:
        """The events that the child has written; its end before it was told to is a failure."""
        data = os.read(child.events_fd, READ_BYTES)
        if not data:
            yield from self._lose(child)
        for line in child.lines.split(data):
            if line == LISTENING:
                child.listens = True
            else:
                yield LoggedEvent(parse(line), line + b"\n")

    def _lose(self, child: _Child) -> Iterator[LoggedEvent]:
        """Close the pipe of a child that has ended; a failure unless it was told to end."""
        fd, child.events_fd = child.events_fd, -1
        if self._unwatch is not None:
            self._unwatch(fd)
        if not self._ending:
            t_ns = time.monotonic_ns() - self._epoch_ns if self._epoch_ns else 0
            reason = f"{child.name} ended before its time; its file in log/ says why"
            yield LoggedEvent.of(AgentFailed(t_ns, RUNNER, reason))
        os.close(fd)
