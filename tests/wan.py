"""A whole run in one process: agents over socket pairs, wires between them, virtual time.

A wire carries what one end writes to the other, at a rate and after a delay; while it is cut it
holds everything back, as TCP would, so that an agent sees only silence. Time leaps to the next
timer whenever nothing is to be done, so a run takes as long as its work and is the same every time.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import selectors
import socket
from collections import deque
from dataclasses import dataclass, field, replace

import numpy as np
from hand_made import make_scenario

from trunkline.agents import registry
from trunkline.agents.control.backup import Backup
from trunkline.agents.control.controller import Controller
from trunkline.agents.events import event_reading
from trunkline.agents.events.event_writing import to_line
from trunkline.agents.events.fault_events import AgentChanged
from trunkline.agents.events.run_events import (
    AgentExited,
    NetworkReady,
    RunFinished,
    RunStarted,
    Stopping,
)
from trunkline.agents.planning.plan import send_on_whole
from trunkline.agents.plans import crew
from trunkline.agents.policies.bsp import Open
from trunkline.agents.policies.policy import Traits
from trunkline.agents.site.worker import Worker
from trunkline.agents.timing.site_clock import SiteClock
from trunkline.agents.wire.agent_settings import ControllerSettings, WorkerSettings
from trunkline.agents.wire.failover import Failover
from trunkline.harness.checks.judging import CHECKS
from trunkline.harness.checks.rules import Rules
from trunkline.harness.checks.verdict import Check, Verdict
from trunkline.harness.record.history import History
from trunkline.harness.scenario import settings
from trunkline.harness.scenario.scheme_settings import Awareness
from trunkline.topologies.links import Link
from trunkline.topologies.model import Site, Topology
from trunkline.workloads.base import digest
from trunkline.workloads.layered.model import LayeredModel
from trunkline.workloads.synthetic import is_exact

CHUNK_BYTES = 1024
JUDGED = (
    "the log is complete",
    "every agent exited cleanly",
    "workers followed the protocol",
    "controllers followed the protocol",
    "messages came after their causes",
    "branches were computed in order",
    "every task ended once",
    "all members agreed on the outcome",
    "all members hold the same result",
    "every result is the weighted sum",
    "abandoned tasks left models unchanged",
    "every contribution counts once",
    "no site was left blocked",
    "policy decisions match their replay",
    "every task stayed within its budget",
    "every byte arrived",
    "results came after their bytes",
)
"""Checks of what agents promise; there is no network here to check."""

FAILOVER = Failover(beat_s=0.25, timeout_s=1.0, replans=2)


class LeapingSelector(selectors.PollSelector):
    """Never waits: when nothing is ready, time leaps on by the timeout."""

    now_s = 0.0
    stuck_s = 0

    def select(self, timeout=None):
        ready = super().select(0)
        if not ready and timeout is None:
            raise RuntimeError("every site is blocked")
        if not ready:
            self.now_s += timeout
        return ready


class LeapingLoop(asyncio.SelectorEventLoop):
    def __init__(self):
        self.leaping = LeapingSelector()
        super().__init__(self.leaping)
        self._clock_resolution = 1e-9

    def time(self):
        return self.leaping.now_s


class Wire:
    """One direction between two sockets."""

    WINDOW_BYTES = 1 << 16

    def __init__(self, path, src, dst, direction):
        self.path, self.src, self.dst, self.direction = path, src, dst, direction
        self.loop = asyncio.get_running_loop()
        self.flying = deque()
        self.flying_bytes = 0
        self.free_s = 0.0
        self.reading = self.broken = False
        self.resume()

    def resume(self):
        if not self.reading and not self.broken and self.flying_bytes < self.WINDOW_BYTES:
            self.reading = True
            self.loop.add_reader(self.src, self.read)

    def stop(self):
        if self.reading:
            self.reading = False
            self.loop.remove_reader(self.src)

    def read(self):
        try:
            data = self.src.recv(4096)
        except OSError:
            data = b""
        if not data:
            self.stop()
        start_s = max(self.loop.time(), self.free_s)
        self.free_s = start_s + len(data) * 8 / (self.path.rate_mbps * 1e6)
        self.flying.append((self.free_s + self.path.delay_s, data))
        self.flying_bytes += len(data)
        if self.flying_bytes >= self.WINDOW_BYTES:
            self.stop()
        self.loop.call_at(self.flying[-1][0], self.arrive)

    def arrive(self):
        open_ = self.path.up and self.direction != self.path.blocked
        while open_ and self.flying and self.flying[0][0] <= self.loop.time() + 1e-9:
            _, data = self.flying.popleft()
            self.flying_bytes -= len(data)
            if not data:
                self.close()
                return
            try:
                self.dst.sendall(data)
            except OSError:
                self.close()
                return
            self.resume()

    def close(self):
        """The sender is gone, or the receiver: both ends hear of it."""
        self.stop()
        self.broken = True
        with contextlib.suppress(OSError):
            self.dst.shutdown(socket.SHUT_RDWR)
        self.dst.close()


@dataclass
class Path:
    """What wires between two agents have in common.

    `blocked` is the direction that carries nothing: 0 from the agent that called, 1 to it.
    """

    rate_mbps: float = 1.0
    delay_s: float = 0.01
    up: bool = True
    blocked: int | None = None
    wires: list[Wire] = field(default_factory=list)
    mended: asyncio.Event = field(default_factory=asyncio.Event)

    def socketpair(self):
        a, x = socket.socketpair()
        y, b = socket.socketpair()
        for sock in (x, y):
            sock.setblocking(False)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        for sock in (a, b):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 12)
        self.wires += [Wire(self, x, y.dup(), 0), Wire(self, y, x.dup(), 1)]
        return a, b

    def close(self):
        for wire in self.wires:
            wire.stop()
            wire.src.close()
            wire.dst.close()

    def cut(self):
        self.up = False
        self.mended.clear()

    def block(self, direction):
        self.blocked = direction
        self.mended.clear()

    def mend(self):
        self.up, self.blocked = True, None
        self.mended.set()
        for wire in self.wires:
            wire.arrive()


@dataclass
class Integers:
    """A workload of small integers; refuses to be changed by anything but its own agent."""

    rank: int
    elements: int
    compute_s: float

    def __post_init__(self):
        self.model = np.zeros(self.elements, np.float32)

    def compute(self, iteration, batch=None):
        self.step = contribution(self.rank, iteration, self.elements)
        return self.compute_s * (batch or 1)

    def commit(self):
        self.model[:] = self.step

    def change(self):
        return self.step

    def contribution(self):
        return self.model

    def install(self, result):
        self.model[:] = result

    def evaluate(self):
        return None


@dataclass
class IntegersInLayers(Integers):
    """The same, with branches that are computed as they arrive."""

    model_in_layers: LayeredModel

    def layers(self, iteration, batch=None):
        return self.model_in_layers.scaled(batch or 1)

    def compute(self, iteration, batch=None):
        super().compute(iteration)
        layers = self.layers(iteration, batch)
        return layers.forward_s + layers.backward_s


def contribution(rank, iteration, elements):
    rng = np.random.default_rng([rank, iteration])
    return rng.integers(-50, 50, elements).astype(np.float32)


class Now:
    def now_ns(self):
        return round(asyncio.get_running_loop().time() * 1e9)

    async def compute(self, work):
        await asyncio.sleep(work())


@dataclass
class Caller:
    wan: Wan
    me: str

    async def call(self, name):
        return await self.wan.call(self.me, name)


class Wan:
    """All agents of a run: `events` is what they log; faults are methods."""

    def __init__(
        self,
        rates,
        plan,
        policy,
        *,
        elements=4000,
        rounds=None,
        backup=False,
        task_s=60.0,
        early=False,
        pipelined=True,
        latest_mbps=None,
        probing=None,
        clocks=None,
        assumed=None,
        bounds=None,
        servers=(),
        layers=None,
        discipline="fcfs",
        **stop,
    ):
        self.rates = rates
        self.sites = tuple(sorted({site for link in rates for site in link}))
        self.names = ("controller", "backup") if backup else ("controller",)
        self.layers, self.tensor_bytes = layers, ()
        if layers is not None:
            self.tensor_bytes = tuple(branch.parameter_bytes for branch in layers.branches)
            elements = layers.parameter_bytes // 4
        self.plan, self.policy, self.elements, self.rounds = plan, policy, elements, rounds
        self.task_s, self.early, self.stop = task_s, early, stop
        self.pipelined, self.discipline = pipelined, discipline
        self.latest_mbps, self.bounds = latest_mbps, bounds
        self.servers, self.traits = servers, Traits.of(policy)
        self.probing, self.assumed = probing, assumed or rates
        self.clocks = clocks or {}
        self.lives = {}
        self.compute_s = {}
        self.events = []
        self.paths = {}
        self.agents = {}
        self.tasks = {}
        self.done = None

    # -- what tests use -----------------------------------------------------------------------

    def run(self, scenario=None, limit_s=300.0):
        """Run to the end; `scenario(wan)` is a coroutine that makes faults."""
        failures = []
        with asyncio.Runner(loop_factory=LeapingLoop) as runner:
            runner.get_loop().set_exception_handler(lambda _, context: failures.append(context))
            runner.run(self._run(scenario, limit_s))
        if failures:  # as of a callback, which a run of agents would not survive
            raise failures[0].get("exception") or AssertionError(failures[0]["message"])

    def verdict(self):
        """What the checks of a run say about what the agents did."""
        history, rules = self.history(self.events), self.rules()
        return Verdict.of(
            Check.of(name, objects, check(history, rules))
            for name, (objects, check) in CHECKS.items()
            if name in JUDGED
        )

    def history(self, events):
        """The history of these events, or of others in their place."""
        log = sorted(events, key=lambda event: event["t_ns"])
        return History.of(event_reading.read(map(json.dumps, log)))

    def rules(self):
        links = tuple(Link(*ends, 1e6) for ends in self.rates)  # bytes take their delays only
        scenario = make_scenario(
            Topology("wan", tuple(map(Site, self.sites)), links),
            self.task_s,
            servers=self.servers,
            barrier=not isinstance(self.policy, Open),
            failover=settings.Failover(backup=self.sites[0] if "backup" in self.names else None),
        )
        if probing := self.probing:
            measured = Awareness(probing.estimator, probing.chunk_bytes, probing.count)
            scheme = replace(scenario.scheme, chunk_bytes=CHUNK_BYTES, awareness=measured)
            scenario = replace(scenario, scheme=scheme)
        return Rules(
            scenario,
            detection_s=FAILOVER.patience_s,
            timeout_s=FAILOVER.timeout_s,
            traits=self.traits,
            expected_digest=self._expected,
            layers=self.layers and (lambda site, iteration, batch=1: self.layers.scaled(batch)),
            policy=lambda _: self.policy,
        )

    def _expected(self, task):
        start = task.started
        if not is_exact(start.weights.values()):
            return None
        terms = [
            np.float64(start.weights[e.site])
            * contribution(self.sites.index(e.site), e.iteration, self.elements)
            for e in task.inputs
        ]
        return digest(sum(terms).astype(np.float32) * np.float32(start.scale))

    def of(self, kind):
        return [event for event in self.events if event["event"] == kind]

    def path(self, a, b):
        key = frozenset((a, b))
        if key not in self.paths:
            rate = self.rates.get((a, b), 10.0)
            self.paths[key] = Path(rate_mbps=rate)
        return self.paths[key]

    def cut(self, a, b):
        self.path(a, b).cut()

    def mend(self, a, b):
        self.path(a, b).mend()

    def reset(self, a, b):
        """Both ends hear that their connection is broken; what is under way is lost."""
        for wire in self.path(a, b).wires:
            wire.close()

    def kill(self, name):
        self.tasks[name].cancel()
        del self.agents[name]
        self.log("runner")(AgentChanged, who=name, do="kill", fault=0)
        self.log("runner")(AgentExited, who=name, code=0, signal=9, fault=0)

    def restart(self, name):
        self.log("runner")(AgentChanged, who=name, do="restart", fault=0)
        self._start(name, fresh=True)

    def heal(self):
        for path in self.paths.values():
            path.mend()
        for name in (*self.names, *self.sites):
            if name not in self.agents and name != "backup":
                self.restart(name)

    def log(self, site):
        def write(kind, *values, **fields):
            event = kind(Now().now_ns(), site, *values, **fields)
            self.events.append(json.loads(to_line(event)))
            if kind is Stopping:
                asyncio.get_running_loop().call_soon(self.heal)

        return write

    # -- the machinery ------------------------------------------------------------------------

    async def call(self, me, name):
        path = self.path(me, name)
        if not path.up or path.blocked is not None:
            await path.mended.wait()
        await asyncio.sleep(2 * path.delay_s)
        if name not in self.agents:
            raise ConnectionRefusedError(f"{name} does not listen")
        ours, theirs = path.socketpair()
        self.agents[name].accept(me, theirs)
        return ours

    async def _run(self, scenario, limit_s):
        self.done = asyncio.get_running_loop().create_future()
        self.log("runner")(
            RunStarted,
            scenario="wan",
            seed=0,
            backend="memory",
            clock="virtual",
            sites=self.sites,
            model_bytes=4 * self.elements,
            chunk_bytes=CHUNK_BYTES,
            policy="policy",
            plan=self.plan,
        )
        self.log("runner")(NetworkReady)
        for name in (*self.names, *self.sites):
            self._start(name, fresh=False)
        faults = asyncio.create_task(scenario(self)) if scenario else None
        try:
            await asyncio.wait_for(self.done, limit_s)
            if faults is not None and faults.done():
                faults.result()
        finally:
            everything = [*self.tasks.values(), *([faults] if faults else [])]
            for task in everything:
                task.cancel()
            await asyncio.gather(*everything, return_exceptions=True)
            for path in self.paths.values():
                path.close()
            self.log("runner")(RunFinished, cause=None, links=())

    def _start(self, name, fresh):
        make = self._worker if name in self.sites else self._controller
        self.tasks[name] = asyncio.create_task(make(name, fresh))
        self.tasks[name].add_done_callback(lambda task: self._ended(name, task))

    def _ended(self, name, task):
        if task.cancelled():
            return
        self.agents.pop(name, None)
        self.log("runner")(AgentExited, who=name, code=0, signal=0, fault=None)
        if task.exception() and not self.done.done():
            self.done.set_exception(task.exception())
        elif all(each.done() for each in self.tasks.values()) and not self.done.done():
            self.done.set_result(None)

    async def _worker(self, site, fresh):
        seen = [e["iteration"] for e in self.of("compute_started") if e["site"] == site]
        lives = self.lives[site] = self.lives.get(site, -1) + 1
        settings = WorkerSettings(
            site=site,
            sites=self.sites,
            chunk_bytes=CHUNK_BYTES,
            rounds=self.rounds,
            neighbours=tuple(b for a, b in self.rates if a == site),
            controllers=self.names,
            failover=FAILOVER,
            first_iteration=max(seen, default=-1) + 1,
            lives=lives,
            discipline=self.discipline,
            probing=self.probing,
            clock=self.clocks.get(site, SiteClock()),
            auxiliary=self.bounds,
            servers=self.servers,
            gives=self.traits.gives,
            accumulates=self.traits.accumulates,
            keeps_initial=self.traits.keeps_initial,
            compares=self.traits.compares,
            tensor_bytes=self.tensor_bytes,
        )
        compute_s = self.compute_s.get(site, 0.1)
        workload = Integers(self.sites.index(site), self.elements, compute_s)
        if self.layers is not None:
            rest = workload.rank, self.elements, compute_s
            workload = IntegersInLayers(*rest, self.layers)
        worker = Worker(settings, workload, Now(), self.log(site), Caller(self, site))
        self.agents[site] = worker
        await worker.run({}, None)

    def _next_task(self, name):
        """What a controller that is started again knows of the one before."""
        known = (event["task"] for event in self.of("task_started") if event["site"] == name)
        return max(known, default=-1) + 1

    async def _controller(self, name, fresh):
        settings = ControllerSettings(
            sites=self.sites,
            rates_mbps=self.assumed,
            delays_ms=dict.fromkeys(self.rates, 10.0),
            model_bytes=self.elements * 4,
            chunk_bytes=CHUNK_BYTES,
            seed=7,
            policy_name="policy",
            plan_name=self.plan,
            task_s=self.task_s,
            failover=FAILOVER,
            rank=self.names.index(name),
            clock=self.clocks.get(name, SiteClock()),
            auxiliary=self.bounds is not None,
            servers=self.servers,
            tensor_bytes=self.tensor_bytes,
            layers=self.layers,
            **self.stop,
        )
        build, default = registry.plans()[self.plan].build, crew.default if self.early else None
        if not self.pipelined:
            build = send_on_whole(build)

        def make(next_task):
            log, now_ns = self.log(name), Now().now_ns
            mine = replace(settings, next_task=next_task)
            return Controller(mine, self.policy, build, now_ns, log, default, self.latest_mbps)

        elapsed_s = asyncio.get_running_loop().time()
        next_task = self._next_task(name)
        if name == "backup":
            caller = Caller(self, name)
            now_ns, log = Now().now_ns, self.log(name)
            self.agents[name] = backup = Backup(make, caller, FAILOVER, now_ns, log, next_task)
            await backup.run()
        else:
            self.agents[name] = controller = make(next_task)
            await controller.run({}, elapsed_s)


def mesh(sites, rate_mbps=1.0):
    return {(a, b): rate_mbps for a in sites for b in sites if a != b}


def schedule(seed, wan, faults=6, until_s=20.0):
    """A scenario of random faults: links, controller paths and processes, each mended again."""
    rng = random.Random(seed)

    async def scenario(wan):
        async with asyncio.TaskGroup() as group:
            for _ in range(faults):
                await asyncio.sleep(rng.uniform(0, 2 * until_s / faults))
                lasts_s = rng.uniform(0.05, 6)
                group.create_task(fault(rng.random(), rng.choice(wan.sites), lasts_s))

    async def fault(kind, site, lasts_s):
        others = sorted(b for a, b in wan.rates if a == site)
        if kind < 0.5:
            pair = site, rng.choice(others)
        elif kind < 0.7:
            pair = site, rng.choice(wan.names)
        else:
            name = site if kind < 0.9 else rng.choice(wan.names)
            if name in wan.agents and name != "backup" and not wan.of("stopping"):
                wan.kill(name)
                await asyncio.sleep(lasts_s)
                if name not in wan.agents and not wan.of("stopping"):
                    wan.restart(name)
            return
        wan.cut(*pair)
        await asyncio.sleep(lasts_s)
        wan.mend(*pair)

    return scenario
