"""Workers and controller in one event loop, over socket pairs: every plan gives the exact sums."""

import asyncio
import itertools
import json
import re
import socket
import struct
import time
from dataclasses import dataclass, field

import numpy as np
import pytest
from wan import Wan

from trunkline.agents import registry
from trunkline.agents.control.controller import Controller
from trunkline.agents.events.causes import TargetReached
from trunkline.agents.events.event_writing import to_line
from trunkline.agents.planning.plan import PlanError
from trunkline.agents.policies import preduce
from trunkline.agents.site.worker import Worker
from trunkline.agents.wire.agent_settings import ControllerSettings, WorkerSettings
from trunkline.agents.wire.dial import listen
from trunkline.agents.wire.failover import Failover
from trunkline.agents.wire.framing import ChunkHeader, Stamp, encode, encode_chunk
from trunkline.agents.wire.link import Connection
from trunkline.agents.wire.messages import FinishedNotice, Report, SiteReady
from trunkline.workloads import synthetic
from trunkline.workloads.base import digest

SITES = ("a", "b", "c", "d", "e")
CHUNK_BYTES = 4096
FAILOVER = Failover(0.1, 1.0)


@dataclass
class Integers:
    """A workload of small integers; remembers what it contributed and what it got."""

    rank: int
    elements: int
    installed: list[np.ndarray] = field(default_factory=list)

    def __post_init__(self):
        self.model = np.empty(self.elements, np.float32)
        self.compute(0)

    def compute(self, iteration):
        rng = np.random.default_rng([self.rank, iteration])
        self.model[:] = rng.integers(-50, 50, self.elements)
        return 0.0

    def contribution(self):
        return self.model

    def install(self, result):
        self.installed.append(result.copy())

    def evaluate(self):
        return None


@dataclass
class Now:
    def now_ns(self):
        return time.monotonic_ns()

    async def compute(self, work):
        await asyncio.sleep(work())


@dataclass
class World:
    """All agents of a small run and everything that they logged."""

    rates: dict
    elements: int = 5000
    events: list = field(default_factory=list)

    def __post_init__(self):
        self.sites = tuple(sorted({site for link in self.rates for site in link}))
        self.workloads = {s: Integers(r, self.elements) for r, s in enumerate(self.sites)}

    def log(self, site):
        return lambda kind, *values, **fields: self.events.append(
            json.loads(to_line(kind(0, site, *values, **fields)))
        )

    def of(self, event):
        return [e for e in self.events if e["event"] == event]

    def run(self, plan, policy, *, rounds=None, task_s=30.0, saboteur=None, **stop):
        asyncio.run(asyncio.wait_for(self._run(plan, policy, rounds, task_s, stop, saboteur), 30))

    async def _run(self, plan, policy, rounds, task_s, stop, saboteur):
        peers = {site: {} for site in self.sites}
        for a, b in self.rates:
            if a < b:
                peers[a][b], peers[b][a] = socket.socketpair()
        ours, theirs = {}, {}
        for site in self.sites:
            ours[site], theirs[site] = socket.socketpair()
        settings = ControllerSettings(
            sites=self.sites,
            rates_mbps=self.rates,
            delays_ms=dict.fromkeys(self.rates, 1.0),
            model_bytes=self.elements * 4,
            chunk_bytes=CHUNK_BYTES,
            seed=7,
            policy_name="policy",
            plan_name=plan,
            task_s=task_s,
            failover=FAILOVER,
            **stop,
        )
        controller = Controller(
            settings, policy, registry.plans()[plan].build, Now().now_ns, self.log("controller")
        )
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(controller.run(ours))
                for site in self.sites:
                    if saboteur and site == saboteur[0]:
                        group.create_task(saboteur[1](peers[site], theirs[site]))
                        continue
                    near = tuple(peers[site])
                    own = WorkerSettings(
                        site=site,
                        sites=self.sites,
                        chunk_bytes=CHUNK_BYTES,
                        rounds=rounds,
                        neighbours=near,
                        failover=FAILOVER,
                    )
                    worker = Worker(own, self.workloads[site], Now(), self.log(site))
                    group.create_task(worker.run(peers[site], theirs[site]))
        finally:
            for sockets in (ours, theirs, *peers.values()):
                for sock in sockets.values():
                    sock.close()


def mesh():
    return {(a, b): 100.0 for a in SITES for b in SITES if a != b}


def line():
    pairs = list(itertools.pairwise(SITES))
    return {link: 100.0 for a, b in pairs for link in ((a, b), (b, a))}


def expected(world, task):
    """What the task's result must be, from the logged group and iterations alone."""
    contributed = {e["site"]: e["iteration"] for e in world.of("contributed") if e["task"] == task}
    total = np.zeros(world.elements, np.float32)
    for site, iteration in contributed.items():
        probe = Integers(world.sites.index(site), world.elements)
        probe.compute(iteration)
        total += probe.model
    return total * np.float32(1 / len(contributed))


@pytest.mark.parametrize("overlay", [mesh, line])
@pytest.mark.parametrize("name", sorted(registry.plans()))
def test_every_plan_gives_every_member_the_exact_average(name, overlay):
    world = World(overlay())
    world.run(name, preduce.create(world.sites, p=3), tasks=4)
    assert len(world.of("task_completed")) == 4
    for started in world.of("task_started"):
        task, group = started["task"], started["group"]
        finished = [e for e in world.of("task_finished") if e["task"] == task]
        assert sorted(e["site"] for e in finished) == sorted(group)
        assert {e["digest"] for e in finished} == {digest(expected(world, task))}


@pytest.mark.parametrize("name", sorted(registry.plans()))
def test_what_is_sent_is_what_is_received(name):
    world = World(line())
    world.run(name, preduce.create(world.sites, p=2), tasks=3)

    def book(event, peer):
        flows = {}
        for e in world.of(event):
            link = (e["site"], e[peer]) if event == "sent" else (e[peer], e["site"])
            key = (e["task"], link)
            flows[key] = flows.get(key, 0) + e["bytes"]
        return flows

    assert book("sent", "dst") == book("received", "src") != {}


def test_a_site_contributes_the_model_with_the_step_that_it_computed():
    world = World(mesh())
    for rank, site in enumerate(world.sites):
        world.workloads[site] = synthetic.build(
            rank, world.sites, 3, model_bytes=4 * world.elements, compute_s=0.0
        )
    world.run("ring", preduce.create(world.sites, p=2), tasks=3)
    contributed = world.of("contributed")
    assert {e["iteration"] for e in contributed} > {0}
    for e in contributed:
        rank = world.sites.index(e["site"])
        model = synthetic.contribution(3, rank, e["iteration"], world.elements)
        assert e["digest"] == digest(model)


def test_each_site_does_its_rounds_and_the_last_are_released():
    world = World(mesh())
    world.run("crew", preduce.create(world.sites, p=3), rounds=4)
    assert {e["site"]: e["rounds"] for e in world.of("worker_finished")} == dict.fromkeys(SITES, 4)
    assert world.of("stopping")[0]["reason"] == "every site has done its rounds"


def test_the_run_stops_for_the_cause_that_its_controller_is_told():
    async def stop(wan):
        await asyncio.sleep(2.0)
        wan.agents["controller"].stop(TargetReached("accuracy", 90.0, 80.0, 1))

    wan = Wan(mesh(), "a2a", preduce.create(SITES, p=2))
    wan.run(stop)
    (stopping,) = wan.of("stopping")
    assert (stopping["t_ns"], stopping["reason"]) == (2 * 10**9, "accuracy 90.00 % reached 80 %")
    assert len(wan.of("task_started")) == len(wan.of("task_completed")) > 0


def test_the_run_stops_when_its_time_is_over():
    wan = Wan(mesh(), "a2a", preduce.create(SITES, p=2), time_s=4.0)
    wan.run()
    assert wan.of("stopping")[0]["reason"] == "its time of 4 s has passed"
    assert len(wan.of("task_started")) == len(wan.of("task_completed")) > 0


def test_a_task_over_its_budget_is_dropped_and_leaves_the_models_alone():
    wan = Wan(mesh(), "ps", preduce.create(SITES, p=5), task_s=0.0, time_s=4.0)
    wan.run()
    assert wan.of("task_abandoned") and not wan.of("task_completed")
    contributed = {(e["task"], e["site"]): e["digest"] for e in wan.of("contributed")}
    assert wan.of("task_dropped")
    for dropped in wan.of("task_dropped"):
        assert dropped["digest"] == contributed[dropped["task"], dropped["site"]]
    assert not wan.of("task_finished")


async def vanish(peers, controller):
    for sock in (*peers.values(), controller):
        sock.close()


async def babble(peers, controller):
    controller.sendall(encode(Report(None, False, (), (), (), None, {})))
    controller.sendall(b"GET / HTTP/1.1\r\nHost: example\r\n\r\n")
    await asyncio.sleep(0.2)


@pytest.mark.parametrize(
    ("saboteur", "reason"), [(vanish, "closed|reset"), (babble, "c sent garbage")]
)
def test_the_others_go_on_without_a_worker_that_is_lost(saboteur, reason):
    world = World(mesh())
    world.run("crew", preduce.create(world.sites, p=2), rounds=3, saboteur=("c", saboteur))
    lost = world.of("worker_lost")
    assert [e["worker"] for e in lost] == ["c"]
    assert re.search(reason, lost[0]["reason"])
    finished = {e["site"]: e["rounds"] for e in world.of("worker_finished")}
    assert finished == dict.fromkeys("abde", 3)


def test_a_plan_that_refuses_ends_the_run_with_its_reason(monkeypatch):
    def refuse(request):
        raise PlanError("not on a Sunday")

    monkeypatch.setattr(registry.plans()["ps"], "build", refuse)
    with pytest.raises(ExceptionGroup) as caught:
        World(mesh()).run("ps", preduce.create(SITES, p=2), rounds=1)
    assert caught.group_contains(PlanError, match="not on a Sunday")


def test_a_connection_sends_in_order_and_drains():
    async def scene():
        a, b = socket.socketpair()
        heard, lost = [], []
        callbacks = (lambda _, frame: heard.append(frame), lambda peer, e: lost.append(str(e)))
        left = Connection(a, "b", *callbacks, memoryview, time.monotonic_ns)
        right = Connection(b, "a", *callbacks, memoryview, time.monotonic_ns)
        sent = [SiteReady(n, n) for n in range(20_000)] + [FinishedNotice(1, 1)]
        for message in sent:
            left.tell(message)
        await left.drain()
        left.close()
        while not lost:
            await asyncio.sleep(0)
        right.close()
        assert heard == sent
        assert lost == ["a closed the connection"]

    asyncio.run(asyncio.wait_for(scene(), 10))


def test_a_frame_is_stamped_when_its_first_byte_enters_the_socket_and_not_when_it_is_refused():
    @dataclass
    class Stamps:
        now_ns: int = 1
        arrived: list = field(default_factory=list)

        def stamp(self, now_ns):
            return Stamp(now_ns, 0)

        def on_arrived(self, peer, sent, size):
            self.arrived.append(sent.time_ns)

    async def scene():
        a, b = socket.socketpair()
        timing = Stamps()
        common = memoryview, lambda: timing.now_ns
        left = Connection(a, "b", lambda *_: None, lambda *_: None, *common, timing=timing)
        for number in range(10_000):
            left.tell(SiteReady(1, 10_000 + number))
        in_socket = b.recv(1 << 24, socket.MSG_PEEK)
        count, rest = divmod(len(in_socket), len(encode(SiteReady(1, 10_000))))
        assert 0 < count < 10_000
        assert rest == 0
        timing.now_ns = 2
        right = Connection(b, "a", lambda *_: None, lambda *_: None, *common, timing=timing)
        while len(timing.arrived) < 10_000:
            await asyncio.sleep(0)
        assert timing.arrived == [1] * count + [2] * (10_000 - count)
        left.close()
        right.close()

    asyncio.run(asyncio.wait_for(scene(), 10))


def test_a_lost_connection_calls_nobody_back_amid_sending():
    """A worker that is told of a loss, or of anything, while it starts a task loses its way."""

    async def scene():
        listener = listen("127.0.0.1", 0)
        sender = socket.create_connection(listener.getsockname())
        receiver, _ = await asyncio.get_running_loop().sock_accept(listener)
        calls = []
        callbacks = (lambda _, frame: calls.append(frame), lambda *_: calls.append("lost"))
        link = Connection(receiver, "a", *callbacks, memoryview, time.monotonic_ns)
        sender.sendall(encode(SiteReady(3, 4)))
        sender.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        sender.close()
        link.tell(FinishedNotice(9, 1))
        link.tell(FinishedNotice(9, 2))
        assert calls == []
        while "lost" not in calls:
            await asyncio.sleep(0)
        assert calls == [SiteReady(3, 4), "lost"]
        listener.close()

    asyncio.run(asyncio.wait_for(scene(), 10))


def test_a_frame_is_the_same_however_the_stream_is_cut():
    async def scene(cut):
        a, b = socket.socketpair()
        heard = []
        Connection(b, "a", lambda _, f: heard.append(f), lambda *_: None, memoryview, lambda: 0)
        stream = encode(SiteReady(3, 4)) + encode(FinishedNotice(9, 1))
        for start in range(0, len(stream), cut):
            a.send(stream[start : start + cut])
            await asyncio.sleep(0)
        while len(heard) < 2:
            await asyncio.sleep(0)
        assert heard == [SiteReady(3, 4), FinishedNotice(9, 1)]
        a.close()

    for cut in (1, 7, 24, 1000):
        asyncio.run(asyncio.wait_for(scene(cut), 10))


def test_a_member_with_a_slow_uplink_does_not_change_its_model_while_others_still_need_it():
    """All-to-all: a member may have all results long before its own model has left."""
    world = World({("a", "b"): 1.0, ("b", "a"): 1.0}, elements=3_000_000)
    slow = socket.socketpair

    def pair():
        left, right = slow()
        left.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4608)  # a -> b crawls
        return left, right

    socket.socketpair = pair
    try:
        world.run("a2a", preduce.create(world.sites, p=2), tasks=3)
    finally:
        socket.socketpair = slow
    for started in world.of("task_started"):
        finished = [e for e in world.of("task_finished") if e["task"] == started["task"]]
        assert {e["digest"] for e in finished} == {digest(expected(world, started["task"]))}


def test_small_frames_behind_a_large_chunk_are_heard_however_many_come_at_once():
    """The receiver asked to be woken for a whole chunk; what follows is far less than that."""

    async def scene():
        listener = listen("127.0.0.1", 0)
        sender = socket.create_connection(listener.getsockname())
        receiver, _ = await asyncio.get_running_loop().sock_accept(listener)
        heard = []
        allocate = lambda header: memoryview(bytearray(header.size))  # noqa: E731
        link = Connection(
            receiver, "a", lambda _, f: heard.append(f), lambda *_: None, allocate, lambda: 0
        )
        size = 200_000
        header = ChunkHeader(True, 0, 0, 0, 0, (), True, size)
        sender.sendall(encode_chunk(header) + bytes(1000))
        await asyncio.sleep(0.05)
        small = b"".join(encode(SiteReady(n, n)) for n in range(100))
        sender.sendall(bytes(size - 1000) + small)
        while len(heard) < 101:
            await asyncio.sleep(0)
        for end in (link, sender, listener):
            end.close()

    asyncio.run(asyncio.wait_for(scene(), 5))
