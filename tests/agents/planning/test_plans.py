"""Every plan builder, found by its file's name, is proved right on random overlays."""

import inspect
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from overlays import MESH, mesh, overlays, request

from trunkline.agents import registry
from trunkline.agents.planning.bound import SmallestCuts
from trunkline.agents.planning.fluid.completion_times import estimate, simulate
from trunkline.agents.planning.fluid.fluid_tasks import FluidTask
from trunkline.agents.planning.plan import Block, Plan, PlanError, check, send_on_whole, split
from trunkline.agents.planning.routes import routes
from trunkline.agents.plans import a2a, crew, opr, ps, ring


@pytest.mark.parametrize("name", sorted(registry.plans()))
@given(data=st.data())
@settings(max_examples=60)
def test_any_plan_on_any_connected_overlay_is_right_or_refused_with_a_reason(name, data):
    rates = data.draw(overlays())
    sites = sorted({site for link in rates for site in link})
    group = data.draw(st.lists(st.sampled_from(sites), min_size=1, unique=True))
    count = data.draw(st.integers(1, 50))
    plan, reason = None, ""
    build = registry.plans()[name].build
    if data.draw(st.booleans()):
        build = send_on_whole(build)
    try:
        plan = build(request(rates, sorted(group), count))
    except PlanError as refusal:
        reason = str(refusal)
    if plan is None:
        assert reason
        return
    check(plan, rates.keys())
    assert Plan.from_json(plan.to_json()) == plan
    low = SmallestCuts(rates).bound(plan, 1000 * count)
    assert low <= estimate(plan, rates, 1000, 1000 * count) * (1 + 1e-3)


@pytest.mark.parametrize("name", sorted(registry.plans()))
def test_every_plan_accepts_a_pair_on_a_full_mesh(name):
    plan = registry.plans()[name].build(request(mesh(), ("a", "b")))
    check(plan, mesh().keys())


@pytest.mark.parametrize("name", sorted(registry.plans()))
def test_every_plan_has_a_docstring_and_only_defaulted_options(name):
    module = registry.plans()[name]
    assert module.__doc__
    options = list(inspect.signature(module.build).parameters.values())[1:]
    assert all(o.kind is o.KEYWORD_ONLY and o.default is not o.empty for o in options)


def test_homogeneous_mesh_gives_the_ratios_of_the_paper():
    sites = tuple(f"s{i}" for i in range(8))
    rates, group = mesh(sites), ("s0", "s1", "s2", "s3")
    seconds = {
        name: estimate(module.build(request(rates, group, 1600)), rates, 1000, 1600 * 1000)
        for name, module in {"crew": crew, "opr": opr, "ps": ps, "ring": ring, "a2a": a2a}.items()
    }
    one = 1600 * 1000 * 8e-8
    assert seconds["a2a"] == pytest.approx(one, rel=0.01)
    assert seconds["ps"] == pytest.approx(one, rel=0.01)
    # Pipelined: a member's link to another member carries one block in and one block out.
    assert seconds["crew"] == pytest.approx(one * 2 / 8, rel=0.02)
    assert seconds["opr"] == pytest.approx(one * 2 / 4, rel=0.02)
    assert seconds["ring"] == pytest.approx(one * 2 * 3 / 4, rel=0.02)


def test_crew_shares_follow_the_slowest_link_to_the_group():
    rates = mesh(("a", "b", "c"), 100.0) | {("a", "c"): 50.0}
    shares = crew.solve_shares(("a", "b", "c"), ("a", "b"), rates)
    assert sum(shares.values()) == pytest.approx(1.0)
    assert shares["a"] == pytest.approx(shares["b"])
    assert shares["c"] < shares["a"]


def test_pipelined_crew_gives_sites_outside_the_group_twice_as_much_where_links_are_alike():
    sites = tuple(f"s{i}" for i in range(8))
    rates, group = mesh(sites), ("s0", "s1", "s2", "s3")
    shares = crew.solve_pipelined(sites, group, rates)
    assert shares == pytest.approx({s: (1 if s in group else 2) / 12 for s in sites})
    plan = crew.build(request(rates, group, 1600), split="pipelined")
    one = 1600 * 1000 * 8e-8
    assert estimate(plan, rates, 1000, 1600 * 1000) == pytest.approx(one / 6, rel=0.02)


def test_by_the_paper_s_rule_crew_gives_no_share_to_a_site_that_lacks_a_link_to_a_member():
    rates = mesh()
    del rates["a", "d"], rates["d", "a"]
    plan = crew.build(request(rates, ("a", "b")), hubs="direct")
    assert plan.aggregators() == ("a", "b", "c")


def test_crew_lets_sites_without_direct_links_aggregate_where_that_is_faster():
    # Only the hub has direct links to all three; the ring around it is ten times as fast.
    rates = mesh(("h", "a", "b", "c"), 100.0)
    rates |= {pair: 10.0 for pair in rates if "h" in pair}
    del rates["a", "c"], rates["c", "a"]
    seconds = {
        hubs: estimate(
            crew.build(request(rates, ("a", "b", "c", "h"), 400), hubs=hubs), rates, 1000, 400_000
        )
        for hubs in ("routed", "direct")
    }
    assert seconds["routed"] < 0.9 * seconds["direct"]


def share_times(hubs, group, shares, rates):
    """T_scatter + T_multicast of stars over source routes, from what each hop carries."""
    found = routes([p for h in hubs for s in group if s != h for p in ((s, h), (h, s))], rates)
    total = 0.0
    for inward in (True, False):
        load = {}
        for hub in hubs:
            for site in group:
                pair = (site, hub) if inward else (hub, site)
                for hop in pairwise(found[pair]) if site != hub else ():
                    load[hop] = load.get(hop, 0.0) + shares.get(hub, 0.0)
        total += max(carried / rates[hop] for hop, carried in load.items())
    return total


@given(data=st.data())
@settings(max_examples=60)
def test_routed_hubs_are_never_slower_than_those_of_the_paper_by_the_linear_program(data):
    rates = data.draw(overlays())
    sites = tuple(sorted({site for link in rates for site in link}))
    group = tuple(sorted(data.draw(st.lists(st.sampled_from(sites), min_size=2, unique=True))))
    times = {}
    for hubs in ("routed", "direct"):
        plan = crew.build(request(rates, group, 10**7), hubs=hubs)
        shares = {block.aggregator: block.size / 10**7 for block in plan.blocks}
        times[hubs] = share_times(sites, group, shares, rates)
    assert times["routed"] <= times["direct"] * 1.001  # shares are whole chunks


def test_where_all_links_are_direct_both_rules_give_the_same_plan():
    rates = {pair: 10.0 + n for n, pair in enumerate(mesh())}
    for split_ in ("aware", "even", "pipelined"):
        built = (
            crew.build(request(rates, ("a", "b", "c")), split=split_, hubs=hubs)
            for hubs in ("routed", "direct")
        )
        first, second = built
        assert first == second


def test_crew_uses_source_routes_when_no_site_reaches_the_whole_group():
    line = dict.fromkeys(map(tuple, ("ab", "bc", "cd", "ba", "cb", "dc")), 10.0)
    plan = crew.build(request(line, ("a", "d")))
    check(plan, line.keys())
    assert ("a", "b", "c", "d") in plan.blocks[-1].in_edges


def test_ps_chooses_the_site_with_the_largest_average_rate_even_outside_the_group():
    rates = mesh() | {("d", x): 200.0 for x in "abc"}
    assert ps.build(request(rates, ("a", "b"))).blocks[0].aggregator == "d"


def test_ring_goes_on_to_the_largest_rate():
    rates = mesh(rate=10.0) | {("a", "c"): 90.0, ("c", "b"): 80.0, ("b", "d"): 70.0}
    for seed in range(20):
        plan = ring.build(request(rates, MESH, seed=seed))
        order = [block.aggregator for block in plan.blocks]
        if order[0] == "a":
            assert order == ["a", "c", "b", "d"]
            return
    raise AssertionError("no seed started the ring at a")


def test_split_lands_every_chunk_once_and_follows_the_shares():
    assert split({"a": 0.5, "b": 0.25, "c": 0.25}, 8) == {
        "a": ((0, 4),),
        "b": ((4, 6),),
        "c": ((6, 8),),
    }
    assert split({"a": 0.9, "b": 0.0, "c": 0.1}, 3) == {"a": ((0, 3),)}


def test_routes_take_the_direct_link_or_the_fastest_path():
    rates = {("a", "b"): 1.0, ("a", "c"): 100.0, ("c", "d"): 100.0, ("b", "d"): 100.0}
    assert routes([("a", "b"), ("a", "d")], rates) == {
        ("a", "b"): ("a", "b"),
        ("a", "d"): ("a", "c", "d"),
    }
    with pytest.raises(PlanError, match="no path from d to a"):
        routes([("d", "a")], rates)


def stars(*blocks, count=2, contributors=("a", "b"), receivers=("a", "b")):
    return Plan(contributors, receivers, count, blocks)


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (stars(Block(((0, 1),), "a", (("b", "a"),), (("a", "b"),))), "a misses chunks 1$"),
        (
            stars(
                Block(((0, 2),), "a", (("b", "a"),), (("a", "b"),)),
                Block(((1, 2),), "b", (("a", "b"),), (("b", "a"),)),
            ),
            r"a gets chunks 1 more than once",
        ),
        (stars(Block(((0, 2),), "a", (), (("a", "b"),))), "its sum lacks b"),
        (
            stars(Block(((0, 2),), "a", (("b", "a"), ("c", "a")), (("a", "b"),))),
            "c is in the in-tree and has nothing to send",
        ),
        (stars(Block(((0, 2),), "a", (("b", "a"),), (("a", "b"), ("a", "b")))), "reaches b twice"),
        (
            stars(Block(((0, 2),), "a", (("b", "c"), ("c", "b")), (("a", "b"),))),
            "the in-tree has a cycle",
        ),
        (
            stars(Block(((0, 2),), "a", (("b", "a"), ("b", "c"), ("c", "a")), (("a", "b"),))),
            "b has two parents",
        ),
        (
            stars(Block(((0, 2),), "a", (("b", "a"),), (("c", "b"), ("b", "c")))),
            "does not reach b, c from its root",
        ),
        (stars(Block(((0, 2),), "z", (("a", "z"), ("b", "z")), (("z", "a"),))), "no link a -> z"),
        (stars(Block(((0, 3),), "a", (("b", "a"),), (("a", "b"),))), "out of order or of bounds"),
        (stars(Block((), "a", (("b", "a"),), (("a", "b"),))), "has no chunks"),
        (stars(Block(((0, 2),), "a", (("b", "a", "b"),), ())), "not a simple path"),
        (stars(contributors=()), "at least one contributor"),
    ],
)
def test_check_names_what_is_wrong_with_a_plan(plan, message):
    with pytest.raises(PlanError, match=message):
        check(plan, mesh().keys())


def test_bound_is_the_smallest_cut():
    # Into b: 30 + 20; out of a: 30 + 20; the other way round 10 + 10.
    rates = {("a", "b"): 30.0, ("b", "a"): 10.0, ("a", "c"): 20.0, ("c", "a"): 10.0}
    rates |= {("b", "c"): 10.0, ("c", "b"): 40.0}
    plan = a2a.build(request(rates, ("a", "b"), 10))
    assert SmallestCuts(rates).bound(plan, 1_000_000) == pytest.approx(8 / 20)


def test_estimate_counts_store_and_forward_per_chunk_and_delays():
    rates = {("a", "b"): 8.0, ("b", "c"): 8.0, ("c", "b"): 8.0, ("b", "a"): 8.0}
    route = ("a", "b", "c")
    plan = Plan(("a",), ("c",), 2, (Block(((0, 2),), "c", (route,), ()),))
    assert estimate(plan, rates, 1_000_000, 2_000_000) == pytest.approx(3.0)
    assert estimate(plan, rates, 1_000_000, 1_500_000) == pytest.approx(2.5 - 0.0)
    delays = dict.fromkeys(rates, 100.0)
    assert estimate(plan, rates, 1_000_000, 2_000_000, delays) == pytest.approx(3.2)


def test_simulated_jobs_share_links_first_come_first_served():
    rates = {("a", "b"): 8.0, ("b", "a"): 8.0}
    push = Plan(("a",), ("b",), 1, (Block(((0, 1),), "b", (("a", "b"),), ()),))
    jobs = [
        FluidTask(push, 1_000_000, 1_000_000, start_s=0.5),
        FluidTask(push, 1_000_000, 1_000_000),
    ]
    assert simulate(jobs, rates) == pytest.approx([2.0, 1.0])


@pytest.mark.parametrize(
    ("discipline", "finish_s"),
    [
        ("fcfs", [4.0, 6.0]),
        ("fair", [6.0, 5.0]),  # the second job takes every other turn from 2 s on
        ("task-fcfs", [4.0, 6.0]),
        ("C1", [6.0, 3.0]),  # the second job only pulls, the first only pushes
        ("C2", [4.0, 6.0]),
    ],
)
def test_simulated_jobs_share_links_as_the_discipline_says(discipline, finish_s):
    rates = {("a", "b"): 8.0, ("b", "a"): 8.0}
    push = Plan(("a",), ("b",), 4, (Block(((0, 4),), "b", (("a", "b"),), ()),))
    pull = Plan(("a",), ("b",), 2, (Block(((0, 2),), "a", (), (("a", "b"),)),))
    jobs = [
        FluidTask(push, 4_000_000, 1_000_000),
        FluidTask(pull, 2_000_000, 1_000_000, start_s=0.5),
    ]
    assert simulate(jobs, rates, discipline=discipline) == pytest.approx(finish_s)


EVERY_PLAN = """
import json, random, sys
from overlays import request
from trunkline.agents import registry
sites = "abcdefgh"
dice = random.Random(1)
rates = {(a, b): dice.uniform(1.0, 9.0) for a in sites for b in sites if a != b}
for name, module in sorted(registry.plans().items()):
    print(name, json.dumps(module.build(request(rates, tuple(sites), 500)).to_json()))
"""


def test_no_plan_depends_on_the_routines_that_libraries_choose_for_a_processor():
    made = []
    for core in ("Prescott", "Nehalem", "Haswell"):
        home = str(Path(__file__).parents[2])
        chosen = {"OPENBLAS_CORETYPE": core, "PYTHONPATH": home, "PYTHONHASHSEED": "0"}
        command = [sys.executable, "-c", EVERY_PLAN]
        done = subprocess.run(command, env={**os.environ, **chosen}, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        made.append(done.stdout.splitlines())
    assert [line.split()[0] for line in made[0]] == sorted(registry.plans())
    assert made[1] == made[0]
    assert made[2] == made[0]
