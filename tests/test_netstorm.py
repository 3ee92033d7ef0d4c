"""NetStorm's policies at work: agents, wires and virtual time in one process."""

from __future__ import annotations

import pytest
from wan import Wan, mesh

from agents.policies import bsp

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
