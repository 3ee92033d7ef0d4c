"""Policies are pure: events in, decisions out."""

from __future__ import annotations

import pytest

from agents.policies import bsp, preduce
from agents.policy import Left, Ready, Release, Start

SITES = ("a", "b", "c", "d")


def decisions(policy, *events):
    state, all_decisions = policy.initial, []
    for event in events:
        state, made = policy.step(state, event)
        all_decisions += made
    return all_decisions


def groups(policy, *events):
    return [d.group if isinstance(d, Start) else d.site for d in decisions(policy, *events)]


def ready(*sites):
    return [Ready(site, 0) for site in sites]


def test_preduce_pops_the_first_p_ready_sites_in_order_of_arrival():
    assert groups(preduce.create(SITES, p=2), *ready("d", "b", "a", "c")) == [
        ("b", "d"),
        ("a", "c"),
    ]


def test_preduce_averages():
    (start,) = decisions(preduce.create(SITES, p=2), *ready("a", "b"))
    assert start == Start(("a", "b"), {"a": 1.0, "b": 1.0}, 0.5)


def test_a_site_that_is_ready_twice_counts_once():
    assert groups(preduce.create(SITES, p=2), *ready("a", "a", "b")) == [("a", "b")]


def test_the_last_group_shrinks_so_that_nobody_is_stranded():
    policy = preduce.create(SITES, p=3)
    assert groups(policy, *ready("a", "b"), Left("c"), Left("d")) == [("a", "b")]


def test_the_last_site_is_released():
    policy = preduce.create(SITES, p=2)
    assert groups(policy, Ready("a", 7), Left("b"), Left("c"), Left("d")) == ["a"]
    assert decisions(policy, Left("b"), Left("c"), Left("d"), Ready("a", 7)) == [Release("a")]


def test_a_site_that_leaves_the_queue_is_in_no_group():
    policy = preduce.create(SITES, p=2)
    assert groups(policy, Ready("a", 0), Left("a"), *ready("b", "a", "c")) == [("b", "c")]


def test_bsp_waits_for_everybody():
    assert groups(bsp.create(SITES), *ready("c", "a", "b")) == []
    assert groups(bsp.create(SITES), *ready("c", "a", "b", "d")) == [SITES]


@pytest.mark.parametrize("p", [0, 1, 5])
def test_preduce_refuses_an_impossible_p(p):
    with pytest.raises(ValueError, match=f"p = {p} is not between 2 and the number of sites, 4"):
        preduce.create(SITES, p=p)
