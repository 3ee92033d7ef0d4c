"""The plans that synchronize over trees, against trees and shares worked out by hand."""

import itertools
import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from overlays import MESH, mesh, overlays, request

from trunkline.agents import registry
from trunkline.agents.planning.fluid.completion_times import estimate
from trunkline.agents.planning.plan import PlanError, check
from trunkline.agents.planning.trees import (
    compute_delay,
    count_uses,
    grow,
    grow_shortest,
    pipeline_rate_mbps,
    prune,
    route_closure,
)
from trunkline.agents.plans import bkt, blink, fapt, mst, star, toa
from trunkline.topologies import internet2

LINE = {link: 10.0 for a, b in ("ab", "bc", "cd") for link in ((a, b), (b, a))}

FIGURE_1 = {
    ("v2", "v1"): 24.0,
    ("v3", "v1"): 15.0,
    ("v4", "v1"): 18.0,
    ("v5", "v1"): 50.0,
    ("v6", "v2"): 24.0,
    ("v7", "v2"): 20.0,
    ("v8", "v2"): 11.0,
    ("v9", "v3"): 20.0,
    ("v14", "v3"): 13.0,
    ("v10", "v4"): 23.0,
    ("v11", "v4"): 5.0,
    ("v13", "v4"): 16.0,
    ("v12", "v5"): 7.0,
}
"""NetStorm's Figure 1c: its root links, and links that give its four subtree delays."""

SLOPE = {
    ("a", "b"): 100.0,
    ("b", "a"): 50.0,
    ("b", "c"): 100.0,
    ("c", "b"): 50.0,
    ("a", "c"): 100.0,
    ("c", "a"): 10.0,
}
"""Shortest paths: c -> b -> a takes 0.04, c -> a takes 0.1; towards c every site is 0.01 away."""


def part_per_link(plan, rates):
    """For each link, the time per chunk that it is busy with all trees of a plan."""
    load = Counter()
    for block in plan.blocks:
        for edge in (*block.in_edges, *block.out_edges):
            load.update(dict.fromkeys(itertools.pairwise(edge), block.size))
    return {link: chunks / plan.chunk_count / rates[link] for link, chunks in load.items()}


# -- trees --------------------------------------------------------------------------------------


def test_delay_of_the_papers_figure_1_is_57():
    tree = dict(FIGURE_1.keys())
    subtrees = {
        root: compute_delay({s: p for s, p in tree.items() if p == root}, FIGURE_1)
        for root in ("v2", "v3", "v4", "v5")
    }
    assert subtrees == {"v2": 24.0, "v3": 20.0, "v4": 23.0, "v5": 7.0}
    assert [subtrees[s] + FIGURE_1[s, "v1"] for s in subtrees] == [48.0, 35.0, 41.0, 57.0]
    assert compute_delay(tree, FIGURE_1) == 57.0


def test_the_fastest_aggregation_path_tree_goes_around_the_slow_root_link_of_figure_1():
    overlay = FIGURE_1 | {("v5", "v4"): 9.0}
    tree = grow_shortest("v1", overlay)
    assert tree == dict(FIGURE_1.keys()) | {"v5": "v4"}
    assert compute_delay(tree, overlay) == 48.0


def test_a_tree_grows_along_the_direction_that_the_data_takes():
    weights = {link: 1.0 / rate for link, rate in SLOPE.items()}
    assert grow_shortest("a", weights) == {"b": "a", "c": "b"}
    assert grow_shortest("c", weights) == {"a": "c", "b": "c"}


def test_equal_trees_prefer_fewer_edges_and_then_names():
    even = dict.fromkeys(mesh(), 0.0)
    assert grow_shortest("b", even) == {"a": "b", "c": "b", "d": "b"}
    diamond = dict.fromkeys([("d", "b"), ("d", "c"), ("b", "a"), ("c", "a")], 1.0)
    assert grow_shortest("a", diamond) == {"b": "a", "c": "a", "d": "b"}


def test_growing_names_the_sites_without_a_path_to_the_root():
    with pytest.raises(PlanError, match="no path from a, b to c over"):
        grow("c", [("a", "b"), ("b", "a"), ("c", "b")], lambda cost, _: cost)


def test_pruning_cuts_the_branches_that_nobody_needs():
    tree = {"b": "a", "c": "b", "d": "b", "e": "a"}
    assert prune(tree, ("a", "d")) == {"b": "a", "d": "b"}


def test_a_tree_uses_each_link_of_its_routes_once_up_and_once_down():
    found, _ = route_closure(request(LINE, ("a", "c")))
    load = count_uses({"a": "c"}, found)
    assert load == dict.fromkeys([("a", "b"), ("b", "c"), ("c", "b"), ("b", "a")], 1)
    assert pipeline_rate_mbps(load, LINE | {("c", "b"): 4.0}) == 4.0


# -- fapt ---------------------------------------------------------------------------------------


def test_fapt_shares_chunks_in_proportion_to_quality():
    # w(FAPT) of a, b, c: 0.04, 0.02, 0.01.
    asked = request(SLOPE, ("a", "b", "c"), 7)
    assert fapt.rank_roots(asked) == pytest.approx({"c": 100.0, "b": 50.0, "a": 25.0})
    assert list(fapt.rank_roots(asked)) == ["c", "b", "a"]
    blocks = fapt.build(asked).blocks
    assert [(b.aggregator, b.chunks) for b in blocks] == [
        ("c", ((0, 4),)),
        ("b", ((4, 6),)),
        ("a", ((6, 7),)),
    ]
    assert set(blocks[0].in_edges) == {("a", "c"), ("b", "c")}
    assert set(blocks[1].in_edges) == {("a", "b"), ("c", "b")}
    assert set(blocks[2].in_edges) == {("b", "a"), ("c", "b")}


def test_fapt_can_take_results_down_the_tree_that_contributions_go_up():
    (block,) = fapt.build(request(SLOPE, ("a", "b", "c"), 7), roots=1, pull="reversed").blocks
    assert set(block.in_edges) == {("a", "c"), ("b", "c")}
    assert set(block.out_edges) == {("c", "a"), ("c", "b")}


def test_fapt_chooses_the_way_down_by_the_rates_down():
    (block,) = fapt.build(request(SLOPE, ("a", "b", "c"), 7), roots=1).blocks
    assert set(block.in_edges) == {("a", "c"), ("b", "c")}
    assert set(block.out_edges) == {("c", "b"), ("b", "a")}


def test_every_tree_of_fapt_spans_all_sites_even_if_all_are_roots():
    plan = fapt.build(request(mesh(), MESH))
    assert plan.aggregators() == MESH
    for block in plan.blocks:
        assert {edge[0] for edge in block.in_edges} == set(MESH) - {block.aggregator}


def test_fapt_aggregates_at_sites_outside_the_group_and_leaves_out_the_others():
    (block,) = fapt.build(request(LINE, ("a", "c")), roots=1).blocks
    assert block.aggregator == "b"
    assert set(block.in_edges) == {("a", "b"), ("c", "b")}
    assert set(block.out_edges) == {("b", "a"), ("b", "c")}


def test_fapt_keeps_its_roots_when_the_group_changes():
    rates = mesh() | {("d", x): 300.0 for x in "abc"} | {(x, "d"): 300.0 for x in "abc"}
    for group in itertools.combinations(MESH, 2):
        assert fapt.build(request(rates, group), roots=1).aggregators() == ("d",)


# -- star, bkt, mst -----------------------------------------------------------------------------


def test_star_forwards_over_the_overlay_without_adding_on_the_way():
    (block,) = star.build(request(LINE, ("a", "c", "d"))).blocks
    assert block.aggregator == "b"
    assert block.in_edges == (("a", "b"), ("c", "b"), ("d", "c", "b"))
    assert block.out_edges == (("b", "a"), ("b", "c"), ("b", "c", "d"))


def test_star_takes_the_server_that_it_is_told():
    (block,) = star.build(request(LINE, ("a", "c")), server="d").blocks
    assert block.in_edges == (("a", "b", "c", "d"), ("c", "d"))


def test_star_puts_the_server_where_it_is_told_to():
    # The tree of d goes around its slow link from a. Its star of direct routes does not.
    rates = dict.fromkeys(itertools.permutations("abcd", 2), 4.0)
    rates |= {("a", "b"): 100.0, ("b", "d"): 100.0, ("c", "d"): 100.0, ("a", "d"): 1.0}
    rates |= {("c", "a"): 2.0}
    places = ("root", "fastest", "slowest")
    hubs = {place: star.build(request(rates, "abcd"), server=place) for place in places}
    assert {place: plan.blocks[0].aggregator for place, plan in hubs.items()} == {
        "root": "d",
        "fastest": "b",
        "slowest": "a",
    }


@pytest.mark.parametrize("place", ["root", "fastest", "slowest"])
def test_star_has_the_same_server_for_every_group(place):
    rates = dict.fromkeys(itertools.permutations("abcd", 2), 4.0)
    rates |= {("a", "c"): 2.0, ("a", "d"): 1.0, ("c", "d"): 0.5}
    groups = [group for size in (2, 3, 4) for group in itertools.combinations("abcd", size)]
    plans = [star.build(request(rates, group), server=place) for group in groups]
    assert len({plan.blocks[0].aggregator for plan in plans}) == 1


@pytest.mark.parametrize(("routes", "path"), [("hops", "adc"), ("rate", "abec")])
def test_baselines_forward_by_hops_as_ip_does_or_by_rate(routes, path):
    fast, slow = ("ab", "be", "ec"), ("ad", "dc")
    rates = {tuple(link): 100.0 for link in fast} | {tuple(link): 10.0 for link in slow}
    rates |= {(b, a): rate for (a, b), rate in rates.items()}
    whole = request(rates, ("a", "c"))
    for plan in (star.build(whole, server="c", routes=routes), bkt.build(whole, routes=routes)):
        (block,) = plan.blocks
        assert {*block.in_edges, *block.out_edges} == {tuple(path), tuple(reversed(path))}


@pytest.mark.parametrize(
    ("k", "parents"),
    [
        (1, {"b": "a", "c": "b", "d": "c", "e": "d", "f": "e", "g": "f"}),
        (2, {"b": "a", "c": "a", "d": "b", "e": "b", "f": "c", "g": "c"}),
        (3, {"b": "a", "c": "a", "d": "a", "e": "b", "f": "b", "g": "b"}),
    ],
)
def test_bkt_fills_levels_by_rank_whatever_the_rates(k, parents):
    sites = "abcdefg"
    rates = {link: float(number + 1) for number, link in enumerate(mesh(sites))}
    (block,) = bkt.build(request(rates, reversed(sites)), k=k).blocks
    assert block.aggregator == "a"
    assert dict(block.in_edges) == parents
    assert {(child, parent) for parent, child in block.out_edges} == set(parents.items())


def test_bkt_bridges_missing_links_by_source_routes():
    (block,) = bkt.build(request(LINE, MESH)).blocks
    assert block.in_edges == (("b", "a"), ("c", "b", "a"), ("d", "c", "b"))


def test_mst_takes_the_fastest_link_into_the_tree_first():
    # Quality: d has 1 / 0.05, the others 1 / 0.1. Towards d all have 20: a, by name. Then c -> a
    # at 80, then b -> c at 90.
    rates = mesh(rate=20.0) | {("c", "a"): 80.0, ("b", "c"): 90.0}
    rates |= {("d", x): 10.0 for x in "abc"}
    (block,) = mst.build(request(rates, MESH)).blocks
    assert block.aggregator == "d"
    assert dict(block.in_edges) == {"a": "d", "c": "a", "b": "c"}


def test_mst_can_take_results_down_the_tree_that_contributions_go_up():
    (block,) = mst.build(request(SLOPE, ("a", "b", "c")), pull="reversed").blocks
    assert {(src, dst) for dst, src in block.in_edges} == set(block.out_edges)


def test_mst_chooses_the_way_down_by_the_rates_down():
    (block,) = mst.build(request(SLOPE, ("a", "b", "c"))).blocks
    assert block.aggregator == "c"
    assert dict(block.in_edges) == {"a": "c", "b": "c"}
    assert set(block.out_edges) == {("c", "b"), ("b", "a")}


def test_mst_relays_only_where_the_members_own_links_do_not_do():
    hub = {link: 90.0 for x in "abc" for link in ((x, "h"), ("h", x))}
    (block,) = mst.build(request(hub | {("a", "b"): 1.0, ("b", "a"): 1.0}, "abc")).blocks
    assert set(block.in_edges) == {("b", "a"), ("c", "h", "a")}


@given(rates=overlays())
@settings(max_examples=40)
def test_every_site_reaches_the_root_of_mst_at_the_best_rate_there_is(rates):
    sites = sorted({site for link in rates for site in link})
    (block,) = mst.build(request(rates, sites)).blocks
    best = grow(block.aggregator, rates, lambda cost, link: (max(cost[0], 1.0 / rates[link]),))

    def slowest(tree, site):
        return min(rates[link] for link in itertools.pairwise(_to_root(tree, site)))

    for site in best:
        assert slowest(dict(block.in_edges), site) == slowest(best, site)


def _to_root(tree, site):
    yield site
    while site in tree:
        site = tree[site]
        yield site


# -- blink, toa ---------------------------------------------------------------------------------


def test_blink_packs_a_triangle_with_its_three_paths():
    # Each edge is in two of the three trees, so that each tree gets half of it: 150 in all.
    asked = request(mesh("abc"), "abc", 30)
    found, _ = route_closure(asked)
    trees = blink.pack_trees("a", found, asked.rates_mbps)
    loads = [count_uses(tree, found) for tree in trees]
    assert blink.split_load(loads, asked.rates_mbps, 5) == pytest.approx([50.0] * 3)
    plan = blink.build(asked)
    assert [block.size for block in plan.blocks] == [10, 10, 10]
    assert {frozenset(map(frozenset, block.in_edges)) for block in plan.blocks} == {
        frozenset(map(frozenset, pair)) for pair in itertools.combinations(["ab", "ac", "bc"], 2)
    }


def test_blink_keeps_no_more_trees_than_it_may():
    for most in (1, 2, 5):
        assert 1 <= len(blink.build(request(mesh(), MESH), trees=most).blocks) <= most
    found, _ = route_closure(request(mesh("abc"), "abc"))
    loads = [count_uses(tree, found) for tree in ({"b": "a", "c": "a"}, {"b": "a", "c": "b"})]
    assert sorted(blink.split_load(loads, mesh("abc"), 1)) == pytest.approx([0.0, 100.0])


def test_blink_gives_a_tree_the_rate_of_its_slower_direction():
    rates = {("a", "b"): 30.0, ("b", "a"): 12.0}
    assert blink.split_load([Counter(rates.keys())], rates, 5) == pytest.approx([12.0])


@given(rates=overlays(), data=st.data())
@settings(max_examples=20)
def test_the_trees_of_blink_fit_the_links_together_and_are_no_slower_than_the_best_alone(
    rates, data
):
    sites = sorted({site for link in rates for site in link})
    group = data.draw(st.lists(st.sampled_from(sites), min_size=2, unique=True))
    found, _ = route_closure(request(rates, group))
    loads = [count_uses(tree, found) for tree in blink.pack_trees(group[0], found, rates)]
    weights = blink.split_load(loads, rates, 5)
    assert sum(weight > 0 for weight in weights) <= 5
    assert sum(weights) >= 0.95 * max(pipeline_rate_mbps(load, rates) for load in loads)
    for link, rate in rates.items():
        used = sum(w * load[link] for w, load in zip(weights, loads, strict=True))
        assert used <= rate * (1 + 1e-6)


def test_toa_learns_to_avoid_a_slow_link():
    rates = mesh("abc") | {("a", "b"): 1.0}
    plan = toa.build(request(rates, "abc", 300))
    edges = {frozenset(edge) for block in plan.blocks for edge in block.in_edges}
    assert edges == {frozenset("ac"), frozenset("bc")}


def test_toa_is_decided_by_the_seed_and_never_ends_worse_than_it_began():
    rng = random.Random(5)
    rates = {link: float(rng.randint(20, 200)) for link in mesh("abcdef")}
    for seed in range(5):
        asked = [request(rates, "abcdef", 6000, seed) for _ in range(3)]
        plan = toa.build(asked[0])
        assert plan == toa.build(asked[1])
        begun = toa.build(asked[2], steps=0)
        ends = [max(part_per_link(p, rates).values()) for p in (begun, plan)]
        assert ends[1] < ends[0]


@pytest.mark.parametrize(("group", "steps"), [("ab", 1000), ("abcd", 1600), ("abcdef", 3600)])
def test_toa_searches_for_100_steps_per_member_and_tree_and_for_1000_at_least(group, steps):
    rng = random.Random(6)
    rates = {link: float(rng.randint(20, 200)) for link in mesh("abcdef")}
    plan = toa.build(request(rates, group, 6000))
    assert plan == toa.build(request(rates, group, 6000), steps=steps)


def test_toa_has_as_many_aggregators_as_asked_for():
    assert toa.build(request(mesh(), MESH), steps=0).aggregators() == MESH
    assert len(toa.build(request(mesh(), MESH), steps=0, aggregators=2).aggregators()) == 2
    assert len(toa.build(request(mesh(), ("a", "b")), steps=0, aggregators=4).aggregators()) == 2


# -- all ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["blink", "toa", "star", "bkt", "mst", "fapt"])
def test_links_may_lack_their_reverse(name):
    cycle = dict.fromkeys(itertools.pairwise([*MESH, "a"]), 10.0)
    for group in (("a", "c"), MESH):
        check(registry.plans()[name].build(request(cycle, group)), cycle.keys())


@pytest.mark.parametrize("name", ["blink", "toa", "star", "bkt", "mst", "fapt"])
def test_a_group_of_one_is_refused(name):
    with pytest.raises(PlanError, match="a tree needs at least two sites, got 1"):
        registry.plans()[name].build(request(mesh(), ("a",)))


@pytest.mark.parametrize(
    ("build", "options", "message"),
    [
        (fapt.build, {"roots": 5}, "roots: 5: expected 1 to the number of sites, 4"),
        (star.build, {"server": "z"}, "server: 'z' is not one of root, fastest, slowest, a, b"),
    ],
)
def test_options_out_of_range_are_refused(build, options, message):
    with pytest.raises(PlanError, match=message):
        build(request(mesh(), MESH), **options)


@pytest.mark.parametrize(
    ("build", "options"),
    [
        (fapt.build, {"roots": 2}),
        (fapt.build, {"pull": "reversed"}),
        (mst.build, {"pull": "reversed"}),
        (bkt.build, {"k": 3}),
        (blink.build, {"trees": 2}),
        (toa.build, {"aggregators": 2, "steps": 50}),
        (star.build, {"server": "s0"}),
    ],
)
@given(data=st.data())
@settings(max_examples=25)
def test_other_options_too_give_right_plans_on_any_connected_overlay(build, options, data):
    rates = data.draw(overlays())
    sites = sorted({site for link in rates for site in link})
    group = data.draw(st.lists(st.sampled_from(sites), min_size=2, unique=True))
    plan = build(request(rates, sorted(group), data.draw(st.integers(1, 50))), **options)
    check(plan, rates.keys())


def test_more_roots_beat_one_and_one_beats_the_star_on_the_papers_overlay():
    totals = Counter()
    for seed in range(5):
        rates = internet2.build(random.Random(seed)).rates_mbps()
        sites = sorted({site for link in rates for site in link})
        asked = request(rates, sites, 90)
        plans = {"all": fapt.build(asked), "one": fapt.build(asked, roots=1)}
        plans["star"] = star.build(asked)
        totals.update({name: estimate(p, rates, 1000, 90_000) for name, p in plans.items()})
    assert totals["all"] < totals["one"] < totals["star"]
