"""Workers compute branches while a model is handed out to them, also when something breaks."""

import asyncio
from collections import Counter

import pytest
from wan import Wan, mesh

from trunkline.agents.policies import bsp, ps
from trunkline.harness.record.branches import list_computed
from trunkline.workloads.layered.model import Base, Branch, LayeredModel


def branch(name, elements, forward_s):
    return Branch(name, 4 * elements, forward_s, 2 * forward_s)


MODEL = LayeredModel(
    (
        Base("stem", (branch("only", 2000, 0.05),)),
        Base("mixed", (branch("left", 1000, 0.03), branch("right", 3000, 0.08))),
        Base("head", (branch("only", 4000, 0.1),)),
    )
)
SITES = ("n1", "n2", "n3", "n4", "n5")


def play(scenario=None, plan="ps", rounds=3):
    policy = ps.create(SITES[1:], servers=SITES[:1])
    wan = Wan(mesh(SITES), plan, policy, servers=SITES[:1], layers=MODEL, rounds=rounds)
    wan.run(scenario)
    verdict = wan.verdict()
    assert (verdict.outcome, verdict.problems) == ("pass", ())
    return wan


def computed(wan):
    return list(list_computed(wan.history(wan.events)))


def test_branches_are_computed_before_the_whole_model_is_here():
    wan = play()
    pulled = [each for each in computed(wan) if each.task is not None]
    had_ns = {(e["site"], e["task"]): e["t_ns"] for e in wan.of("task_finished")}
    assert len(pulled) == 4 * 2 * 4  # workers, hand-outs with an iteration after them, branches
    for each in pulled:
        assert each.arrived_ns <= each.start_ns + 1000
        assert (each.end_ns < had_ns[each.site, each.task]) == (each.branch != 3)


def test_the_first_iteration_computes_what_was_here_and_the_last_hand_out_begins_none():
    wan = play()
    first = [each for each in computed(wan) if each.task is None]
    assert {(each.site, each.iteration) for each in first} == {(site, 0) for site in SITES[1:]}
    assert {each.iteration for each in computed(wan)} == {0, 1, 2}
    assert max(e["task"] for e in wan.of("branch_arrived")) < max(
        e["task"] for e in wan.of("task_finished")
    )


@pytest.mark.parametrize("plan", ["ring", "bkt", "fapt", "crew"])
def test_any_plan_that_hands_out_a_model_can_overlap(plan):
    wan = play(plan=plan, rounds=2)
    assert [each for each in computed(wan) if each.task is not None]


def test_results_of_an_all_reduce_overlap_too():
    wan = Wan(mesh(SITES), "bkt", bsp.create(SITES), layers=MODEL, rounds=3)
    wan.run()
    assert (wan.verdict().outcome, wan.verdict().problems) == ("pass", ())
    assert {each.iteration for each in computed(wan) if each.task is not None} == {1, 2}


async def until(wan, kind, count=1):
    while len(wan.of(kind)) < count:
        await asyncio.sleep(0.001)


def test_a_broken_link_halts_the_hand_out_and_what_has_arrived_stays():
    async def scenario(wan):
        await until(wan, "branch_arrived", 6)
        wan.reset("n1", "n2")

    wan = play(scenario, plan="bkt")
    (halted,) = wan.of("task_halted")
    (replanned,) = wan.of("task_replanned")
    before = [e for e in wan.of("branch_arrived") if e["t_ns"] < halted["t_ns"]]
    assert len(before) >= 6 and {e["task"] for e in before} == {replanned["task"]}
    arrivals = [(e["site"], e["task"], e["branch"]) for e in wan.of("branch_arrived")]
    assert len(arrivals) == len(set(arrivals)) == 4 * 2 * 4
    assert len(computed(wan)) == 4 * 3 * 4


def test_a_worker_that_is_killed_computes_its_branches_anew():
    async def scenario(wan):
        await until(wan, "branch_arrived", 6)
        wan.kill("n3")
        await asyncio.sleep(2.0)
        wan.restart("n3")

    wan = play(scenario)
    assert wan.of("task_abandoned") or wan.of("task_replanned")
    assert {e["site"] for e in wan.of("round_finished")} == set(SITES[1:])


def test_a_hand_out_that_is_given_up_takes_its_branches_with_it():
    async def scenario(wan):
        await until(wan, "branch_arrived", 6)
        wan.kill("n1")
        await asyncio.sleep(0.5)
        wan.restart("n1")

    wan = play(scenario)
    (given_up,) = {e["task"] for e in wan.of("task_abandoned")}
    again = [each for each in computed(wan) if each.iteration == 1 and each.task != given_up]
    assert [each for each in computed(wan) if each.task == given_up]
    assert len(again) == 4 * 4


def test_a_whole_message_can_be_used_when_all_of_it_is_here():
    arrivals = {plan: play(plan=plan, rounds=2).of("branch_arrived") for plan in ("naive", "ps")}
    times = {
        plan: len({event["t_ns"] for event in found if event["site"] == "n2"})
        for plan, found in arrivals.items()
    }
    assert times == {"naive": 1, "ps": 4}


@pytest.mark.parametrize("plan", ["owl", "naive", "overlap", "ipart"])
def test_plans_for_layers_hand_out_the_model(plan):
    wan = play(plan=plan, rounds=2)
    (pulled,) = {each.task for each in computed(wan) if each.task is not None}
    (start,) = [event for event in wan.of("task_started") if event["task"] == pulled]
    assert start["forest"]["blocks"]


@pytest.mark.parametrize("victim", ["n2", "n3", "n5"])
def test_a_worker_that_passes_the_model_on_may_die_during_the_hand_out(victim):
    async def scenario(wan):
        await until(wan, "branch_arrived", 3)
        wan.kill(victim)
        await asyncio.sleep(1.5)
        wan.restart(victim)

    wan = play(scenario, plan="owl", rounds=4)
    assert {e["site"] for e in wan.of("round_finished")} == set(SITES[1:])


@pytest.mark.parametrize("pair", [("n2", "n4"), ("n4", "n5")])
def test_a_hand_out_that_goes_on_over_other_links_needs_only_what_had_not_arrived(pair):
    async def scenario(wan):
        await until(wan, "branch_arrived", 3)
        wan.cut(*pair)
        await asyncio.sleep(2.5)
        wan.mend(*pair)

    wan = play(scenario, plan="owl")
    (replanned,) = wan.of("task_replanned")
    after = Counter(
        event["site"]
        for event in wan.of("branch_arrived")
        if event["task"] == replanned["task"] and event["t_ns"] > replanned["t_ns"]
    )
    assert after and max(after.values()) < len(MODEL.branches)


def test_a_rack_that_is_cut_off_during_the_hand_out_comes_back():
    rack = "n4", "n5"

    async def scenario(wan):
        await until(wan, "branch_arrived", 3)
        pairs = [(a, b) for a in rack for b in ("n1", "n2", "n3", "controller")]
        for pair in pairs:
            wan.cut(*pair)
        await asyncio.sleep(4.0)
        for pair in pairs:
            wan.mend(*pair)

    wan = play(scenario, plan="owl", rounds=5)
    assert wan.of("worker_lost")
    rounds = [event["rounds"] for event in wan.of("worker_finished") if event["site"] in rack]
    assert len(rounds) == 2 and min(rounds) >= 1
