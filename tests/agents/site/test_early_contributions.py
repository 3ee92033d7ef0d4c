"""Contributions that are sent early: which of them a site keeps, takes in and forgets."""

import random

import numpy as np
import pytest
from fabric import CHUNK_BYTES, Fabric, exact, integers, request
from hypothesis import given, settings
from hypothesis import strategies as st

from trunkline.agents.planning.plan import Block, Plan, send_on_whole
from trunkline.agents.planning.rearrange import keep_split
from trunkline.agents.planning.site_plan import parts_of
from trunkline.agents.plans import crew
from trunkline.agents.site.early_contributions import Offers
from trunkline.agents.wire.framing import ChunkHeader

MESH = {(a, b): 1.0 for a in "abcde" for b in "abcde" if a != b}
SOURCE = 3
TO_OTHERS = (("c", "a"), ("c", "d"))


def offered(*numbers):
    """The offers of one site, with one chunk each."""
    offers = Offers()
    for number in numbers:
        header = ChunkHeader(True, number, 0, 0, SOURCE, (), True, 4, early=True)
        offers.hold(header, np.zeros(1, np.float32))
    return offers


def test_an_offer_that_is_not_needed_any_more_is_taken_in_by_no_task():
    offers = offered(1)
    offers.spend([(SOURCE, 1)])
    offers.adopt(7, {SOURCE: 1})
    assert offers.of(7) == []
    offers.adopt(8, {SOURCE: 2})
    assert offers.of(8) == [(SOURCE, 2)]


def test_a_newer_offer_makes_older_ones_obsolete_but_not_those_of_tasks():
    offers = offered(1, 2)
    offers.adopt(7, {SOURCE: 1})
    assert offers.superseded((SOURCE, 3)) == [(SOURCE, 2)]
    assert offers.superseded((SOURCE, 1)) == []
    assert offers.superseded((SOURCE + 1, 9)) == []


def default_split(fabric):
    return crew.default(request(fabric, fabric.sites))


@given(
    n=st.integers(2, 6),
    elements=st.integers(1, 90),
    seed=st.integers(0, 10**6),
    pipelined=st.booleans(),
    data=st.data(),
)
@settings(max_examples=300)
def test_early_contributions_give_the_weighted_sums_of_task_after_task(
    n, elements, seed, pipelined, data
):
    """Every site offers as soon as it can, and again once it has a result or gives up."""
    sites = [f"s{i}" for i in range(n)]
    rng = random.Random(seed)
    rates = {(a, b): rng.uniform(1, 9) for a in sites for b in sites if a != b}
    fabric = Fabric(rates, elements, seed)
    default = default_split(fabric)
    offers, models = {}, {}

    def offer(site):
        offers[site] = offers.get(site, 0) + 1
        models[site] = integers([site], elements, [seed, offers[site]])[site]
        fabric.executors[site].offer(offers[site], models[site], parts_of(default, site))

    for site in fabric.sites:
        offer(site)
        fabric.deliver(rng.randrange(30))
    for task in range(data.draw(st.integers(1, 4))):
        group = tuple(sorted(data.draw(st.sets(st.sampled_from(fabric.sites), min_size=2))))
        weights = {site: float(rng.randint(1, 9)) for site in group}
        build = crew.build if pipelined else send_on_whole(crew.build)
        plan = keep_split(default, build(request(fabric, group)))
        used = {site: offers[site] for site in group}
        fabric.tell(task, plan, weights, 0.5, models, used)
        dropped = data.draw(st.booleans())
        fabric.deliver(rng.randrange(60) if dropped else None)
        if not dropped:
            for site in group:
                np.testing.assert_array_equal(
                    fabric.results[site, task], exact({s: models[s] for s in group}, weights, 0.5)
                )
        for site in rng.sample(fabric.sites, n):
            fabric.executors[site].end_task(task)
            if site in group:
                offer(site)
            fabric.deliver(rng.randrange(30))
    fabric.deliver()
    latest = set(offers.items())
    for site in fabric.sites:
        held = fabric.executors[site]._offers.held
        assert {(fabric.sites[source], number) for source, number in held} <= latest


def test_what_the_default_split_sent_right_is_not_sent_again_and_the_rest_is_counted():
    fabric = Fabric({**MESH, ("a", "d"): 0.25}, 100 * CHUNK_BYTES // 4)
    default = default_split(fabric)
    plan = keep_split(default, crew.build(request(fabric, ("b", "c"))))
    models = integers("bc", fabric.elements, 0)
    for site in "bc":
        fabric.executors[site].offer(1, models[site], parts_of(default, site))
    fabric.deliver()
    fabric.tell(0, plan, {"b": 1.0, "c": 1.0}, 1.0, models, {"b": 1, "c": 1})
    fabric.deliver()
    np.testing.assert_array_equal(fabric.results["b", 0], models["b"] + models["c"])
    before = {block.aggregator: block.size for block in default.blocks}
    shrunk = {block.aggregator: before[block.aggregator] - block.size for block in plan.blocks}
    assert shrunk["d"] < 0 < shrunk["e"]
    books = {site: fabric.executors[site].end_task(0)[2] for site in fabric.sites}
    discarded = {
        (site, source): traffic.bytes
        for site, book in books.items()
        for source, traffic in book.items()
    }
    assert discarded["e", ("b", "early")] == shrunk["e"] * CHUNK_BYTES
    needed = sum(block.size * len(block.in_edges) for block in plan.blocks) * CHUNK_BYTES
    assert fabric.inward_bytes == needed + sum(discarded.values())


def test_chunks_of_an_offer_that_a_site_refuses_are_sent_to_the_others_only():
    """A task that asks the refusing site all the same gets what it needs again."""
    fabric = Fabric(MESH, 100 * CHUNK_BYTES // 4)
    default = default_split(fabric)
    models = integers("bc", fabric.elements, 0)
    for site in "bc":
        fabric.executors[site].offer(1, models[site], parts_of(default, site))
    fabric.deliver(9)
    fabric.executors["b"].withdraw(1, "a")
    fabric.executors["b"].withdraw(0, "d")
    fabric.deliver()
    held = {
        site: len(executor._offers.held.get((executor._local.rank["b"], 1), {}))
        for site, executor in fabric.executors.items()
    }
    sizes = {block.aggregator: block.size for block in default.blocks}
    assert held["a"] < sizes["a"]
    assert {site: held[site] for site in "cde"} == {site: sizes[site] for site in "cde"}
    plan = keep_split(default, crew.build(request(fabric, ("b", "c"))))
    fabric.tell(0, plan, {"b": 1.0, "c": 1.0}, 1.0, models, {"b": 1, "c": 1})
    fabric.deliver()
    np.testing.assert_array_equal(fabric.results["b", 0], models["b"] + models["c"])


@pytest.mark.parametrize(("refuses", "kept"), [("b", set()), ("c", {"b"}), ("x", {"b", "c"})])
def test_no_chunk_of_an_offer_goes_to_or_through_a_site_that_refuses_it(refuses, kept):
    """The way from a to c leads over b."""
    fabric = Fabric({("a", "b"): 1.0, ("b", "a"): 1.0, ("b", "c"): 1.0, ("c", "b"): 1.0}, 40)
    chunks = fabric.executors["a"]._local.cut.count
    blocks = (
        Block(((0, 3),), "b", (("a", "b"), ("c", "b")), (("b", "a"), ("b", "c"))),
        Block(((3, chunks),), "c", (("a", "b", "c"), ("b", "c")), (("c", "b"), ("c", "b", "a"))),
    )
    split = Plan(("a", "b", "c"), ("a", "b", "c"), chunks, blocks)
    model = integers("a", fabric.elements, 0)["a"]
    fabric.executors["a"].offer(1, model, parts_of(split, "a"))
    fabric.executors["a"].withdraw(1, refuses)
    fabric.deliver()
    has = {site for site in "bc" if fabric.executors[site]._offers.held}
    assert has == kept


def test_an_offer_that_is_taken_back_is_not_sent_and_superseded_by_the_next():
    fabric = Fabric(MESH, 20 * CHUNK_BYTES // 4)
    default = default_split(fabric)
    models = integers("ab", fabric.elements, 0)
    a = fabric.executors["a"]
    a.offer(1, models["a"], parts_of(default, "a"))
    fabric.deliver(3)
    a.take_back()
    assert not fabric.deliver()
    a.offer(2, models["a"], parts_of(default, "a"))
    fabric.executors["b"].offer(1, models["b"], parts_of(default, "b"))
    fabric.deliver()
    plan = keep_split(default, crew.build(request(fabric, ("a", "b"))))
    fabric.tell(0, plan, {"a": 1.0, "b": 1.0}, 1.0, models, {"a": 2, "b": 1})
    fabric.deliver()
    np.testing.assert_array_equal(fabric.results["b", 0], models["a"] + models["b"])


def test_an_offer_that_a_task_has_taken_in_is_sent_although_another_task_begins_without_it():
    fabric = Fabric(MESH, 20 * CHUNK_BYTES // 4)
    default = default_split(fabric)
    models = integers("abc", fabric.elements, 0)
    for site in "ab":
        fabric.executors[site].offer(1, models[site], parts_of(default, site))
    weights = dict.fromkeys("abc", 1.0)
    fabric.deliver = lambda frames=None: None  # the links send nothing yet
    for task, pair, used in ((0, ("a", "b"), {"a": 1, "b": 1}), (1, ("a", "c"), {})):
        plan = keep_split(default, crew.build(request(fabric, pair)))
        fabric.tell(task, plan, weights, 1.0, models, used)
    del fabric.deliver
    fabric.deliver()
    np.testing.assert_array_equal(fabric.results["b", 0], models["a"] + models["b"])
    np.testing.assert_array_equal(fabric.results["c", 1], models["a"] + models["c"])


def test_offers_that_a_site_refuses_are_dropped_and_the_next_ones_are_kept():
    fabric = Fabric(MESH, 20 * CHUNK_BYTES // 4)
    default = default_split(fabric)
    models = integers("ab", fabric.elements, 0)
    a, b = fabric.executors["a"], fabric.executors["b"]
    b.offer(1, models["b"], parts_of(default, "b"))
    fabric.deliver()
    a.refuse_offers()
    assert not a._offers.held
    b.offer(2, models["b"], parts_of(default, "b"))
    fabric.deliver()
    assert a._offers.held.keys() == {(fabric.sites.index("b"), 2)}


def test_a_task_that_does_not_know_of_an_offer_gets_all_of_the_contribution():
    fabric = Fabric(MESH, 20 * CHUNK_BYTES // 4)
    default = default_split(fabric)
    models = integers("ab", fabric.elements, 0)
    for site in "ab":
        fabric.executors[site].offer(7, models[site], parts_of(default, site))
    fabric.deliver(10)
    plan = crew.build(request(fabric, ("a", "b")))
    fabric.tell(0, plan, {"a": 1.0, "b": 1.0}, 1.0, models)
    fabric.deliver()
    np.testing.assert_array_equal(fabric.results["a", 0], models["a"] + models["b"])


def test_a_site_does_not_finish_while_a_link_still_sends_its_offer():
    """Its model would change under the link; all else has arrived, even the result."""
    fabric = Fabric({("a", "b"): 1.0, ("b", "a"): 1.0}, 2 * CHUNK_BYTES // 4)
    default, models = default_split(fabric), integers("ab", 2 * CHUNK_BYTES // 4, 0)
    sending, put = [], fabric.links["a", "b"].put
    fabric.links["a", "b"].put = sending.append
    fabric.executors["a"].offer(1, models["a"], parts_of(default, "a"))
    fabric.executors["b"].offer(1, models["b"], parts_of(default, "b"))
    fabric.links["a", "b"].put = put
    (frame,) = sending
    fabric._receive(("a", "b"), frame.header + bytes(frame.payload))
    plan = keep_split(default, crew.build(request(fabric, ("a", "b"))))
    fabric.tell(0, plan, {"a": 1.0, "b": 1.0}, 1.0, models, {"a": 1, "b": 1})
    fabric.deliver()
    assert fabric.results.keys() == {("b", 0)}
    frame.sent(0, 0)
    np.testing.assert_array_equal(fabric.results["a", 0], models["a"] + models["b"])


@given(seed=st.integers(0, 10**6), early=st.integers(0, 40))
@settings(max_examples=40)
def test_a_contribution_that_comes_early_and_by_another_way_of_the_plan_counts_once(seed, early):
    """The default way from a to c leads over b, that of the plan does not."""
    fabric = Fabric(MESH, 8 * CHUNK_BYTES // 4, seed)
    count, group = fabric.cut.count, ("a", "c", "d")
    default, plan = (
        Plan(group, group, count, (Block(((0, count),), "c", (way, ("d", "c")), TO_OTHERS),))
        for way in (("a", "b", "c"), ("a", "c"))
    )
    models = integers("acd", fabric.elements, 0)
    fabric.executors["a"].offer(1, models["a"], parts_of(default, "a"))
    fabric.deliver(early)
    fabric.tell(0, plan, dict.fromkeys(group, 1.0), 1.0, models, {"a": 1})
    fabric.deliver()
    for site in group:
        np.testing.assert_array_equal(fabric.results[site, 0], sum(models.values()))
