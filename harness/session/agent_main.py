"""The main function of an agent's process: it listens, connects, and runs until the run ends.

The first agents of a run connect to all of their peers before they begin, so that a run without
faults begins complete. An agent that is started again connects as after any loss.
"""

from __future__ import annotations

import asyncio
import contextlib
import mmap
import os
import socket
import time
import traceback
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from trunkline.agents.control.backup import Backup
from trunkline.agents.control.controller import Controller
from trunkline.agents.events.awareness_events import RatesEstimated, list_rates
from trunkline.agents.events.causes import Ending
from trunkline.agents.events.connection_events import CallerRefused
from trunkline.agents.events.event import BACKUP, CONTROLLER, Event, Kind, Log, P
from trunkline.agents.events.event_reading import parse
from trunkline.agents.events.event_writing import to_line
from trunkline.agents.events.round_events import ComputeStarted
from trunkline.agents.events.run_events import AgentFailed, Late, Stopping, TimersLate
from trunkline.agents.events.task_events import TaskStarted
from trunkline.agents.planning.plan import PlanError
from trunkline.agents.policies.policy import Traits
from trunkline.agents.site.site_model import SiteModel
from trunkline.agents.site.worker import Worker
from trunkline.agents.timing.clock import Clock, Punctuality, RealClock, VirtualClock, VirtualLoop
from trunkline.agents.wire.agent_settings import AgentError, WorkerSettings
from trunkline.agents.wire.dial import (
    CONTROLLER_PORT,
    WORKER_PORT,
    Caller,
    Peer,
    accept,
    dial,
    listen,
    mesh,
    open_socket,
    serve,
)
from trunkline.agents.wire.identity import Gate, Identity
from trunkline.agents.wire.lane import lane_name
from trunkline.harness.network.interface import Network, NetworkError
from trunkline.harness.processes.fork import FAILED
from trunkline.harness.scenario import planning
from trunkline.harness.scenario.exact_rates import ExactRates
from trunkline.harness.scenario.failover_timeouts import make_failover
from trunkline.harness.scenario.sections import awareness_section
from trunkline.harness.scenario.settings import Scenario
from trunkline.harness.scenario.user_results import UserCodeError
from trunkline.harness.session.evaluation.model_board import ModelBoard

FINISHED = 41
"""An agent's exit code after its regular end. It is not 0, because user code that runs in the
agent's process may exit with 0."""

LISTENING = b"listening"
"""The line among an agent's events which says that the agent listens."""

EPOCH_BYTES = 8
"""The first command in an agent's pipe is the epoch in nanoseconds. Controllers may then get a
`Stopping` event, which says why the run is to end."""

ORDER_BYTES = 4096


class Survivors:
    """The number of an agent that survives its process, as if on a disk, for the next process.

    It is in memory that the agent shares with the process that forks it. The agent writes it before
    it logs the event that uses it. `lives` counts the processes forked so far.
    """

    def __init__(self) -> None:
        self.lives = 0
        self._next = memoryview(mmap.mmap(-1, 8)).cast("q")

    @property
    def next_number(self) -> int:
        """The number after that of the worker's last iteration, or of the controller's last task.

        It is 0 if there was none.
        """
        return self._next[0]

    def note(self, event: Event) -> None:
        """Note the number of the iteration or task that an event begins, if any."""
        match event:
            case ComputeStarted(iteration=number) | TaskStarted(task=number):
                self._next[0] = number + 1


@dataclass(slots=True)
class Pipes:
    """The agent's ends of its pipes: `write` for its events, one for the epoch and STOP."""

    name: str
    survivors: Survivors
    write: Callable[[bytes], None]
    epoch_fd: int
    epoch_ns: int = 0
    shares_process: bool = False
    read_ns: Callable[[], int] = field(default=time.monotonic_ns, init=False)

    def log(self, kind: Kind[P], *values: P.args, **fields: P.kwargs) -> None:
        """Log an event, stamped now."""
        t_ns = self.read_ns() - self.epoch_ns if self.epoch_ns else 0
        event = kind(t_ns, self.name, *values, **fields)
        self.survivors.note(event)
        self.write(to_line(event))

    async def start_clock(self, kind: str) -> Clock:
        """Say that this agent listens, wait until all do, and start the clock."""
        self.write(LISTENING + b"\n")
        if self.shares_process:  # reading would block the others
            await self._await_command()
        epoch = os.read(self.epoch_fd, EPOCH_BYTES)
        if not epoch:
            raise AgentError("the runner is gone")
        self.epoch_ns = int.from_bytes(epoch)
        if kind == "virtual":
            loop = asyncio.get_running_loop()
            assert isinstance(loop, VirtualLoop)
            self.read_ns = loop.read_ns  # so that later traffic is not stamped earlier
            return VirtualClock(self.epoch_ns, loop)
        return RealClock(self.epoch_ns, lambda late_s: self.log(Late, seconds=late_s))

    async def _await_command(self) -> None:
        loop = asyncio.get_running_loop()
        readable = loop.create_future()
        loop.add_reader(self.epoch_fd, readable.set_result, None)
        readable.add_done_callback(lambda _: loop.remove_reader(self.epoch_fd))
        await readable

    def on_stop(self, stop: Callable[[Ending], None]) -> None:
        """Call a function when the run is to stop, with the cause."""
        loop = asyncio.get_running_loop()

        def read() -> None:
            loop.remove_reader(self.epoch_fd)
            if order := os.read(self.epoch_fd, ORDER_BYTES):
                told = parse(order)
                assert isinstance(told, Stopping)
                stop(told.cause)

        loop.add_reader(self.epoch_fd, read)


def run_agent(agent: Agent, pipes: Pipes, log: Path) -> int:
    """Run an agent in the process that was forked for it; its output goes to the file `log`.

    Returns the exit code. An error is logged as `agent_failed`.
    """
    try:
        redirect_output(log)
        agent.network.enter(agent.site_of(pipes.name))
        loop = VirtualLoop if agent.scenario.clock == "virtual" else None
        with asyncio.Runner(loop_factory=loop) as runner:
            runner.run(run_timed(agent, pipes))
    except BaseException as error:
        return log_failure(error, pipes)
    return FINISHED


def redirect_output(log: Path) -> None:
    """Write the output of this process to a file, after what is there."""
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(output, 1)
    os.dup2(output, 2)


def log_failure(error: BaseException, pipes: Pipes) -> int:
    """Log the error that has ended an agent; returns the exit code."""
    if isinstance(error, AgentError | NetworkError | PlanError | UserCodeError):
        pipes.log(AgentFailed, reason=str(error))
        return 1
    text = f"{type(error).__name__}: {error}"
    if isinstance(error, BaseExceptionGroup):
        text = "; ".join(str(each) for each in error.exceptions)
    pipes.log(AgentFailed, reason=text)
    traceback.print_exception(error)
    return FAILED


async def run_timed(agent: Agent, pipes: Pipes) -> None:
    """Run the agent; on a real clock, log at its end how late its timers were."""
    if agent.scenario.clock == "virtual":
        await run_with_callbacks(agent.run(pipes))
        return
    timers = Punctuality()
    watching = asyncio.create_task(timers.watch())
    try:
        await run_with_callbacks(agent.run(pipes))
    finally:
        watching.cancel()
        pipes.log(TimersLate, seconds=timers.late_s, of_s=timers.watched_s)


async def run_with_callbacks(agent: Coroutine[Any, Any, None]) -> None:
    """Run an agent; an error in a callback of the event loop ends the agent, too."""
    loop = asyncio.get_running_loop()
    broken: asyncio.Future[None] = loop.create_future()

    def note_error(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        loop.default_exception_handler(context)
        if "handle" in context and not broken.done():
            broken.set_exception(context["exception"])

    loop.set_exception_handler(note_error)
    running = asyncio.create_task(agent)
    await asyncio.wait((running, broken), return_when=asyncio.FIRST_COMPLETED)
    if broken.done():
        running.cancel()
        await asyncio.wait((running,))
        broken.result()
    await running


@dataclass(frozen=True, slots=True)
class Agent:
    """One agent. If `lives` is not 0, it replaces an agent that was killed.

    It then continues at `next_number`: a worker's iteration, or a controller's task. `opened` makes
    its sockets. Workers write their models to the `board`.
    """

    scenario: Scenario
    network: Network
    identity: Identity
    lives: int = 0
    next_number: int = 0
    opened: Callable[[], socket.socket] = open_socket
    board: ModelBoard | None = None

    def site_of(self, name: str) -> str:
        """The site at which an agent runs."""
        if name == CONTROLLER:
            return self.scenario.controller_site
        if name == BACKUP:
            return self.scenario.failover.backup or self.scenario.controller_site
        return name

    async def run(self, pipes: Pipes) -> None:
        """Run the agent that the pipes are named after."""
        controllers = {CONTROLLER: self._run_controller, BACKUP: self._run_backup}
        await controllers.get(pipes.name, self._run_worker)(pipes)

    async def _run_worker(self, pipes: Pipes) -> None:
        scenario, site = self.scenario, pipes.name
        topology = scenario.topology
        kind, rank = scenario.workload.module, topology.rank(site)
        place = scenario.worker_rank(site), scenario.workers, scenario.seed
        workload = kind.build(*place, **scenario.workload.options)
        peers = {name: self._worker_peer(site, name) for name in topology.overlay.neighbours(site)}
        controllers = {name: self._controller_peer(name) for name in self._controllers()}
        settings = self._make_settings(site, tuple(peers), tuple(controllers))
        publish = None if self.board is None else self.board.writer(site)
        model = SiteModel.of(settings, workload, publish)  # evaluations may begin with the clock
        gate = self._make_gate(pipes)
        listener = listen(self.network.address(site), WORKER_PORT, self.opened)
        clock = await pipes.start_clock(scenario.clock)
        sockets: Mapping[str, socket.socket] = {}
        controller = None
        if not self.lives:
            lower = [peer for name, peer in peers.items() if topology.rank(name) < rank]
            higher = [peer for name, peer in peers.items() if topology.rank(name) > rank]
            sockets = await mesh(listener, gate, lower, higher, self.opened)
            peer = controllers[CONTROLLER]
            controller = await dial(site, self.identity, peer, self.opened)
        caller = Caller(site, self.identity, {**peers, **controllers}, self.opened)
        worker = Worker(settings, workload, clock, pipes.log, caller, model)
        lanes = range(scenario.network.connections)
        callers = {lane_name(name, lane): peers[name] for name in peers for lane in lanes}
        async with self._serving(listener, gate, callers, worker.accept):
            await worker.run(sockets, controller)

    def _make_settings(
        self, site: str, neighbours: tuple[str, ...], controllers: tuple[str, ...]
    ) -> WorkerSettings:
        scenario = self.scenario
        traits = Traits.of(planning.create_policy(scenario))
        return WorkerSettings(
            site=site,
            sites=scenario.topology.site_names,
            chunk_bytes=scenario.scheme.chunk_bytes,
            rounds=scenario.stop.rounds,
            neighbours=neighbours,
            controllers=controllers,
            failover=make_failover(scenario),
            first_iteration=self.next_number,
            lives=self.lives,
            discipline=scenario.scheme.discipline,
            probing=awareness_section.make_probing(scenario),
            clock=awareness_section.clock_of(scenario, site),
            auxiliary=scenario.scheme.bounds,
            tensor_bytes=scenario.tensor_bytes,
            servers=scenario.scheme.servers,
            gives=traits.gives,
            accumulates=traits.accumulates,
            keeps_initial=traits.keeps_initial,
            compares=traits.compares and bool(scenario.workload.module.EVALUATES),
            connections=scenario.network.connections,
        )

    async def _run_controller(self, pipes: Pipes) -> None:
        gate = self._make_gate(pipes)
        listener = listen(self.network.address(self.site_of(CONTROLLER)), CONTROLLER_PORT)
        callers = self._caller_peers(*self._controllers()[1:])
        clock = await pipes.start_clock(self.scenario.clock)
        workers: Mapping[str, socket.socket] = {}
        if not self.lives:
            workers = await accept(listener, gate, list(callers.values()))
        controller = self._make_controller(clock, pipes.log, 0, self.next_number)
        pipes.on_stop(controller.stop)
        async with self._serving(listener, gate, callers, controller.accept):
            await controller.run(workers, clock.now_ns() / 1e9)

    async def _run_backup(self, pipes: Pipes) -> None:
        gate = self._make_gate(pipes)
        listener = listen(self.network.address(self.site_of(BACKUP)), CONTROLLER_PORT)
        clock = await pipes.start_clock(self.scenario.clock)
        caller = Caller(BACKUP, self.identity, {CONTROLLER: self._controller_peer(CONTROLLER)})
        make = partial(self._make_controller, clock, pipes.log, 1)
        failover = make_failover(self.scenario)
        backup = Backup(make, caller, failover, clock.now_ns, pipes.log, self.next_number)
        pipes.on_stop(backup.stop)
        async with self._serving(listener, gate, self._caller_peers(), backup.accept):
            await backup.run()

    def _make_controller(self, clock: Clock, log: Log, rank: int, next_task: int) -> Controller:
        scenario = self.scenario
        settings = replace(
            planning.controller_settings(scenario),
            rank=rank,
            next_task=next_task,
            clock=awareness_section.clock_of(
                scenario, self.site_of(BACKUP if rank else CONTROLLER)
            ),
        )
        if scenario.scheme.rate_error_percent and rank == 0 and not self.lives:
            log(RatesEstimated, links=list_rates(settings.rates_mbps))
        policy = planning.create_policy(scenario, settings.term)
        build, build_default = planning.create_builders(scenario)
        latest_mbps = None
        if scenario.scheme.rates == "exact":
            exact = ExactRates(scenario, clock.now_ns)
            log, latest_mbps = exact.watch(log), exact.latest_mbps
        return Controller(settings, policy, build, clock.now_ns, log, build_default, latest_mbps)

    def _controllers(self) -> tuple[str, ...]:
        return (CONTROLLER, BACKUP) if self.scenario.failover.backup else (CONTROLLER,)

    def _worker_peer(self, site: str, other: str) -> Peer:
        network = self.network
        pacing = self.scenario.network.pacing
        return Peer(other, network.address(other), WORKER_PORT, network.device(site, other), pacing)

    def _controller_peer(self, name: str) -> Peer:
        return Peer(name, self.network.address(self.site_of(name)), CONTROLLER_PORT)

    def _caller_peers(self, *others: str) -> dict[str, Peer]:
        names = (*self.scenario.topology.site_names, *others)
        return {name: Peer(name, "", 0) for name in names}

    def _make_gate(self, pipes: Pipes) -> Gate:
        """Make the gate. Call this before the agent listens, so that every call is newer."""

        def refused(reason: str, count: int) -> None:
            pipes.log(CallerRefused, reason=reason, count=count)

        hello_s = make_failover(self.scenario).timeout_s
        return Gate(self.identity, pipes.name, time.monotonic_ns(), hello_s, refused)

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
