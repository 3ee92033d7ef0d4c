"""What plans go by, and what new rates change of it."""

from overlays import request

from trunkline.agents.planning.plan_rates import PlanRates
from trunkline.agents.plans import fapt, mst, ps, star

FIRST = {("a", "b"): 100.0, ("b", "a"): 10.0, ("b", "c"): 50.0, ("c", "b"): 50.0}


def test_a_threshold_of_nothing_takes_over_whatever_is_heard():
    knowledge = PlanRates(FIRST)
    assert knowledge.refresh(FIRST)
    assert (knowledge.version, knowledge.rates_mbps) == (2, FIRST)


def test_one_link_that_changes_enough_is_enough_and_small_changes_add_up():
    knowledge = PlanRates(FIRST, threshold=0.2)
    assert not knowledge.refresh(FIRST | {("a", "b"): 81.0, ("c", "b"): 59.0})
    assert (knowledge.version, knowledge.rates_mbps) == (1, FIRST)
    later = FIRST | {("a", "b"): 80.0, ("c", "b"): 59.0}
    assert knowledge.refresh(later)
    assert (knowledge.version, knowledge.rates_mbps, knowledge.first_mbps) == (2, later, FIRST)


NOW = {("a", "b"): 10.0, ("b", "c"): 10.0, ("a", "c"): 100.0, ("c", "a"): 100.0}
NOW |= {("b", "a"): 100.0, ("c", "b"): 100.0}
THEN = NOW | {("a", "b"): 100.0, ("b", "c"): 100.0, ("a", "c"): 1.0, ("b", "a"): 30.0}


def test_roots_and_shares_are_those_of_the_first_rates_and_trees_those_of_now():
    then, later = request(THEN, "abc", 30), request(NOW, "abc", 30, first=THEN)
    fixed = [(block.aggregator, block.chunks) for block in fapt.build(then, roots=2).blocks]
    assert [(b.aggregator, b.chunks) for b in fapt.build(later, roots=2).blocks] == fixed
    assert fixed != [
        (b.aggregator, b.chunks) for b in fapt.build(request(NOW, "abc", 30), roots=2).blocks
    ]
    trees = {block.aggregator: set(block.in_edges) for block in fapt.build(later).blocks}
    assert trees["b"] == {("a", "c"), ("c", "b")}
    assert {b.aggregator: set(b.in_edges) for b in fapt.build(then).blocks}["b"] == {
        ("a", "b"),
        ("c", "b"),
    }


def test_servers_and_single_roots_stay_where_they_were_first():
    for build in (star.build, mst.build):
        then = build(request(THEN, "abc")).blocks[0].aggregator
        assert build(request(NOW, "abc", first=THEN)).blocks[0].aggregator == then
        assert build(request(NOW, "abc")).blocks[0].aggregator != then


def test_a_parameter_server_stays_too():
    then = NOW | {("b", "a"): 500.0}
    hubs = [ps.choose_server(request(NOW, "abc", first=first)) for first in (None, then)]
    assert hubs == ["c", "b"]
