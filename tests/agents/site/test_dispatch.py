"""Auxiliary paths in memory: every contribution counts once, on any choice of paths."""

import numpy as np
import pytest
from fabric import CHUNK_BYTES, Fabric, exact, integers, request
from hypothesis import given, settings
from hypothesis import strategies as st
from overlays import overlays

from trunkline.agents import registry
from trunkline.agents.planning.auxiliary_paths import Bounds
from trunkline.agents.planning.plan import Block, Plan
from trunkline.agents.wire.framing import ChunkHeader
from trunkline.agents.wire.messages import Delivered, ProtocolError

DIAMOND = {link: 1.0 for a, b in ("st", "sm", "mt", "sk", "kt") for link in ((a, b), (b, a))}


def bounds(busy, length):
    return st.builds(Bounds, st.integers(0, busy), st.integers(1, length))


@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_chunks_count_once_whoever_switches_to_which_paths_at_any_time(data):
    rates = data.draw(overlays(6, 12))
    fabric = Fabric(rates, data.draw(st.integers(1, 120)), data.draw(st.integers()))
    fabric = Fabric(rates, fabric.elements, fabric.seed, data.draw(bounds(3, 3)))
    name = data.draw(st.sampled_from(["fapt", "star", "mst", "ring", "crew"]))
    plan = registry.plans()[name].build(request(fabric, fabric.sites))
    models = integers(fabric.sites, fabric.elements, 5)
    weights = dict.fromkeys(fabric.sites, 1.0)
    versions = [rates, {link: float(1 + n % 7) for n, link in enumerate(rates)}]
    for site in data.draw(st.lists(st.sampled_from(fabric.sites))):
        fabric.switch(site, data.draw(st.sampled_from(versions)))
    fabric.tell(3, plan, weights, 1.0, models)
    for site in data.draw(st.lists(st.sampled_from(fabric.sites), max_size=9)):
        fabric.deliver(data.draw(st.integers(1, 30)))
        fabric.switch(site, data.draw(st.sampled_from(versions)))
    fabric.deliver()
    wanted = exact(models, weights, 1.0)
    assert {site for site, _ in fabric.results} == set(fabric.sites)
    for result in fabric.results.values():
        np.testing.assert_array_equal(result, wanted)
    planned, routed = {}, {}
    for block in plan.blocks:
        for edge in (*block.in_edges, *block.out_edges):
            pair = edge[0], edge[-1]
            planned[pair] = planned.get(pair, 0) + block.size
    for site, executor in fabric.executors.items():
        for path, (size, chunks) in executor.dispatch.pop_routes(3).items():
            assert path[0] == site
            assert size <= chunks * CHUNK_BYTES
            routed[site, path[-1]] = routed.get((site, path[-1]), 0) + chunks
    assert routed == planned


def pair(bounds, chunks=8):
    """s sends t its model, and both keep it."""
    fabric = Fabric(DIAMOND, 4 * chunks, 1, bounds)
    fabric.switch("s", DIAMOND)
    plan = Plan(("s",), ("t",), chunks, (Block(((0, chunks),), "s", (), (("s", "t"),)),))
    return fabric, plan, integers("s", 4 * chunks, 5)


def waiting(fabric):
    """Chunks in the queues of links, as (link, chunk, path)."""
    return {
        (*link, frame.chunk.chunk, "".join(fabric.sites[rank] for rank in frame.chunk.route))
        for link, each in fabric.links.items()
        for frame in each.queue
        if frame.chunk
    }


def test_a_chunk_on_an_auxiliary_path_carries_it_whole_and_relays_go_by_it():
    fabric, plan, models = pair(Bounds(1, 1), 4)
    fabric.rng.shuffle = lambda sites: sites.sort()
    fabric.rng.randrange = lambda _: 0
    fabric.tell(1, plan, {"s": 1.0}, 1.0, models)
    queued = {("s", "t", 0, ""), ("s", "t", 1, ""), ("s", "k", 2, "skt"), ("s", "m", 3, "smt")}
    assert waiting(fabric) == queued
    for site in "smkt":
        fabric.switch(site, {("t", "s"): 1.0})  # nothing that is known now leads to t
    moved = fabric.deliver()
    assert moved["k", "t"] == moved["s", "k"] == moved["m", "t"] == CHUNK_BYTES
    np.testing.assert_array_equal(fabric.results["t", 1], models["s"])
    assert fabric.executors["s"].dispatch.pop_routes(1) == {
        ("s", "t"): (2 * CHUNK_BYTES, 2),
        ("s", "k", "t"): (CHUNK_BYTES, 1),
        ("s", "m", "t"): (CHUNK_BYTES, 1),
    }


def test_what_is_queued_at_a_relay_keeps_the_path_full_until_it_has_arrived():
    fabric, plan, models = pair(Bounds(0, 1), 9)
    fabric.rng.shuffle = lambda sites: sites.sort()
    fabric.rng.randrange = lambda _: 0
    order = [("s", "m"), ("s", "k"), ("s", "t"), ("m", "t"), ("k", "t")]
    fabric.rng.choice = lambda ready: min(ready, key=order.index)
    fabric.tell(1, plan, {"s": 1.0}, 1.0, models)
    fabric.deliver(6)
    # Both relays hold one chunk; meanwhile four have gone straight.
    assert {key[:2] for key in waiting(fabric)} == {("s", "t"), ("m", "t"), ("k", "t")}
    assert fabric.executors["s"].dispatch.pop_routes(1)["s", "t"] == (4 * CHUNK_BYTES, 4)


def test_a_path_has_room_again_when_its_chunk_has_arrived():
    fabric, plan, models = pair(Bounds(0, 1), 60)
    fabric.tell(1, plan, {"s": 1.0}, 1.0, models)
    fabric.deliver()
    routed = fabric.executors["s"].dispatch.pop_routes(1)
    assert all(routed[path][1] > 1 for path in (("s", "k", "t"), ("s", "m", "t")))


def test_a_task_that_is_given_up_leaves_no_path_full():
    fabric, plan, models = pair(Bounds(0, 1), 9)
    fabric.tell(1, plan, {"s": 1.0}, 1.0, models)
    for executor in fabric.executors.values():
        executor.end_task(1)
    assert waiting(fabric) == set()
    fabric.tell(2, plan, {"s": 1.0}, 1.0, models)
    assert len(fabric.executors["s"].dispatch.pop_routes(2)) <= 3
    fabric.deliver()
    np.testing.assert_array_equal(fabric.results["t", 2], models["s"])


def header(*route, auxiliary=True):
    return ChunkHeader(False, 1, 0, 0, 2, route, False, CHUNK_BYTES, auxiliary=auxiliary)


@pytest.mark.parametrize("route", [(), (2, 0), (1, 0, 3), (2, 0, 1, 0, 3), (2, 9, 3), (0, 3)])
def test_an_auxiliary_path_that_does_not_lead_here_is_refused(route):
    at_t = Fabric(DIAMOND, 4, 1, Bounds()).executors["t"]  # ranks: k 0, m 1, s 2, t 3
    at_t.allocate(header(2, 0, 3))
    with pytest.raises(ProtocolError):
        at_t.allocate(header(*route))


def test_word_of_a_chunk_that_never_came_this_way_is_refused():
    at_k = Fabric(DIAMOND, 4, 1, Bounds()).executors["k"].dispatch
    at_k.on_delivered(Delivered((2, 0, 3), 1, False, 0, 0))
    for path in ((2, 1, 3), (2, 1, 0)):
        with pytest.raises(ProtocolError):
            at_k.on_delivered(Delivered(path, 1, False, 0, 0))
