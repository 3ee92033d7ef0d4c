"""Every way to fail that CREW's paper lists (Section IV-B), in memory and virtual time.

Whatever happens, the checks of a run must hold: no wrong or half result, no contribution lost or
counted twice, no agent stuck, budgets kept.
"""

import asyncio
import random

import pytest
from faults import (
    FOUR,
    LARGE,
    bsp,
    check,
    cut,
    kill,
    mend,
    part,
    preduce,
    restart,
    run,
    steps,
    times,
    until,
)
from overlays import ladder
from wan import FAILOVER, Wan, mesh, schedule

from trunkline.agents.events.causes import Asked
from trunkline.agents.planning.plan import Block, Plan
from trunkline.agents.planning.plan_rates import PlanRates
from trunkline.agents.planning.repair import UsableOverlay, choose_aggregator, move_block
from trunkline.agents.wire.lane import ConnectionLostError


def test_a_controller_that_is_cut_off_from_all_waits_for_them_and_the_run_goes_on():
    wan = Wan(mesh(FOUR), "crew", preduce(FOUR, 2), time_s=60.0)
    away = [(2.0, cut(site, "controller")) for site in FOUR]
    back = [(42.0, mend(site, "controller")) for site in FOUR]
    run(wan, *away, *back)
    assert wan.of("stopping")[0]["reason"] == "its time of 60 s has passed"
    assert max(times(wan.of("task_completed"))) > 50.0


async def kill_after_its_report(wan, reported_s, decides_s):
    """A new controller, which waits for s3, has the report of s1, which is started again."""
    wan.cut("s3", "controller")
    wan.kill("controller")
    await asyncio.sleep(0.05)
    wan.restart("controller")
    await asyncio.sleep(reported_s)
    wan.kill("s1")
    await asyncio.sleep(0.05)
    wan.restart("s1")
    await asyncio.sleep(decides_s)
    wan.mend("s3", "controller")


def test_a_member_that_is_killed_after_its_report_to_a_new_controller_is_not_waited_for():
    """It comes back without the task before the controller decides, which waits for s3."""
    wan = Wan(mesh(FOUR), "crew", bsp(FOUR), elements=LARGE, task_s=30.0, time_s=40.0)

    async def scenario(wan):
        await until(wan, "contributed", len(FOUR))
        await kill_after_its_report(wan, 0.3, 0.3)

    check(wan, scenario)
    lost, found = (times(wan.of(f"worker_{what}"))[0] for what in ("lost", "found"))
    assert lost < found < times(wan.of("policy_began"))[1]
    assert len([t_s for t_s in times(wan.of("task_completed")) if t_s < 10.0]) > 5


def test_a_policy_hears_once_of_a_site_that_was_ready_before_and_after_it_was_killed():
    """Both before the new controller decides, which waits for s3."""
    wan = Wan(mesh(FOUR), "crew", bsp(FOUR), time_s=20.0)
    wan.compute_s = {"s0": 6.0}

    async def scenario(wan):
        await asyncio.sleep(2.0)
        await kill_after_its_report(wan, 0.4, 0.5)

    check(wan, scenario)
    decided_s = times(wan.of("policy_began"))[1]
    told = [event for event in wan.of("policy_told") if event["t_ns"] / 1e9 == decided_s]
    assert sorted(event["values"]["site"] for event in told) == ["s1", "s2"]


@pytest.mark.parametrize("backup", [False, True])
def test_the_tasks_of_all_controllers_count_towards_the_end(backup):
    wan = Wan(mesh(FOUR), "crew", preduce(FOUR, 2), tasks=80, backup=backup)
    run(wan, (2.0, kill("controller")), (3.0, restart("controller")))
    assert len(wan.of("policy_began")) > 1
    assert len(wan.of("task_started")) == 80


def test_a_new_controller_does_not_wait_for_a_site_that_does_not_report():
    wan = Wan(mesh(FOUR), "crew", bsp(FOUR, barrier=False), time_s=20.0)
    at_once = ((2.0, kill("s3")), (2.05, kill("controller")), (2.5, restart("controller")))
    run(wan, *at_once, (12.0, restart("s3")))
    assert len([t_s for t_s in times(wan.of("task_completed")) if 4.0 < t_s < 12.0]) > 5


def test_a_worker_that_has_done_its_rounds_and_is_cut_off_is_told_of_the_end():
    wan = Wan(mesh(FOUR), "crew", preduce(FOUR, 2), rounds=5)
    wan.compute_s = {"s1": 3.0}
    run(wan, (6.0, cut("s3", "controller")))
    assert max(times(wan.of("controller_lost"))) > 6.0
    stopping = times(wan.of("stopping"))[0]
    exited = {e["who"]: e["t_ns"] / 1e9 for e in wan.of("agent_exited")}
    assert stopping > 15.0
    assert stopping < exited["s3"] < stopping + FAILOVER.patience_s


def test_a_worker_that_is_killed_as_the_run_ends_is_told_of_the_end_when_it_is_back():
    """It had done its rounds, and the controller had not heard yet that it was lost."""

    def slow(*todo):
        wan = Wan(mesh(FOUR), "crew", preduce(FOUR, 2), rounds=5)
        wan.compute_s = {"s1": 3.0}
        return run(wan, *todo)

    stopping = times(slow().of("stopping"))[0]
    wan = slow((stopping - 0.005, kill("s3")))
    assert times(wan.of("stopping")) == [stopping]
    exits = {e["who"]: e["t_ns"] / 1e9 for e in wan.of("agent_exited") if not e["signal"]}
    assert stopping < exits["s3"] < stopping + FAILOVER.timeout_s
    assert exits["controller"] < stopping + FAILOVER.timeout_s


def test_a_worker_that_is_not_reached_by_the_word_of_the_end_calls_and_is_told():
    """All others have answered and left by then."""
    wan = Wan(mesh(FOUR), "crew", preduce(FOUR, 2), rounds=2)

    async def scenario(wan):
        await until(wan, "compute_started", 4)
        wan.path("s3", "controller").delay_s = 0.1
        await until(wan, "stopping")
        await asyncio.sleep(0.05)
        wan.reset("s3", "controller")

    check(wan, scenario)
    exits = {event["who"]: event["t_ns"] / 1e9 for event in wan.of("agent_exited")}
    assert max(exits["s0"], exits["s1"], exits["s2"]) < exits["s3"] < exits["controller"]


def test_a_run_ends_when_nobody_comes_back_within_a_tasks_budget():
    wan = Wan(mesh(FOUR), "crew", preduce(FOUR, 2), time_s=600.0)
    run(wan, *((2.0, cut(site, "controller")) for site in FOUR))
    stopping = wan.of("stopping")[0]
    assert stopping["reason"] == f"no site could be reached for {wan.task_s:g} s"
    assert stopping["t_ns"] / 1e9 < 2.0 + wan.task_s + FAILOVER.patience_s


def test_a_worker_that_loses_the_controller_goes_on_alone_and_is_back_when_it_returns():
    wan = Wan(mesh(FOUR), "crew", preduce(FOUR, 2), time_s=14.0)
    run(wan, (2.0, cut("s2", "controller")), (8.0, mend("s2", "controller")))
    alone = times(wan.of("round_alone"))
    assert {e["site"] for e in wan.of("round_alone")} == {"s2"}
    assert min(alone) > 2.0
    assert max(alone) < 11.0
    joined = times(e for e in wan.of("contributed") if e["site"] == "s2")
    assert not [t for t in joined if min(alone) < t < 8.0]
    assert max(joined) > 11.0
    lost = times(e for e in wan.of("controller_lost") if e["site"] == "s2")[0]
    found = times(e for e in wan.of("controller_found") if e["site"] == "s2")[0]
    started = [e for e in wan.of("task_started") if lost + 1 < e["t_ns"] / 1e9 < found]
    assert started
    assert all("s2" not in e["group"] for e in started)


def test_a_worker_without_controller_finishes_the_task_whose_group_it_knows():
    wan = Wan(mesh(FOUR), "crew", bsp(FOUR), elements=LARGE, time_s=10.0, task_s=30.0)
    run(wan, (0.5, cut("s2", "controller")), (6.0, mend("s2", "controller")))
    first = [e["site"] for e in wan.of("task_finished") if e["task"] == 0]
    assert sorted(first) == list(FOUR)


def test_a_worker_without_controller_refuses_contributions_to_tasks_that_it_does_not_know():
    """They reach it before the controller has noticed that it is gone."""
    wan = Wan(mesh(FOUR), "crew", preduce(FOUR, 2), elements=LARGE, time_s=12.0)
    wan.path("s3", "controller").delay_s = 0.3
    run(wan, (2.0, cut("s3", "controller")), (9.0, mend("s3", "controller")))
    assert any("s3" in e["reason"] for e in wan.of("task_rearranged"))


def test_a_task_is_repaired_when_a_site_refuses_it_before_the_site_counts_as_lost():
    """s3 has lost the controller, and the controller hears that from its neighbours first."""
    wan = Wan(mesh(FOUR), "crew", preduce(FOUR, 2), elements=LARGE, time_s=9.0)
    wan.path("s3", "controller").delay_s = 0.3

    async def scenario(wan):
        await asyncio.sleep(2.0)
        wan.cut("s3", "controller")
        wan.agents["s3"]._controller.link.lose(ConnectionLostError("lost at one end"))
        await asyncio.sleep(3.0)
        wan.mend("s3", "controller")

    check(wan, scenario)
    reasons = [event["reason"] for event in wan.of("task_rearranged")]
    assert reasons[0] == "s3 takes no part in the task"


def test_a_block_moves_to_another_aggregator_when_a_member_loses_the_link_to_its_own():
    wan = Wan(mesh(FOUR), "crew", bsp(FOUR), elements=LARGE, tasks=2, task_s=30.0)
    run(wan, (0.4, cut("s0", "s1")))
    (moved,) = wan.of("task_rearranged")
    assert moved["task"] == 0
    assert moved["reason"] in ("s0 and s1 lost each other", "s1 and s0 lost each other")
    hubs = {block["aggregator"] for block in moved["forest"]["blocks"]}
    assert hubs <= {"s2", "s3"}
    assert [e["task"] for e in wan.of("task_completed")] == [0, 1]
    assert not wan.of("task_halted")


def test_the_replacement_minimises_the_largest_time_of_what_members_still_have_to_move():
    """CREW, (3): l = {a: 0, b: 30}, x = 10; c: max(10/4, 40/8) = 5, d: max(10/1, 40/8) = 10."""
    rates = {(x, y): 8.0 for x in "abcd" for y in "abcd" if x != y}
    rates |= {("a", "c"): 4.0, ("d", "a"): 1.0}
    overlay = UsableOverlay(PlanRates(rates), present=set("abcd"))
    assert choose_aggregator(("a", "b"), 10, {"b": 30}, "dc", overlay) == "c"
    overlay.lost["c"] = frozenset("b")
    assert choose_aggregator(("a", "b"), 10, {"b": 30}, "dc", overlay) == "d"
    overlay.present.remove("d")
    assert choose_aggregator(("a", "b"), 10, {"b": 30}, "dc", overlay) is None


def test_without_a_candidate_that_reaches_the_whole_group_all_discard_the_task():
    wan = Wan(mesh(FOUR[:3]), "crew", bsp(FOUR[:3]), elements=LARGE, time_s=9.0, task_s=30.0)
    run(wan, (0.4, cut("s0", "s1")), (0.4, cut("s0", "s2")), (4.0, Wan.heal))
    gone = wan.of("task_abandoned")[0]
    assert "no other member reaches the whole group" in gone["reason"]
    dropped = [e["site"] for e in wan.of("task_dropped") if e["task"] == gone["task"]]
    assert sorted(dropped) == ["s0", "s1", "s2"]


def test_a_member_that_loses_a_link_and_the_controller_gives_up_and_tells_whom_it_reaches():
    wan = Wan(mesh(FOUR), "crew", bsp(FOUR), elements=LARGE, time_s=9.0, task_s=30.0)
    run(wan, (0.4, cut("s0", "controller")), (0.4, cut("s0", "s1")), (5.0, Wan.heal))
    dropped = {e["site"]: e for e in wan.of("task_dropped") if e["task"] == 0}
    assert dropped.keys() == set(FOUR)
    assert "the controller is lost" in dropped["s0"]["reason"]
    assert wan.of("task_abandoned")[0]["task"] == 0


def test_a_lost_worker_is_in_no_new_group_or_plan_until_it_is_back():
    wan = Wan(mesh(FOUR), "crew", preduce(FOUR, 2), time_s=10.0)
    run(wan, (2.0, kill("s1")), (6.0, restart("s1")))
    found = times(e for e in wan.of("worker_found") if e["worker"] == "s1")[0]
    between = [e for e in wan.of("task_started") if 2.1 < e["t_ns"] / 1e9 < found]
    assert between
    for event in between:
        hubs = {block["aggregator"] for block in event["forest"]["blocks"]}
        assert "s1" not in {*event["group"], *hubs}
    assert any("s1" in e["group"] for e in wan.of("task_started") if e["t_ns"] / 1e9 > found)


def test_a_worker_that_fails_while_there_is_no_controller_takes_its_task_along():
    wan = Wan(mesh(FOUR), "crew", bsp(FOUR), elements=3 * LARGE, time_s=16.0, task_s=30.0)
    run(wan, (0.4, kill("controller")), (0.5, kill("s1")), (8.0, Wan.heal))
    dropped = {e["site"] for e in wan.of("task_dropped") if e["task"] == 0}
    assert dropped == {"s0", "s2", "s3"}
    assert max(times(wan.of("task_dropped"))) < 8.0


def test_a_task_over_its_budget_is_discarded_by_everybody_who_is_then_ready_again():
    wan = Wan(mesh(FOUR), "ring", bsp(FOUR), elements=20_000, time_s=16.0, task_s=1.5)
    wan.path("s0", "s1").rate_mbps = 0.1
    run(wan, (4.0, lambda wan: setattr(wan.path("s0", "s1"), "rate_mbps", 1.0)))
    gone = wan.of("task_abandoned")
    assert gone[0]["reason"] == "exceeded its budget of 1.5 s"
    assert sorted(e["site"] for e in wan.of("task_dropped") if e["task"] == 0) == list(FOUR)
    again = [e["iteration"] for e in wan.of("contributed") if e["site"] == "s2"]
    assert again[:2] == [0, 0]


def test_a_task_is_planned_anew_as_often_as_the_settings_say():
    sites = ("s0", "s1", "s2", "s3", "s4", "s5")
    wan = Wan(mesh(sites), "ring", bsp(sites), elements=8 * LARGE, tasks=1, task_s=200.0)

    async def break_used_links(wan):
        """Break a link of the plan in use, until the task has ended."""
        broken = set()
        while not wan.of("task_completed") and not wan.of("task_abandoned"):
            plans = [*wan.of("task_started"), *wan.of("task_replanned")]
            if len(plans) > len(broken):
                block = Plan.from_json(plans[-1]["forest"]).blocks[0]
                broken.add(block.in_edges[0][:2])
                part(wan, block.in_edges[0][:2])
            await asyncio.sleep(0.4)
        for pair in broken:
            wan.mend(*pair)

    wan.run(break_used_links)
    assert [e["task"] for e in wan.of("task_replanned")] == [0] * FAILOVER.replans
    assert len(wan.of("task_halted")) == FAILOVER.replans + 1
    assert [e["task"] for e in wan.of("task_abandoned")] == [0]


@pytest.mark.parametrize("plan", ["ring", "fapt", "bkt", "a2a"])
def test_trees_are_planned_anew_around_a_lost_link(plan):
    sites = ("s0", "s1", "s2", "s3", "s4")
    wan = Wan(ladder(sites), plan, bsp(sites), elements=LARGE, tasks=2, task_s=60.0)
    run(wan, (0.5, cut("s0", "s1")))
    replanned = wan.of("task_replanned")
    assert [e["task"] for e in replanned] == [0]
    hops = {
        frozenset(edge[i : i + 2])
        for block in Plan.from_json(replanned[0]["forest"]).blocks
        for edge in (*block.in_edges, *block.out_edges)
        for i in range(len(edge) - 1)
    }
    assert frozenset(("s0", "s1")) not in hops
    assert [e["task"] for e in wan.of("task_completed")] == [0, 1]


def test_a_site_that_only_helps_is_replaced_by_a_new_plan_when_it_dies():
    wan = Wan(ladder(FOUR), "ps", preduce(FOUR, 2), elements=LARGE, time_s=12.0, task_s=30.0)
    run(wan, (1.0, kill("s2")), (6.0, restart("s2")))
    assert wan.of("task_completed")


def test_a_member_that_has_finished_gives_its_result_to_those_that_wait():
    """All-to-all: s1 finishes first, because only its links are fast."""
    three = FOUR[:3]
    wan = Wan(mesh(three), "a2a", bsp(three), elements=20_000, tasks=2, task_s=30.0)
    wan.path("s0", "s2").rate_mbps = 0.25
    run(wan, (1.5, cut("s0", "s2")), (10.0, mend("s0", "s2")))
    gifts = [e for e in wan.of("task_replanned") if e["holder"]]
    assert [e["holder"] for e in gifts] == ["s1"]
    assert wan.of("task_completed")[0]["without"] == []
    assert sorted(e["site"] for e in wan.of("task_finished") if e["task"] == 0) == list(three)


def test_members_that_finish_before_they_hear_of_a_block_that_moved_give_their_result():
    """s0 and s1 are done as s2 loses s0; the block has moved to s1 before they say so."""
    three = FOUR[:3]
    wan = Wan(mesh(three), "ps", bsp(three), tasks=2, task_s=30.0)

    async def scenario(wan):
        await until(wan, "contributed", 3)
        wan.path("s0", "s2").delay_s = 0.2
        for site in ("s0", "s1"):
            wan.path(site, "controller").delay_s = 0.3
        await until(wan, "task_finished", 2)
        wan.reset("s0", "s2")

    check(wan, scenario)
    assert [event["task"] for event in wan.of("task_rearranged")] == [0]
    (gift,) = wan.of("task_replanned")
    assert gift["holder"] in ("s0", "s1")
    assert times(wan.of("task_completed"))[0] < 3.0


def test_a_result_that_cannot_be_given_is_waited_for_within_one_more_budget():
    """s1 has the result; the controller reaches s0, but no member does."""
    three = FOUR[:3]
    wan = Wan(mesh(three), "a2a", bsp(three), elements=20_000, tasks=1, task_s=4.0)
    wan.path("s0", "s2").rate_mbps = 0.25
    cuts = [(1.5, cut("s0", other)) for other in ("s1", "s2")]
    wan.run(steps(*cuts, (30.0, Wan.heal)))
    started, ended = wan.of("task_started")[0], wan.of("task_completed")[0]
    assert ended["without"] == ["s0", "s2"]
    assert times([ended])[0] == pytest.approx(times([started])[0] + 2 * 4.0, abs=0.1)


def test_a_result_that_is_lost_with_its_holder_is_not_waited_for():
    """s1 has finished, cannot reach s0 and s2, and is killed before its links are back."""
    three = FOUR[:3]
    wan = Wan(mesh(three), "a2a", bsp(three), elements=20_000, tasks=1, task_s=30.0)
    wan.path("s0", "s2").rate_mbps = 0.25
    cuts = [(1.5, cut("s0", other)) for other in ("s1", "s2")]
    wan.run(steps(*cuts, (6.0, kill("s1")), (60.0, Wan.heal)))
    ended = wan.of("task_completed")[0]
    assert ended["without"] == ["s0", "s2"]
    assert 6.0 < times([ended])[0] < 6.0 + 2 * FAILOVER.timeout_s


def test_a_run_without_faults_needs_no_repair_and_says_nothing_of_losses():
    """Though agents are silent while s1 computes, and s3 hears last that the run is over."""
    wan = Wan(mesh(FOUR), "crew", preduce(FOUR, 2), backup=True, rounds=2)
    wan.compute_s = {"s1": 3.0}
    wan.path("s3", "controller").delay_s = 0.1
    run(wan)
    said = {event["event"] for event in wan.events}
    assert not said & {
        "task_halted",
        "task_rearranged",
        "task_replanned",
        "link_lost",
        "controller_lost",
        "worker_lost",
        "round_alone",
    }


def test_what_is_sent_early_over_relays_is_all_counted():
    six = (*FOUR, "s4", "s5")
    wan = run(Wan(ladder(six), "crew", preduce(six, 4), rounds=4, early=True))
    assert {event["phase"] for event in wan.of("sent")} >= {"early", "relay"}


def test_a_worker_that_is_started_again_sends_its_contribution_early_as_before():
    """Its offers have new numbers: others would discard those of an offer that they had before."""
    todo = [(0.6, lambda wan: wan.kill("b")), (0.9, lambda wan: wan.restart("b"))]
    four = ("a", "b", "c", "d")
    wan = run(Wan(mesh(four), "crew", preduce(four, 3), rounds=25, early=True), *todo)
    assert wan.of("task_halted") == wan.of("task_abandoned") == []
    back_ns = next(e["t_ns"] for e in wan.of("agent_changed") if e["do"] == "restart")
    early = [e for e in wan.of("sent") if e["site"] == "b" and e["phase"] == "early"]
    assert sum(each["t_ns"] > back_ns for each in early) > 20


@pytest.mark.parametrize("lost", [("s0", "s1"), ("s1", "controller")])
def test_what_was_sent_early_on_a_way_that_is_lost_is_sent_again(lost):
    """Some of it has arrived, by relays: it is not counted as well as what comes another way."""
    six = (*FOUR, "s4", "s5")
    wan = Wan(ladder(six), "crew", bsp(six), rounds=1, early=True)
    wan.compute_s = {"s5": 8.0}

    async def scenario(wan):
        await asyncio.sleep(3.0)
        part(wan, lost)
        await asyncio.sleep(10.0)
        wan.mend(*lost)

    check(wan, scenario)
    assert wan.of("task_completed")[0]["t_ns"] < 10e9


def test_the_default_split_is_made_anew_after_losses_and_measurements():
    """s3 is killed and comes back; then s0 and s1 turn out to have a slow link, so others add."""
    now_mbps = mesh(FOUR)
    wan = Wan(
        mesh(FOUR), "crew", preduce(FOUR, 2), early=True, time_s=14.0, latest_mbps=lambda: now_mbps
    )
    seen = []

    async def scenario(wan):
        def look():
            default = wan.agents["controller"]._planner.default
            seen.append({block.aggregator: block.size for block in default.blocks})

        await asyncio.sleep(1.0)
        look()
        wan.kill("s3")
        await asyncio.sleep(2.0)
        look()
        now_mbps.update({("s0", "s1"): 0.1, ("s1", "s0"): 0.1})
        wan.restart("s3")
        await asyncio.sleep(8.0)
        look()

    check(wan, scenario)
    whole, without, measured = seen
    assert set(whole) == set(FOUR)
    assert set(without) == set(FOUR[:3])
    assert measured["s2"] + measured["s3"] > 2 * max(whole["s2"], whole["s3"])
    late = [e for e in wan.of("sent") if e["phase"] == "early" and 2.5e9 < e["t_ns"] < 3.0e9]
    assert late
    assert "s3" not in {event["dst"] for event in late}


def test_a_member_that_joins_a_running_task_offers_nothing_to_the_next_one():
    """Without a barrier s0 joins the task that s1 began; so its offer is not used."""
    two = FOUR[:2]
    wan = Wan(mesh(two), "crew", bsp(two, barrier=False), rounds=3, early=True)
    wan.compute_s = {"s0": 1.0}
    run(wan)
    assert len(wan.of("task_completed")) == 3


def test_a_group_that_no_links_connect_is_tried_again_once_per_timeout_by_each_member():
    three = FOUR[:3]
    wan = Wan(mesh(three), "crew", bsp(three, barrier=False), rounds=2)
    cuts = [(0.05, lambda wan: part(wan, ("s0", "s2"), ("s1", "s2")))]
    run(wan, *cuts, (8.0, mend("s0", "s2")), (8.0, mend("s1", "s2")))
    tried = times(wan.of("group_postponed"))
    assert tried[-1] > 7.0
    assert len(tried) <= len(three) * (1 + tried[-1] / FAILOVER.timeout_s)


def test_a_site_that_was_ready_and_lost_is_asked_for_nothing_until_it_is_ready_again():
    """s0 and s1 wait for links to s2. s1 loses the controller and computes on, but is back soon."""
    three = FOUR[:3]
    wan = Wan(mesh(three), "crew", bsp(three, barrier=False), rounds=2)
    wan.compute_s = {"s1": 3.0}

    async def scenario(wan):
        await asyncio.sleep(0.05)
        part(wan, ("s0", "s2"), ("s1", "s2"))
        await asyncio.sleep(4.0)
        wan.reset("s1", "controller")
        await asyncio.sleep(0.5)
        wan.mend("s0", "s2")
        wan.mend("s1", "s2")

    check(wan, scenario)
    assert [event["iteration"] for event in wan.of("round_alone")] == [0]
    joined = [event["iteration"] for event in wan.of("contributed") if event["site"] == "s1"]
    assert joined[0] == 1


def test_a_block_is_moved_whole_with_what_it_promises_to_its_receivers():
    plan = Plan(("a", "b"), ("a", "b"), 4, (Block(((0, 4),), "a", (("b", "a"),), (("a", "b"),)),))
    assert move_block(plan, plan.blocks[0], "c") == Block(
        ((0, 4),), "c", (("a", "c"), ("b", "c")), (("c", "a"), ("c", "b"))
    )


@pytest.mark.parametrize("seed", range(9))
def test_random_faults_break_no_promise(seed):
    rng = random.Random(seed)
    sites = tuple(f"s{rank}" for rank in range(rng.randint(3, 5)))
    rates = mesh(sites) if rng.random() < 0.6 else ladder(sites)
    policy = preduce(sites, rng.randint(2, len(sites))) if rng.random() < 0.7 else bsp(sites)
    plan = rng.choice(["crew", "ring", "fapt", "a2a"])
    backup = rng.random() < 0.5
    early = plan == "crew"
    budgets = {"task_s": 20.0, "time_s": 16.0}
    wan = Wan(
        rates,
        plan,
        policy,
        backup=backup,
        early=early,
        pipelined=seed < 6,
        elements=8000,
        **budgets,
    )
    check(wan, schedule(seed, wan, faults=6, until_s=14.0))


@pytest.mark.parametrize("stop", [{"tasks": 12}, {"time_s": 1000.0}])
def test_a_controller_that_was_cut_off_hears_that_another_one_has_stopped_the_run(stop):
    """It is in reach of s0 alone, and has begun too few tasks itself."""
    others = ("backup", *FOUR[1:])

    async def scenario(wan):
        await asyncio.sleep(0.5)
        part(wan, *(("controller", other) for other in others), *(("s0", s) for s in FOUR[1:]))
        wan.cut("s0", "backup")
        if "time_s" in stop:
            await until(wan, "policy_began", 2)
            wan.agents["backup"].stop(Asked())
        await until(wan, "stopping")
        for other in others:
            wan.mend("controller", other)
        for site in FOUR[1:]:
            wan.mend("s0", site)
        wan.mend("s0", "backup")

    wan = Wan(mesh(FOUR), "crew", preduce(FOUR, 2), backup=True, **stop)
    wan.run(scenario, limit_s=200.0)
    assert [e["site"] for e in wan.of("stopping")] == ["backup", "controller"]
    assert len({e["reason"] for e in wan.of("stopping")}) == 1
    assert {e["site"] for e in wan.of("worker_finished")} == set(FOUR)
