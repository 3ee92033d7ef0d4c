"""Policies are pure: events in, decisions out."""

import pytest

from trunkline.agents.policies import bsp, preduce
from trunkline.agents.policies.policy import Joined, Left, Lost, Proceed, Ready, Start, Traits

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


def versions(*events):
    """Iterations of the models of each group that a dynamic partial reduce of 2 forms."""
    policy = preduce.create(SITES, p=2, weights="dynamic")
    state, found = policy.initial, []
    for event in events:
        before = state
        state, made = policy.step(state, event)
        for start in made:
            known = {**before.versions, event.site: state.versions[event.site]}
            numbers = {s: known[s].number for s in start.group}
            found.append((numbers, dict(start.weights), start.scale))
    return found


def test_a_dynamic_partial_reduce_weighs_by_how_stale_models_are():
    ahead = [Ready("a", 0), Ready("b", 0), Ready("a", 1), Ready("b", 1), Ready("a", 2)]
    assert versions(*ahead, Ready("c", 0)) == [
        ({"a": 0, "b": 0}, {"a": 1.0, "b": 1.0}, 0.5),
        ({"a": 1, "b": 1}, {"a": 1.0, "b": 1.0}, 0.5),
        ({"a": 2, "c": 0}, {"a": 6.0, "c": 1.0}, 1 / 7),
    ]


def test_a_dynamic_partial_reduce_may_mix_in_the_initial_model():
    policy = preduce.create(SITES, p=2, weights="dynamic", missing="initial")
    ahead = [Ready("a", 2), Ready("c", 0), Ready("a", 3), Ready("b", 3)]
    first, second = decisions(policy, *ahead)
    assert (first.weights, first.scale) == ({"a": 4.0, "c": 1.0}, 1 / 7)
    assert (first.keep, first.kept) == (2 / 7, "initial")
    assert second.roles is None  # every version has a model
    assert Traits.of(policy).keeps_initial
    assert not Traits.of(preduce.create(SITES, missing="initial")).keeps_initial


def test_a_member_goes_on_from_the_newest_model_of_its_group():
    ahead = [Ready("a", 5), Ready("c", 0), Ready("c", 1), Ready("b", 6)]
    assert [numbers for numbers, *_ in versions(*ahead)] == [{"a": 5, "c": 0}, {"b": 6, "c": 6}]


def test_an_abandoned_task_makes_no_model_newer():
    again = [Ready("a", 5), Ready("c", 0), Ready("c", 0), Ready("b", 6)]
    assert [numbers for numbers, *_ in versions(*again)] == [{"a": 5, "c": 0}, {"b": 6, "c": 0}]


def test_of_a_site_that_was_lost_only_the_iteration_is_known():
    before = [Ready("a", 5), Ready("c", 0), Lost("c"), Joined("c")]
    assert [numbers for numbers, *_ in versions(*before, Ready("c", 1), Ready("b", 6))] == [
        {"a": 5, "c": 0},
        {"b": 6, "c": 1},
    ]


def test_a_site_that_is_ready_twice_counts_once():
    assert groups(preduce.create(SITES, p=2), *ready("a", "a", "b")) == [("a", "b")]


def test_the_last_group_shrinks_so_that_nobody_is_stranded():
    policy = preduce.create(SITES, p=3)
    assert groups(policy, *ready("a", "b"), Left("c"), Left("d")) == [("a", "b")]


def test_the_last_site_is_released():
    policy = preduce.create(SITES, p=2)
    assert groups(policy, Ready("a", 7), Left("b"), Left("c"), Left("d")) == ["a"]
    assert decisions(policy, Left("b"), Left("c"), Left("d"), Ready("a", 7)) == [Proceed("a")]


def test_a_site_that_leaves_the_queue_is_in_no_group():
    policy = preduce.create(SITES, p=2)
    assert groups(policy, Ready("a", 0), Left("a"), *ready("b", "a", "c")) == [("b", "c")]


def test_bsp_waits_for_everybody():
    assert groups(bsp.create(SITES), *ready("c", "a", "b")) == []
    assert groups(bsp.create(SITES), *ready("c", "a", "b", "d")) == [SITES]


@pytest.mark.parametrize("p", [0, 1, 5])
def test_preduce_refuses_an_impossible_p(p):
    with pytest.raises(ValueError, match=f"p: {p}: expected 2 to 4, the number of sites"):
        preduce.create(SITES, p=p)
