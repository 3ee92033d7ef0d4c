"""Starts the agents of a run, each in its site's namespace, and hears what they log.

Agents are forked from this one process, which has imported everything already. Each has a pipe
to write its events to and one to be told things on, first the epoch: everybody listens before
anybody dials. The secret by which they know each other is drawn here, and nowhere but in their
memory. Only processes that were forked here are ever ended, by their ids.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import math
import os
import secrets
import selectors
import signal
import time
import traceback
from collections import defaultdict, deque
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from trunkline.agents.planning.plan import PlanError
from trunkline.agents.wire.agent_settings import AgentError, remember
from trunkline.agents.wire.clock import Clock, Punctuality, RealClock, VirtualClock, VirtualLoop
from trunkline.agents.wire.identity import Identity
from trunkline.harness.network.interface import Network, NetworkError
from trunkline.harness.processes import prefault
from trunkline.harness.processes.ownership import die_with, signals_held
from trunkline.harness.processes.timer import wait_for_start
from trunkline.harness.record.events import BACKUP, CONTROLLER
from trunkline.harness.scenario.loading import Scenario
from trunkline.harness.scenario.user_code import UserCodeError
from trunkline.harness.session.agent_main import Body

GRACE_S = 5.0
"""What an agent gets to end after SIGTERM, in seconds of the agents' clock, before SIGKILL."""

CONTROLLERS = (CONTROLLER, BACKUP)
EPOCH_BYTES, STOP = 8, b"s"
"""What an agent is told through its pipe: the epoch in nanoseconds, and controllers to stop."""

FINISHED = 41
"""What an agent's process exits with at its end: 0 may come of anything that runs in it."""

Event = dict[str, Any]


@dataclass(slots=True)
class Agent:
    """One forked agent; `code` is its exit code or minus the signal, None while it runs.

    `fault` is the number of the one that killed it. One that `vanished` exited before its end.
    """

    name: str
    pid: int
    pidfd: int
    events_fd: int
    epoch_fd: int
    fault: int | None = None
    buffer: bytearray = field(default_factory=bytearray)
    listening: bool = False
    code: int | None = None
    vanished: bool = False


class Agency:
    """All agents of one run. Use as a context manager: leaving it ends whatever still runs."""

    def __init__(self, scenario: Scenario, network: Network, run_id: str, log_dir: Path) -> None:
        self._scenario = scenario
        self._network = network
        self._log_dir = log_dir
        self._body = Body(scenario, network, Identity(run_id, secrets.token_bytes(32)))
        self._agents: list[Agent] = []
        self._iterations: dict[str, int] = {}
        self._last_tasks: dict[str, dict[int, int]] = defaultdict(dict)
        self._held: deque[Event] = deque()
        self._selector = selectors.DefaultSelector()
        self._watched_fds = 0
        self._runner_pid = os.getpid()
        self._prefault: list[prefault.Pages] = []
        self._deadline = math.inf
        self._deadline_text = ""
        self._asked_to_stop = False
        self.epoch_ns = 0

    def __enter__(self) -> Agency:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
        self._selector.close()

    def start(self) -> None:
        """Fork every agent. `events` then yields what they say."""
        gc.collect()
        gc.freeze()
        backup = (BACKUP,) if self._scenario.failover.backup else ()
        first, *others = self._scenario.topology.site_names
        for name in (CONTROLLER, *backup, first):
            self._fork(name, self._body)
        self._prefault = self._written_by(self._agents[-1])
        for site in others:
            self._fork(site, self._body)

    def events(self) -> Iterator[Event]:
        """Everything the agents log, as it comes, until all have exited.

        An `agent_exited` event is added when one ends. When everybody listens, the clock starts:
        `epoch_ns` is set and they are told to connect. Raises TimeoutError when the run's budget
        of the scenario, or what `limit` set, is over.
        """
        run_s = self._scenario.limits.run_s
        self.limit(run_s, f"the run exceeded its {run_s:g} s")
        while len(self._selector.get_map()) > self._watched_fds:
            ready = self._selector.select(max(0.0, self._deadline - time.monotonic()))
            if not ready and time.monotonic() >= self._deadline:
                raise TimeoutError(self._deadline_text)
            for key, _ in ready:
                if isinstance(key.data, Agent):
                    yield from self._hear(key.data, key.fd)
                else:
                    key.data()
                    while self._held:
                        yield self._held.popleft()

    def watch(self, fd: int, readable: Callable[[], None]) -> None:
        """Has `events` call a function whenever there is something to read from a descriptor."""
        self._selector.register(fd, selectors.EVENT_READ, readable)
        self._watched_fds += 1

    def unwatch(self, fd: int) -> None:
        """Forget what `watch` was told."""
        self._selector.unregister(fd)
        self._watched_fds -= 1

    def stop(self) -> None:
        """Ask whoever is the controller, now or later, to stop the run as its own end does."""
        self._asked_to_stop = True
        for agent in self._agents:
            if agent.name in CONTROLLERS and agent.listening and self.epoch_ns:
                with contextlib.suppress(BrokenPipeError):  # it has ended
                    os.write(agent.epoch_fd, STOP)

    def limit(self, seconds: float, text: str) -> None:
        """Has `events` raise TimeoutError after this time, unless an earlier one is set."""
        deadline = time.monotonic() + seconds
        if deadline < self._deadline:
            self._deadline, self._deadline_text = deadline, text

    def kill(self, name: str, fault: int) -> bool:
        """End an agent at once; True if it ran. Its exit will be an event that names the fault."""
        agent = self._running(name)
        if agent is not None:
            agent.fault = fault
            signal.pidfd_send_signal(agent.pidfd, signal.SIGKILL)
            os.waitid(os.P_PIDFD, agent.pidfd, os.WEXITED | os.WNOWAIT)  # its port is free again
        return agent is not None

    def pause(self, name: str) -> bool:
        """Stop an agent where it is; True if there was one to stop."""
        return self._signal(name, signal.SIGSTOP)

    def resume(self, name: str) -> bool:
        """Let a paused agent go on."""
        return self._signal(name, signal.SIGCONT)

    def restart(self, name: str) -> bool:
        """Start a killed agent again; False if it runs, or ended by itself.

        It knows the numbers of what it had begun: a worker goes on with the next iteration, and no
        task gets a number that another had.
        """
        lives = [agent for agent in self._agents if agent.name == name]
        if not lives or lives[-1].fault is None:
            return False
        while lives[-1].events_fd in self._selector.get_map():
            self._held += self._read(lives[-1])
        first = self._iterations.get(name, -1) + 1
        tasks = tuple(self._last_tasks[name].values())
        body = replace(self._body, lives=len(lives), first_iteration=first, last_tasks=tasks)
        self._fork(name, body)
        return True

    def end(self) -> None:
        """End every agent that still runs and wait for it."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            running = [agent for agent in self._agents if agent.code is None]
            for agent in running:
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(agent.pidfd, number)
            deadline = time.monotonic() + GRACE_S
            while number == signal.SIGTERM and running and time.monotonic() < deadline:
                with selectors.DefaultSelector() as waiting:
                    waiting.register(running[0].pidfd, selectors.EVENT_READ)
                    if waiting.select(deadline - time.monotonic()):
                        self._wait(running.pop(0))
        for agent in self._agents:
            if agent.code is None:
                self._wait(agent)
            for fd in (agent.pidfd, agent.events_fd, agent.epoch_fd):
                with contextlib.suppress(OSError):
                    os.close(fd)
        self._agents.clear()

    # -- this process -------------------------------------------------------------------------

    def _written_by(self, agent: Agent) -> list[prefault.Pages]:
        """The memory that an agent has made its own by the time it listens."""
        with selectors.DefaultSelector() as waiting:
            waiting.register(agent.events_fd, selectors.EVENT_READ)
            waiting.select()
        return prefault.written(agent.pid)

    def _running(self, name: str) -> Agent | None:
        alive = (each for each in self._agents if each.code is None and each.fault is None)
        return next((agent for agent in alive if agent.name == name), None)

    def _signal(self, name: str, number: signal.Signals) -> bool:
        agent = self._running(name)
        if agent is not None:
            with contextlib.suppress(ProcessLookupError):  # it has ended and is not reaped yet
                signal.pidfd_send_signal(agent.pidfd, number)
        return agent is not None

    def _fork(self, name: str, body: Body) -> None:
        events_read, events_write = os.pipe()
        epoch_read, epoch_write = os.pipe()
        with signals_held() as held:
            pid = os.fork()
            if pid == 0:
                for agent in self._agents:
                    os.close(agent.events_fd)
                    os.close(agent.epoch_fd)
                os.close(events_read)
                os.close(epoch_write)
                self._be(_Child(name, events_write, epoch_read), body, held)
            os.close(events_write)
            os.close(epoch_read)
            agent = Agent(name, pid, os.pidfd_open(pid), events_read, epoch_write)
            self._agents.append(agent)
        self._selector.register(events_read, selectors.EVENT_READ, agent)
        self._selector.register(agent.pidfd, selectors.EVENT_READ, agent)

    def _hear(self, agent: Agent, fd: int) -> Iterator[Event]:
        if fd not in self._selector.get_map():
            return  # everything was read when it was started again
        if fd == agent.events_fd:
            yield from self._read(agent)
        elif agent.code is None:
            exited = self._reap(agent)
            if agent.vanished:
                reason = "its process ended before its time, with exit code 0"
                failed = {"site": agent.name, "event": "agent_failed", "reason": reason}
                yield {"t_ns": exited["t_ns"], **failed}
            yield exited

    def _read(self, agent: Agent) -> Iterator[Event]:
        data = os.read(agent.events_fd, 1 << 20)
        if not data:
            self._selector.unregister(agent.events_fd)
            return
        agent.buffer += data
        *lines, rest = bytes(agent.buffer).split(b"\n")
        agent.buffer = bytearray(rest)
        for line in lines:
            event = json.loads(line)
            if event["event"] == "listening":
                agent.listening = True
                self._begin(agent)
            else:
                if event["event"] == "compute_started":
                    self._iterations[agent.name] = event["iteration"]
                elif event["event"] in ("task_started", "task_joined"):
                    remember(self._last_tasks[agent.name], event["task"])
                yield event

    def _begin(self, agent: Agent) -> None:
        """Tell the agent the epoch, or everybody if this was the last one to listen."""
        told = [agent]
        if not self.epoch_ns:
            if not all(each.listening for each in self._agents):
                return
            self.epoch_ns, told = wait_for_start(), self._agents
            self._deadline = self.epoch_ns / 1e9 + self._scenario.limits.run_s
        for each in told:
            os.write(each.epoch_fd, self.epoch_ns.to_bytes(EPOCH_BYTES))
            if self._asked_to_stop and each.name in CONTROLLERS:
                os.write(each.epoch_fd, STOP)

    def _reap(self, agent: Agent) -> Event:
        self._selector.unregister(agent.pidfd)
        self._wait(agent)
        code = agent.code or 0
        return {
            "t_ns": time.monotonic_ns() - self.epoch_ns if self.epoch_ns else 0,
            "site": "runner",
            "event": "agent_exited",
            "who": agent.name,
            "code": max(code, 0),
            "signal": max(-code, 0),
            "fault": agent.fault,
        }

    def _wait(self, agent: Agent) -> None:
        status = os.waitstatus_to_exitcode(os.waitpid(agent.pid, 0)[1])
        agent.vanished = status == 0
        agent.code = 0 if status == FINISHED else status

    # -- the forked process -------------------------------------------------------------------

    def _be(self, child: _Child, body: Body, held: set[int]) -> None:
        """Be the agent; never returns. What goes wrong is logged as `agent_failed`."""
        code = 70
        try:
            prefault.populate(self._prefault)
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, held)
            die_with(self._runner_pid)
            errors = os.open(
                self._log_dir / f"{child.name}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644
            )
            os.dup2(errors, 1)
            os.dup2(errors, 2)
            self._network.enter(body.where(child.name))
            loop = VirtualLoop if self._scenario.clock == "virtual" else None
            with asyncio.Runner(loop_factory=loop) as runner:
                runner.run(self._watched(child, body))
            code = FINISHED
        except (AgentError, NetworkError, PlanError, UserCodeError) as error:
            child.log("agent_failed", reason=str(error))
            code = 1
        except BaseExceptionGroup as group:
            child.log("agent_failed", reason="; ".join(str(error) for error in group.exceptions))
            traceback.print_exc()
        except BaseException as error:
            child.log("agent_failed", reason=f"{type(error).__name__}: {error}")
            traceback.print_exc()
        finally:
            os._exit(code)

    async def _watched(self, child: _Child, body: Body) -> None:
        """Run the agent; on a real clock, log at its end how late its timers were."""
        if self._scenario.clock == "virtual":
            await _whole(body.run(child))
            return
        timers = Punctuality()
        watching = asyncio.create_task(timers.watch())
        try:
            await _whole(body.run(child))
        finally:
            watching.cancel()
            child.log("timers_late", seconds=timers.late_s, of_s=timers.watched_s)


@dataclass(slots=True)
class _Child:
    """The forked side of an agent: its name, and how it logs and learns the time."""

    name: str
    events_fd: int
    epoch_fd: int
    epoch_ns: int = 0

    def log(self, event: str, **fields: Any) -> None:
        """One event, stamped now."""
        t_ns = time.monotonic_ns() - self.epoch_ns if self.epoch_ns else 0
        line = json.dumps({"t_ns": t_ns, "site": self.name, "event": event, **fields})
        data = memoryview(line.encode() + b"\n")
        while data:
            data = data[os.write(self.events_fd, data) :]

    def clock(self, kind: str) -> Clock:
        """Say that this agent listens, wait until all do, and start the clock."""
        self.log("listening")
        told = os.read(self.epoch_fd, EPOCH_BYTES)
        if not told:
            raise AgentError("the runner is gone")
        self.epoch_ns = int.from_bytes(told)
        if kind == "virtual":
            loop = asyncio.get_running_loop()
            assert isinstance(loop, VirtualLoop)
            return VirtualClock(self.epoch_ns, loop)
        return RealClock(self.epoch_ns, lambda late_s: self.log("late", seconds=late_s))

    def on_stop(self, stop: Callable[[], None]) -> None:
        """Call a function when the run is asked to stop."""
        loop = asyncio.get_running_loop()

        def told() -> None:
            loop.remove_reader(self.epoch_fd)
            if os.read(self.epoch_fd, len(STOP)):
                stop()

        loop.add_reader(self.epoch_fd, told)


async def _whole(agent: Coroutine[Any, Any, None]) -> None:
    """Run an agent; an error in what its event loop calls ends it like one of its own."""
    loop = asyncio.get_running_loop()
    broken: asyncio.Future[None] = loop.create_future()

    def hear(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        loop.default_exception_handler(context)
        if "handle" in context and not broken.done():
            broken.set_exception(context["exception"])

    loop.set_exception_handler(hear)
    running = asyncio.create_task(agent)
    await asyncio.wait((running, broken), return_when=asyncio.FIRST_COMPLETED)
    if broken.done():
        running.cancel()
        await asyncio.wait((running,))
        broken.result()
    await running
