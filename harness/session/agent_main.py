"""What the agents' processes do: each listens, connects and runs until it is told to leave.

The first agents of a run connect to everybody before anything else, so that a run without faults
begins with everybody in place. One that is started again later calls and is called, as after any
loss.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from trunkline.agents.control.backup import Backup
from trunkline.agents.control.controller import Controller
from trunkline.agents.site.worker import Worker
from trunkline.agents.wire.agent_settings import Log, WorkerSettings
from trunkline.agents.wire.clock import Clock
from trunkline.agents.wire.dial import (
    CONTROLLER_PORT,
    WORKER_PORT,
    Caller,
    Peer,
    accept,
    dial,
    listen,
    mesh,
    serve,
)
from trunkline.agents.wire.identity import Gate, Identity
from trunkline.harness.network.interface import Network
from trunkline.harness.record.events import BACKUP, CONTROLLER
from trunkline.harness.scenario import awareness_section, planning
from trunkline.harness.scenario.failover_timeouts import make_failover
from trunkline.harness.scenario.loading import Scenario


class Child(Protocol):
    """The process that runs an agent."""

    name: str

    def log(self, event: str, **fields: object) -> None:
        """One event, stamped now."""

    def clock(self, kind: str) -> Clock:
        """Say that this agent listens, wait until all do, and start the clock."""
        ...

    def on_stop(self, stop: Callable[[], None]) -> None:
        """Call a function when the run is asked to stop."""


@dataclass(frozen=True, slots=True)
class Body:
    """One agent; in its later `lives` it takes the place of one that ended, at this iteration.

    Of the one before it knows the `last_tasks` too: numbers are what survives, as on a disk.
    """

    scenario: Scenario
    network: Network
    identity: Identity
    lives: int = 0
    first_iteration: int = 0
    last_tasks: tuple[int, ...] = ()

    def where(self, name: str) -> str:
        """The site at which an agent runs."""
        if name == CONTROLLER:
            return self.scenario.controller_site
        if name == BACKUP:
            return self.scenario.failover.backup or self.scenario.controller_site
        return name

    async def run(self, child: Child) -> None:
        """Be the agent that the child's name says."""
        bodies = {CONTROLLER: self._controller, BACKUP: self._backup}
        await bodies.get(child.name, self._worker)(child)

    async def _worker(self, child: Child) -> None:
        scenario, site = self.scenario, child.name
        topology = scenario.topology
        kind = scenario.workload.module
        rank = topology.rank(site)
        workload = kind.build(rank, topology.site_names, scenario.seed, **scenario.workload.options)
        gate = self._gate(child)
        listener = listen(self.network.address(site), WORKER_PORT)
        clock = child.clock(scenario.clock)
        peers = {name: self._peer(site, name) for name in topology.neighbours(site)}
        controllers = {name: self._control(name) for name in self._controllers()}
        sockets: Mapping[str, socket.socket] = {}
        controller = None
        if not self.lives:
            lower = [peer for name, peer in peers.items() if topology.rank(name) < rank]
            higher = [peer for name, peer in peers.items() if topology.rank(name) > rank]
            sockets = await mesh(listener, gate, lower, higher)
            controller = await dial(site, self.identity, controllers[CONTROLLER])
        settings = WorkerSettings(
            site,
            topology.site_names,
            scenario.scheme.chunk_bytes,
            scenario.stop.rounds,
            tuple(peers),
            tuple(controllers),
            make_failover(self.scenario),
            self.first_iteration,
            self.lives,
            scenario.scheme.discipline,
            self.last_tasks,
            awareness_section.make_probing(scenario),
            awareness_section.clock_of(scenario, site),
            scenario.scheme.bounds,
            scenario.tensor_bytes,
        )
        caller = Caller(site, self.identity, {**peers, **controllers})
        worker = Worker(settings, workload, clock, child.log, caller)
        async with self._serving(listener, gate, peers, worker.accepted):
            await worker.run(sockets, controller)

    async def _controller(self, child: Child) -> None:
        gate = self._gate(child)
        listener = listen(self.network.address(self.where(CONTROLLER)), CONTROLLER_PORT)
        callers = self._followers(*self._controllers()[1:])
        clock = child.clock(self.scenario.clock)
        workers: Mapping[str, socket.socket] = {}
        if not self.lives:
            workers = await accept(listener, gate, list(callers.values()))
        controller = self._make(clock, child.log, 0, self.last_tasks)
        child.on_stop(controller.stop)
        async with self._serving(listener, gate, callers, controller.accepted):
            await controller.run(workers, clock.now_ns() / 1e9 if self.lives else 0.0)

    async def _backup(self, child: Child) -> None:
        gate = self._gate(child)
        listener = listen(self.network.address(self.where(BACKUP)), CONTROLLER_PORT)
        clock = child.clock(self.scenario.clock)
        caller = Caller(BACKUP, self.identity, {CONTROLLER: self._control(CONTROLLER)})
        make = partial(self._make, clock, child.log, 1)
        backup = Backup(make, caller, make_failover(self.scenario), clock.now_ns, self.last_tasks)
        child.on_stop(backup.stop)
        async with self._serving(listener, gate, self._followers(), backup.accepted):
            await backup.run()

    def _make(self, clock: Clock, log: Log, rank: int, last_tasks: tuple[int, ...]) -> Controller:
        scenario = self.scenario
        settings = replace(
            planning.controller_settings(scenario),
            rank=rank,
            last_tasks=last_tasks,
            clock=awareness_section.clock_of(scenario, self.where(BACKUP if rank else CONTROLLER)),
        )
        if scenario.scheme.rate_error_percent and rank == 0 and not self.lives:
            links = [[*link, rate] for link, rate in settings.rates_mbps.items()]
            log("rates_estimated", links=links)
        policy = planning.create_policy(scenario)
        build, default = planning.create_builder(scenario, settings)
        return Controller(settings, policy, build, clock.now_ns, log, default)

    def _controllers(self) -> tuple[str, ...]:
        return (CONTROLLER, BACKUP) if self.scenario.failover.backup else (CONTROLLER,)

    def _peer(self, site: str, other: str) -> Peer:
        network = self.network
        pacing = self.scenario.network.pacing
        return Peer(other, network.address(other), WORKER_PORT, network.device(site, other), pacing)

    def _control(self, name: str) -> Peer:
        return Peer(name, self.network.address(self.where(name)), CONTROLLER_PORT)

    def _followers(self, *others: str) -> dict[str, Peer]:
        names = (*self.scenario.topology.site_names, *others)
        return {name: Peer(name, "", 0) for name in names}

    def _gate(self, child: Child) -> Gate:
        """Made before the agent listens, so that every call is later."""

        def refused(reason: str, count: int) -> None:
            child.log("caller_refused", reason=reason, count=count)

        hello_s = make_failover(self.scenario).timeout_s
        return Gate(self.identity, child.name, time.monotonic_ns(), hello_s, refused)

    @contextlib.asynccontextmanager
    async def _serving(
        self,
        listener: socket.socket,
        gate: Gate,
        callers: Mapping[str, Peer],
        accepted: Callable[[str, socket.socket], None],
    ) -> AsyncIterator[None]:
        serving = asyncio.create_task(serve(listener, gate, callers, accepted))
        try:
            yield
        finally:
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)
            listener.close()
