"""NetStorm's policies at work: agents, wires and virtual time in one process."""

import asyncio
import json
import random

import pytest
from overlays import ladder
from wan import Wan, mesh, schedule

from trunkline.agents.events import event_reading
from trunkline.agents.planning.auxiliary_paths import Bounds
from trunkline.agents.policies import bsp, preduce
from trunkline.harness.record.history import History
from trunkline.harness.report.parts.paths_part import PathRow, tabulate_paths

FIVE = ("s0", "s1", "s2", "s3", "s4")


def test_trees_follow_the_latest_rates_and_roots_and_shares_stay():
    fast = mesh(FIVE, 2.0)
    slow = fast | {("s0", "s1"): 0.1, ("s1", "s0"): 0.1}
    wan = Wan(fast, "fapt", bsp.create(FIVE), tasks=9, latest_mbps=lambda: slow, update_s=0.5)
    wan.run()
    assert wan.verdict().outcome == "pass"
    updates = wan.of("plans_updated")
    assert [e["version"] for e in updates[:2]] == [2, 3]
    assert [e["t_ns"] for e in updates[:2]] == [5 * 10**8, 10**9]
    starts = wan.of("task_started")
    assert {start["version"] for start in starts} >= {1, 2, 3}
    for start in starts:
        trees = {block["aggregator"]: block for block in start["forest"]["blocks"]}
        assert (["s0", "s1"] in trees["s1"]["in"]) == (start["version"] == 1)
        assert [(hub, tree["chunks"]) for hub, tree in trees.items()] == [
            (block["aggregator"], block["chunks"]) for block in starts[0]["forest"]["blocks"]
        ]


def test_small_changes_update_nothing():
    rates = mesh(FIVE, 2.0)
    wan = Wan(
        rates,
        "fapt",
        bsp.create(FIVE),
        tasks=5,
        latest_mbps=lambda: dict.fromkeys(rates, 2.1),
        update_s=0.2,
        update_threshold=0.06,
    )
    wan.run()
    assert wan.of("plans_updated") == []


def test_an_update_that_fails_ends_the_run():
    wan = Wan(mesh(FIVE), "fapt", bsp.create(FIVE), tasks=5, latest_mbps=dict, update_s=0.1)
    with pytest.raises(KeyError):
        wan.run()


@pytest.mark.parametrize("seed", range(6))
def test_auxiliary_paths_break_no_promise_when_links_and_sites_fail(seed):
    rng = random.Random(seed)
    rates = mesh(FIVE) if rng.random() < 0.5 else ladder(FIVE)
    plan, policy = rng.choice(["fapt", "star", "crew"]), bsp.create(FIVE)
    if rng.random() < 0.5:
        policy = preduce.create(FIVE, p=3)
    elif rng.random() < 0.7:
        policy = bsp.create(FIVE, barrier=False)
    wan = Wan(
        rates,
        plan,
        policy,
        backup=rng.random() < 0.5,
        elements=8000,
        task_s=20.0,
        time_s=16.0,
        bounds=Bounds(rng.randint(0, 2), rng.randint(1, 2)),
        latest_mbps=lambda: {link: rng.uniform(0.5, 2.0) for link in rates},
        update_s=0.7,
    )
    wan.run(schedule(seed, wan, faults=6, until_s=14.0))
    verdict = wan.verdict()
    assert (verdict.outcome, verdict.problems) == ("pass", ())
    assert any(len(e["path"]) > 2 for e in wan.of("routed"))


def test_the_table_of_paths_says_what_went_around_and_makes_up_the_plans_edges():
    sites = ("s0", "s1", "s2")
    rates = mesh(sites, 4.0) | {("s0", "s1"): 0.5, ("s1", "s0"): 0.5}
    wan = Wan(rates, "star", bsp.create(sites), elements=16000, tasks=2, bounds=Bounds(1, 1))
    wan.run()
    assert wan.verdict().outcome == "pass"
    log = sorted(wan.events, key=lambda event: event["t_ns"])
    table = PathRow.frame(tabulate_paths(History.of(event_reading.read(map(json.dumps, log)))))
    hub = wan.of("task_started")[0]["forest"]["blocks"][0]["aggregator"]
    assert hub == "s2"
    whole = 2 * wan.elements * 4
    for pair, rows in table.groupby(["src", "dst"]):
        assert "s2" in pair
        assert rows["bytes"].sum() == whole
        assert rows["share_percent"].sum() == pytest.approx(100)
        primary = rows[~rows["auxiliary"]]
        assert list(primary["path"]) == [" ".join(pair)]
        assert (primary["bytes"] > whole / 2).all()


def test_who_is_ready_asks_and_sends_at_once_and_who_hears_late_keeps_what_came_early():
    wan = Wan(mesh(FIVE, 4.0), "fapt", bsp.create(FIVE, barrier=False), elements=4000, tasks=4)
    wan.path("s3", "controller").delay_s = 0.4  # there and back below the 1 s that a call may take
    wan.run()
    assert wan.verdict().outcome == "pass"
    assert len(wan.of("task_completed")) == 4
    for start in wan.of("task_started"):
        task = start["task"]
        joined = {e["site"]: e["t_ns"] for e in wan.of("task_joined") if e["task"] == task}
        assert joined["s3"] > max(joined[site] for site in FIVE if site != "s3") + 300_000_000
        early = [e for e in wan.of("received") if (e["site"], e["task"]) == ("s3", task)]
        assert min(e["start_ns"] for e in early) < joined["s3"]


def test_whoever_has_the_newest_parts_is_not_told_them_again():
    rates = mesh(FIVE, 4.0)
    policy = bsp.create(FIVE, barrier=False)
    wan = Wan(rates, "fapt", policy, tasks=12, latest_mbps=lambda: rates, update_s=0.8)
    wan.run()
    assert wan.verdict().outcome == "pass"
    versions = {e["task"]: e["version"] for e in wan.of("task_started")}
    known = {}
    for event in wan.of("task_joined"):
        version = versions[event["task"]]
        assert event["unchanged"] == (known.get(event["site"]) == version)
        known[event["site"]] = version
    assert len(set(versions.values())) > 1
    assert [e["unchanged"] for e in wan.of("task_joined")].count(True) > 20


def test_a_round_that_a_member_leaves_before_it_is_ready_is_given_up_by_all():
    wan = Wan(mesh(FIVE, 4.0), "ring", bsp.create(FIVE, barrier=False), time_s=2.0)
    wan.path("s3", "controller").delay_s = 0.4
    wan.run()
    assert wan.verdict().outcome == "pass"
    assert [e["reason"] for e in wan.of("task_abandoned")] in ([], ["s3 takes no part in the task"])


def test_a_member_that_is_lost_before_it_is_ready_does_not_hold_up_the_others():
    wan = Wan(mesh(FIVE, 4.0), "fapt", bsp.create(FIVE, barrier=False), time_s=8.0, task_s=30.0)

    async def lose(wan):
        await asyncio.sleep(1.0)
        wan.kill("s3")

    wan.run(lose)
    assert wan.verdict().outcome == "pass"
    later = [e for e in wan.of("task_started") if e["t_ns"] > 3e9]
    assert later
    assert all("s3" not in e["group"] for e in later)


def test_the_same_run_gives_the_same_log():
    def log():
        rates = ladder(FIVE, 3.0)
        slow = rates | {("s0", "s1"): 0.3}
        policy = bsp.create(FIVE, barrier=False)
        wan = Wan(rates, "fapt", policy, tasks=5, bounds=Bounds(1, 2), latest_mbps=lambda: slow)
        wan.run()
        return wan.events

    assert log() == log()
