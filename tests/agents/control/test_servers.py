"""Servers in whole runs in one process: every update counts once, also under faults."""

import asyncio
from dataclasses import replace

import numpy as np
import pytest
import wan as wans
from faults import cut, kill, mend, restart, steps, until
from wan import CHUNK_BYTES, Integers, Wan, contribution, mesh, schedule

from trunkline.agents.policies import ad_psgd, eager_reduce, ps, r2sp
from trunkline.agents.policies.policy import Ended, Proceed, Ready, Tick, Wake, average
from trunkline.agents.policies.random_draws import create_policy
from trunkline.agents.wire.messages import Refuse
from trunkline.workloads.base import fingerprint

ELEMENTS = 4000
WORKERS = ("n1", "n2", "n3")


SLOW = 0.5
"""A rate in Mbit/s at which few rounds last as long as many faults."""


def play(
    create,
    servers=("s1",),
    scenario=None,
    rounds=4,
    plan="ps",
    backup=False,
    rate_mbps=1.0,
    **options,
):
    rates = mesh((*WORKERS, *servers), rate_mbps)
    policy = create_policy(create, WORKERS, options, "seed", servers)
    wan = Wan(rates, plan, policy, rounds=rounds, servers=servers, backup=backup)
    wan.run(scenario)
    return wan


def break_at_random(seed):
    async def faults(wan):
        await schedule(seed, wan)(wan)

    return faults


def list_merges(wan):
    """For each life of each server its merges: the updates as (site, iteration), and the event."""
    started = {event["task"]: event for event in wan.of("task_started")}
    iterations = {(e["task"], e["site"]): e["iteration"] for e in wan.of("contributed")}
    lives = []
    for server in wan.servers:
        for event in wan.events:
            if event["site"] != server:
                continue
            if event["event"] == "server_began":
                lives.append([])
            if event["event"] == "model_merged":
                start = started[event["task"]]
                updates = [(site, iterations[event["task"], site]) for site in start["weights"]]
                lives[-1].append((updates, start["scale"], event))
    return lives


def check(wan):
    """Each version adds its updates to the one before, and no update twice; returns the updates."""
    for merges in list_merges(wan):
        seen, model = set(), np.zeros(ELEMENTS, np.float32)
        for number, (updates, scale, event) in enumerate(merges, start=1):
            assert event["version"] == number
            assert not seen.intersection(updates)
            seen.update(updates)
            terms = [contribution(wan.sites.index(s), i, ELEMENTS) for s, i in updates]
            model = model + np.float32(scale) * sum(terms)
            if len(wan.servers) == 1:
                right = fingerprint(model, CHUNK_BYTES)
                np.testing.assert_allclose(event["fingerprint"], right, rtol=1e-5, atol=1.0)
    return seen


@pytest.mark.parametrize("mode", ["bsp", "asp", "ssp", "hete", "bk"])
@pytest.mark.parametrize("servers", [("s1",), ("s1", "s2")])
def test_every_update_is_in_the_model_of_the_servers_once(mode, servers):
    wan = play(ps.create, servers, mode=mode)
    seen = check(wan)
    rounds = {(site, iteration) for site in WORKERS for iteration in range(4)}
    assert seen == rounds if mode != "bk" else seen < rounds
    assert {e["site"] for e in wan.of("worker_finished")} == set(WORKERS)


@pytest.mark.parametrize("servers", [("s1",), ("s1", "s2", "s3", "s4")])
def test_updates_of_r2sp_come_in_turn(servers):
    wan = play(r2sp.create, servers)
    pushes = [event for event in wan.of("task_started") if event["scale"] != 1]
    assert [event["group"][0] for event in pushes] == [*WORKERS] * 4
    assert check(wan) == {(site, iteration) for site in WORKERS for iteration in range(4)}
    assert wan.verdict().outcome == "pass"


@pytest.mark.parametrize("create", [ad_psgd.create, eager_reduce.create])
def test_workers_without_servers_end_their_rounds(create):
    wan = play(create, (), plan="crew")
    finished = wan.of("worker_finished")
    assert {e["site"]: e["rounds"] for e in finished} == dict.fromkeys(WORKERS, 4)


def test_in_the_literal_form_of_r2sp_all_push_at_once_and_pulls_come_in_turn():
    wan = play(r2sp.create, ("s1",), wait="pull", iteration_time="slowest", patience=100.0)
    check(wan)
    tasks = wan.of("task_started")
    pulls = [event["group"][0] for event in tasks if event["scale"] == 1]
    assert pulls == [*WORKERS] * 4
    assert all(event["scale"] != 1 for event in tasks[: len(WORKERS)])
    assert wan.verdict().outcome == "pass"


def test_a_new_controller_does_not_ask_again_for_updates_of_a_task_that_it_took_over():
    async def replace_controller(wan):
        for site in WORKERS:
            wan.path(site, "s1").rate_mbps = 0.05
        await until(wan, "contributed", len(wan.sites))
        wan.kill("controller")
        await asyncio.sleep(0.5)
        wan.restart("controller")

    wan = play(ps.create, scenario=replace_controller, mode="bsp", rounds=2)
    assert not wan.of("task_dropped")
    assert {(site, 0) for site in WORKERS} < check(wan)


def test_an_update_that_the_server_may_have_is_not_given_again_by_a_worker_that_gave_up():
    """n1 gives up in the moment in which a controller answers it, so it does not go on alone."""

    async def give_up(wan):
        wan.path("n3", "s1").rate_mbps = 0.05
        await until(wan, "contributed", len(wan.sites))
        await asyncio.sleep(0.5)
        worker = wan.agents["n1"]
        wan.reset("n1", "controller")
        await until(wan, "controller_lost")
        while worker._controller.link is None:
            await asyncio.sleep(0.001)
        link = worker._controller.link
        read = link._on_frame

        def read_both(peer, frame):
            link._on_frame = read
            worker._on_peer_frame("s1", Refuse(0))
            read(peer, frame)

        link._on_frame = read_both

    wan = play(ps.create, scenario=give_up, mode="bsp", rounds=2)
    dropped = [event["reason"] for event in wan.of("task_dropped") if event["site"] == "n1"]
    assert dropped[0] == "s1 takes no part, and the controller is lost"
    given = [
        e for e in wan.of("contributed") if (e["site"], e["iteration"]) == ("n1", 0) and e["weight"]
    ]
    assert [event["task"] for event in given] == [0]


@pytest.mark.parametrize("cut_s", [0.16, 0.18, 0.2, 0.3])
@pytest.mark.parametrize("away_s", [2.5, 6.0])
def test_an_update_counts_once_if_neither_its_worker_nor_a_new_controller_knows_its_end(
    cut_s, away_s
):
    """The server forgot the task when it ended. n1 reports it before or after the others."""

    async def faults(wan):
        await asyncio.sleep(cut_s)
        wan.cut("n1", "controller")
        await asyncio.sleep(0.15)
        wan.kill("controller")
        await asyncio.sleep(0.2)
        wan.restart("controller")
        await asyncio.sleep(away_s)
        wan.mend("n1", "controller")

    wan = play(ps.create, scenario=faults, mode="asp")
    assert "n1" in {event["site"] for event in wan.of("task_dropped")}
    assert ("n1", 0) in check(wan)
    assert wan.verdict().outcome == "pass"


@pytest.mark.parametrize("tasks", [7, 12])
def test_no_more_tasks_begin_than_asked_for_if_a_policy_starts_several_at_once(tasks):
    policy = create_policy(ad_psgd.create, WORKERS, {}, "seed")
    wan = Wan(mesh((*WORKERS, "n4")), "crew", policy, tasks=tasks)
    wan.run()
    assert len(wan.of("task_started")) == tasks
    once = "every contribution counts once"  # is not promised
    assert [each for each in wan.verdict().problems if not each.startswith(once)] == []


def test_averages_with_neighbours_lose_no_step(monkeypatch):
    """A pair's average keeps the sum of both models, which is that of all steps so far."""
    workloads = []

    class Adding(Integers):
        def __post_init__(self):
            super().__post_init__()
            workloads.append(self)

        def commit(self):
            self.model += self.step

    monkeypatch.setattr(wans, "Integers", Adding)
    play(ad_psgd.create, (), plan="crew")
    steps = [contribution(rank, i, ELEMENTS) for rank in range(len(WORKERS)) for i in range(4)]
    np.testing.assert_allclose(sum(each.model for each in workloads), sum(steps), atol=0.01)


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("servers", [("s1",), ("s1", "s2")])
def test_no_update_counts_twice_whatever_is_lost(seed, servers):
    mode = ["bsp", "asp", "ssp", "hete", "bk"][seed % 5]

    options = {"backup": bool(seed % 2), "rate_mbps": SLOW, "mode": mode}
    wan = play(ps.create, servers, break_at_random(seed), rounds=6, **options)
    check(wan)
    assert {e["site"] for e in wan.of("worker_finished")} == set(WORKERS)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("servers", [("s1",), ("s1", "s2")])
def test_the_rotation_of_r2sp_goes_on_whatever_is_lost(seed, servers):
    options = {"batch": 32, "at_once": 1 + seed % 3, "strict": seed % 4 < 2}
    if seed % 5 == 4:
        options = {"batch": 32, "wait": "pull", "iteration_time": "slowest"}
    options["rate_mbps"] = SLOW
    faults = break_at_random(seed)
    wan = play(r2sp.create, servers, faults, rounds=6, backup=bool(seed % 2), **options)
    check(wan)
    assert {e["site"] for e in wan.of("worker_finished")} == set(WORKERS)
    assert wan.verdict().outcome == "pass"


def block(a, b, direction):
    return lambda wan: wan.path(a, b).block(direction)


FAULTS = {
    "a worker is killed": ((2.0, kill("n2")), (6.0, restart("n2"))),
    "a worker joins late": ((0.001, kill("n2")), (6.0, restart("n2"))),
    "a server is killed": ((2.0, kill("s1")), (6.0, restart("s1"))),
    "a worker is cut off from a server": ((2.0, cut("n2", "s1")), (6.0, mend("n2", "s1"))),
    "a server is cut off from all": (
        *((2.0, cut("s1", other)) for other in (*WORKERS, "s2", "controller")),
        *((6.0, mend("s1", other)) for other in (*WORKERS, "s2", "controller")),
    ),
    "a worker cannot send to a server": ((2.0, block("n2", "s1", 0)), (6.0, mend("n2", "s1"))),
    "a server cannot send to a worker": ((2.0, block("n2", "s1", 1)), (6.0, mend("n2", "s1"))),
    "a worker does not hear the controller": (
        (2.0, block("n2", "controller", 1)),
        (6.0, mend("n2", "controller")),
    ),
    "the controller does not hear a worker": (
        (2.0, block("n2", "controller", 0)),
        (6.0, mend("n2", "controller")),
    ),
    "the controller is killed": ((2.0, kill("controller")), (6.0, restart("controller"))),
}
"""What happens from 2 s to 6 s."""


@pytest.mark.parametrize(
    ("fault", "backup"), [*((fault, False) for fault in FAULTS), ("the controller is killed", True)]
)
@pytest.mark.parametrize(
    ("create", "options"),
    [
        (r2sp.create, {}),
        (r2sp.create, {"strict": True, "batch": 32}),
        (r2sp.create, {"wait": "pull"}),
        (ps.create, {"mode": "asp"}),
    ],
)
def test_servers_and_workers_go_on_after_each_kind_of_fault(fault, backup, create, options):
    servers = ("s1", "s2")
    rounds = 6 if "batch" in options else 20 if backup else 15  # a batch of 32 takes seconds
    options = {**options, "backup": backup, "rate_mbps": SLOW}
    wan = play(create, servers, steps(*FAULTS[fault]), rounds=rounds, **options)
    check(wan)
    finished = {e["site"]: e["t_ns"] / 1e9 for e in wan.of("worker_finished")}
    assert set(finished) == set(WORKERS)
    assert max(finished.values()) > 6.0, "the run was over before the fault"
    verdict = wan.verdict()
    assert (verdict.outcome, verdict.problems) == ("pass", ())


@pytest.mark.parametrize("strict", [False, True])
def test_the_rotation_does_not_wait_for_a_worker_that_takes_too_long(strict):
    policy = r2sp.create(WORKERS, servers=("s1", "s2"), strict=strict)
    wan = Wan(mesh((*WORKERS, "s1", "s2")), "ps", policy, rounds=6, servers=("s1", "s2"))
    wan.compute_s = {"n1": 0.1, "n2": 5.0, "n3": 0.1}
    wan.run()
    finished = {e["site"]: e["t_ns"] / 1e9 for e in wan.of("worker_finished")}
    assert max(finished["n1"], finished["n3"]) < finished["n2"]
    assert {site for site, _ in check(wan)} == set(WORKERS)
    assert wan.verdict().outcome == "pass"


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("create", [ad_psgd.create, eager_reduce.create])
def test_every_worker_ends_its_rounds_whatever_is_lost(seed, create):
    faults = break_at_random(seed)
    options = {"backup": bool(seed % 2), "rate_mbps": SLOW}
    wan = play(create, (), faults, plan="crew", rounds=6, **options)
    assert {e["site"] for e in wan.of("worker_finished")} == set(WORKERS)


class Impatient:
    """Wants a pair first, and lets the site proceed alone after a second."""

    timed = True
    early = True
    initial = ()

    def step(self, state, event):
        match event:
            case Ready(site):
                return (site,), (average(WORKERS), Wake(event.at_s + 1.0))
            case Tick() if state:
                return (), tuple(map(Proceed, state))
        return state, ()


def test_a_site_that_went_on_is_not_ready_again_when_its_group_could_have_started():
    async def cut_off(wan):
        wan.cut("n1", "n2")
        wan.cut("n1", "n3")

    wan = Wan(mesh(WORKERS), "crew", Impatient(), time_s=10.0)
    wan.compute_s = {"n1": 0.1, "n2": 12.0, "n3": 12.0}
    wan.run(cut_off)
    assert wan.of("group_postponed")
    done = set()
    for event in wan.events:
        if event["event"] == "policy_told" and event["told"] == "ready":
            iteration = event["values"]["iteration"]
            assert iteration not in done
        if event["event"] == "site_released":
            done.add(iteration)
    assert len(done) > 3


class Chain:
    """A pair, and then a pair of one of them with the third site."""

    initial = frozenset()

    def step(self, state, event):
        match event:
            case Ready("n1", iteration=1):
                return state, (average(("n1", "n3")),)
            case Ready(site, iteration=0):
                state |= {site}
                return state, (average(WORKERS[:2]),) if state == set(WORKERS) else ()
        return state, ()


def test_a_group_that_is_tried_again_does_not_count_as_given_what_an_earlier_task_had():
    """n1 has the result of its first task and is ready again while n2 still receives it."""

    async def lose_n3(wan):
        wan.path("n1", "n2").rate_mbps = 0.05
        await asyncio.sleep(0.1)
        wan.cut("n1", "n3")
        wan.cut("n2", "n3")
        await until(wan, "task_completed")
        await asyncio.sleep(1.0)
        wan.mend("n1", "n3")

    wan = Wan(mesh(WORKERS), "star", Chain(), time_s=20.0)
    wan.run(lose_n3)
    postponed, completed = wan.of("group_postponed")[0], wan.of("task_completed")
    assert postponed["t_ns"] < completed[0]["t_ns"]
    assert [event["task"] for event in completed] == [0, 1]
    ready = [e["values"] for e in wan.of("policy_told") if e["told"] == "ready"]
    assert not any(each["given"] for each in ready)


class Waits:
    """Sites wait after each task of all, until they are told to proceed."""

    timed = True
    initial = frozenset()

    def step(self, state, event):
        match event:
            case Ready(site, given=True):
                return state, (Proceed(site),)
            case Ready(site):
                state |= {site}
                if state == set(WORKERS):
                    return state, (replace(average(WORKERS), then="wait"),)
            case Ended(group=group, completed=True) if state:
                return frozenset(), tuple(map(Proceed, group))
        return state, ()


def test_a_site_that_waits_after_its_task_tells_a_new_controller_that_it_has_given():
    """By a default split it waits for that controller; without one it would go on alone."""

    async def replace_controller(wan):
        wan.path("n1", "n2").rate_mbps = 0.05
        await until(wan, "task_finished")
        wan.kill("controller")
        await asyncio.sleep(0.5)
        wan.restart("controller")

    wan = Wan(mesh(WORKERS), "crew", Waits(), rounds=2, early=True)
    wan.run(replace_controller)
    ready = [e["values"] for e in wan.of("policy_told") if e["told"] == "ready"]
    assert [each["iteration"] for each in ready if each["given"]] == [0] * len(WORKERS)
    assert wan.verdict().outcome == "pass"


class TwoStages:
    """Pairs average and wait, and then all three average."""

    timed = True
    initial = frozenset()

    def step(self, state, event):
        match event:
            case Ready(site):
                state |= {site}
                pair = state == set(WORKERS)
                return state, (replace(average(WORKERS[:2]), then="wait"),) if pair else ()
            case Ended(group=group, completed=True) if len(group) == 2:
                return frozenset(), (average(WORKERS),)
        return state, ()


def test_a_site_that_waits_after_a_task_sends_its_contribution_to_the_next_one_again():
    """Its offer by the default split was for the first task."""
    wan = Wan(mesh(WORKERS), "crew", TwoStages(), rounds=3, early=True)
    wan.run()
    assert len(wan.of("task_completed")) == 6
    assert not wan.of("task_halted")
    failed = [check.name for check in wan.verdict().checks if check.outcome == "fail"]
    assert failed == ["every contribution counts once"]  # each is in two tasks, as the policy wants
