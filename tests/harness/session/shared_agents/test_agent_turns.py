"""Agents that share a process take turns, and fail alone."""

import asyncio
import json
import math
import os
import select
import signal
import socket
import time
from types import SimpleNamespace
from typing import ClassVar

import pytest
from inside import run_each

from trunkline.harness.commands import main
from trunkline.harness.processes.fork import FAILED, signals_held
from trunkline.harness.scenario.loading import parse, resolve
from trunkline.harness.session.agent_children import AgentChildren
from trunkline.harness.session.agent_main import FINISHED, LISTENING, Survivors
from trunkline.harness.session.shared_agents.agent_group import AgentGroup
from trunkline.harness.session.shared_agents.agent_turns import Turns
from trunkline.harness.session.shared_agents.member_loop import MemberLoop, MemberSelector
from trunkline.harness.session.shared_agents.turn_notes import TurnNotes
from trunkline.harness.session.supervisor import Child, Supervisor

NO_LIFE_BEFORE = 0, 0
DEADLINE_S = 60


def test_a_loop_says_when_it_needs_a_turn_and_a_turn_does_not_wait():
    loop, done = MemberLoop(MemberSelector("a", select.epoll(), {})), []

    async def work():
        done.append("begun")
        await asyncio.sleep(3600)

    try:
        task = loop.create_task(work())
        assert (loop.due_s, done) == (-math.inf, [])
        before_s = time.monotonic()
        loop.take_turn()
        assert done == ["begun"]
        assert loop.due_s == pytest.approx(before_s + 3600, abs=10)
        task.cancel()
        while not task.done():
            loop.take_turn()
        assert loop.due_s > time.monotonic() + 3000  # asyncio forgets a cancelled timer later
    finally:
        loop.leave()
        loop.close()


class Noted(socket.socket):
    """A socket that notes its number when it is closed."""

    closed: ClassVar[list[int]] = []

    def close(self):
        self.closed.append(self.fileno())
        super().close()


def test_sockets_of_a_killed_agent_are_closed_in_the_order_of_their_numbers():
    # A set of objects is in the order of their addresses, which differ from machine to machine.
    loop = MemberLoop(MemberSelector("a", select.epoll(), {}))
    kept = [Noted() for _ in range(20)]
    for sock in reversed(kept):
        loop.add_socket(sock)
    numbers = [sock.fileno() for sock in kept]
    loop.close_sockets()
    loop.close()
    assert Noted.closed == sorted(numbers)


class Fake:
    """An agent that does what its name says."""

    def __init__(self, opened):
        self.opened = opened
        self.scenario = SimpleNamespace(clock="virtual")

    async def run(self, pipes):
        near, far = socket.socketpair()
        pipes.write(LISTENING + b"\n")
        try:
            match pipes.name:
                case "leaves":
                    raise SystemExit(0)
                case "crashes":
                    os._exit(3)
                case "talks":
                    for _ in range(100):
                        pipes.write(bytes(10_000))
                case "ends":
                    pass
                case "sleeps":
                    time.sleep(3600)
                case _:
                    await asyncio.sleep(3600)
        finally:
            pipes.write(b"cleaned up\n")
        near.close()
        far.close()


class Group:
    """A group of fake agents, with what each has written."""

    def __init__(self, tmp_path, names):
        survivors = {name: Survivors() for name in names}
        network = SimpleNamespace(open_socket=lambda site: socket.socket())

        def make_agent(earlier, opened):
            return Fake(opened)

        notes = TurnNotes(names, watches_code=False)

        def act(commands):
            return Turns(commands, make_agent, survivors, network, tmp_path, notes).run()

        self.group = AgentGroup(names, act, notes)
        self.agents, self.read = {}, {}
        for name in names:
            (events, events_end), (told_end, _) = os.pipe(), os.pipe()
            with signals_held():
                ends = (events_end, told_end)
                self.agents[name] = self.group.start(name, NO_LIFE_BEFORE, ends, lambda: None)
            for fd in ends:
                os.close(fd)
            self.read[name] = events

    def output(self, name):
        with open(self.read[name], "rb", closefd=False) as file:
            return file.read()


@pytest.fixture
def start(tmp_path):
    started = []

    def start(*names):
        started.append(Group(tmp_path, names))
        return started[-1]

    yield start
    for group in started:
        group.group.end()


def test_an_agent_that_is_killed_cleans_nothing_up_and_the_others_live(start):
    group = start("a", "b")
    group.agents["a"].send(signal.SIGKILL)
    group.agents["a"].await_end(DEADLINE_S)
    assert group.agents["a"].wait() == -signal.SIGKILL
    assert group.output("a") == LISTENING + b"\n"
    assert not group.agents["b"].has_ended
    group.agents["b"].send(signal.SIGTERM)
    assert group.agents["b"].wait() == -signal.SIGTERM


def test_a_paused_agent_has_no_turn_until_it_is_resumed(start):
    group = start("a", "b")
    for _ in range(20):
        group.agents["a"].send(signal.SIGSTOP)
        group.agents["a"].await_stop(DEADLINE_S)
        group.agents["a"].send(signal.SIGCONT)
    group.agents["a"].send(signal.SIGSTOP)
    group.agents["a"].await_stop(DEADLINE_S)
    group.agents["a"].send(signal.SIGKILL)  # as for a process that is stopped
    assert group.agents["a"].wait() == -signal.SIGKILL
    assert not group.agents["b"].has_ended


@pytest.mark.parametrize("do", ["kill", "pause"])
def test_a_fault_waits_for_an_agent_until_the_deadline_and_names_who_holds_it_up(start, do):
    group = start("a", "sleeps")
    children = SimpleNamespace(
        signals=AgentChildren.signals, timers=None, schedule=None, note_change=lambda *_: None
    )
    supervisor = Supervisor(SimpleNamespace(limits=SimpleNamespace(run_s=9.0)), children)
    (read_fd, _), (_, told_fd) = os.pipe(), os.pipe()
    agent = group.agents["a"]
    supervisor._forked.append(Child("a", agent, told_fd, (read_fd,)))
    supervisor._open.add(agent.pidfd)
    supervisor.limit(0.3, "the run took too long")
    with pytest.raises(TimeoutError, match="too long; the code of sleeps holds up all agents of"):
        supervisor.change("a", do, 1)


def test_ends_of_all_kinds_have_the_exit_code_of_a_process(start):
    group = start("ends", "leaves", "talks", "stays")
    assert group.agents["ends"].wait() == FINISHED
    assert group.output("ends") == LISTENING + b"\ncleaned up\n"
    assert group.agents["leaves"].wait() == FAILED
    assert b"SystemExit: 0" in group.output("leaves")
    assert len(group.output("talks")) > 1_000_000  # more than a pipe holds
    assert group.agents["talks"].wait() == FINISHED
    assert not group.agents["stays"].has_ended


def test_a_crash_ends_all_agents_of_the_process(start):
    group = start("a", "crashes", "b")
    for agent in group.agents.values():
        assert agent.wait() == 3
        assert agent.crash == (
            "while the agent of crashes ran, the process of 3 sites ended with exit code 3"
        )
        agent.send(signal.SIGKILL)  # as for a process that has ended


OWN = """
import os, sys, time
import numpy as np


class Own:
    kept = []

    def __init__(self, rank):
        self.rank = rank
        self.model = np.ones(1000, np.float32)

    def compute(self, iteration):
        if self.rank == 1 and iteration == 1:
            %s
        if self.rank == 2 and Own.kept:
            os.kill(os.getpid(), 9)
        return 0.01

    def contribution(self):
        return self.model

    def install(self, result):
        self.model[:] = result

    def evaluate(self):
        return None


def build(rank, sites, seed):
    return Own(rank)


def model_bytes():
    return 4000
"""
SCENARIO = """
topology: {builder: full_mesh, sites: 3, rates: 10 Mbit/s, delays: 1 ms}
workload: {kind: own.py}
scheme: {policy: bsp, plan: a2a, chunk: 1 KiB}
stop: {rounds: 3}
agents: {per_process: all}
limits: {task: 2 s, run: 5 s}
outputs: {plots: false}
"""


LEAK = "Own.kept.append(np.ones(50_000_000, np.float32))"


ENDS = {
    "exits": ("sys.exit(0)", "n2: own.py: line 15: SystemExit: 0"),
    "fails": ("raise ValueError('no data')", "n2: own.py: line 15: ValueError: no data"),
    "dies": (
        "os._exit(5)",
        "while the agent of n2 ran, the process of 3 sites ended with exit code 5",
    ),
    "leaks": (
        LEAK,
        "while the agent of n3 ran, the process of 3 sites ended by signal 9; "
        "of its memory, the agent of n2 took 20",
    ),
}
"""What the code of n2 does in its second iteration, and what is said of it."""


@pytest.fixture(scope="module")
def ended(embedded, tmp_path_factory):
    """For each of these, the exit code of the session and the error that it printed."""
    home = tmp_path_factory.mktemp("ends")
    for name, (act, _) in ENDS.items():
        (home / name / "log").mkdir(parents=True)
        (home / name / "own.py").write_text(OWN % act)
        resolved = resolve(parse(SCENARIO, str(home / name / "own.yaml")))
        (home / name / "resolved.yaml").write_text(resolved)
    done = embedded.call(run_each, str(home), [*ENDS], visible=[home])
    return {
        name: (code, [line["error"] for line in map(json.loads, said) if "error" in line])
        for name, (code, _, _, said) in done.items()
    }


@pytest.mark.parametrize("name", ENDS)
def test_the_site_whose_code_ends_its_agent_is_named(name, ended):
    code, (error,) = ended[name]
    assert code == 1
    assert ENDS[name][1] in error


def test_the_error_of_a_session_is_that_of_the_command(embedded, tmp_path, capsys):
    act, said = ENDS["exits"]
    (tmp_path / "own.py").write_text(OWN % act)
    (tmp_path / "own.yaml").write_text(SCENARIO)
    assert main.main(["run", str(tmp_path / "own.yaml"), "--runs", str(tmp_path / "runs")]) == 1
    assert said in capsys.readouterr().err
