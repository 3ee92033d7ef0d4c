"""Racks that help each other, and the fastest hand-out of small cases."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trunkline.agents.distribution import baselines, owl
from trunkline.agents.distribution.grouping import group_evenly
from trunkline.agents.distribution.handout import SERVER, Cluster, Handout, Transfer, check
from trunkline.agents.distribution.optimum import find_optimum
from trunkline.agents.distribution.step import compute_forward_end, simulate_forward
from trunkline.workloads.layered.model import Base, Branch, LayeredModel

BRANCHES = st.builds(
    Branch, st.just("b"), st.integers(1, 10**6), st.floats(0, 0.2), st.floats(0, 0.2)
)
BASES = st.lists(st.lists(BRANCHES, min_size=1, max_size=2), min_size=1, max_size=2)
MODELS = BASES.map(
    lambda found: LayeredModel(tuple(Base(f"b{n}", tuple(each)) for n, each in enumerate(found)))
)
CLUSTERS = st.builds(
    Cluster,
    racks=st.integers(1, 3),
    workers=st.integers(1, 3),
    intra_mbps=st.floats(20, 200),
    inter_mbps=st.floats(10, 100),
    server_mbps=st.none() | st.floats(10, 500),
)

PAIR = LayeredModel((Base("x", (Branch("a", 625_000, 0, 0), Branch("b", 625_000, 0, 0))),))
"""0.5 s each on 10 Mbit/s."""


def test_racks_that_help_each_other_beat_the_bound_of_those_that_do_not_on_a_shared_uplink():
    """The server sends a to one rack and b to the other, and each passes its own on."""
    cluster = Cluster(2, 1, 10, 10, server_mbps=10)
    assert baselines.compute_bound(PAIR, cluster) == 2.0
    handout = owl.deploy_across(PAIR, cluster)
    assert handout.transfers == (
        Transfer(SERVER, 0, (0, 1)),
        Transfer(0, 1, (0, 1)),
    )
    helped = Handout(2, tuple(Transfer(*each) for each in [
        (SERVER, 0, (0,)), (SERVER, 1, (1,)), (0, 1, (0,)), (1, 0, (1,)),
    ]))  # fmt: skip
    assert compute_forward_end(PAIR, helped, cluster) == 1.5
    assert find_optimum(PAIR, cluster, across=True)[0] == 1.5
    assert find_optimum(PAIR, cluster)[0] == 2.0
    assert baselines.compute_bound(PAIR, cluster, across=True) == 1.0


def test_a_hand_out_that_does_not_keep_the_order_of_bases_may_be_faster():
    """A large last branch that is sent first leaves time for the workers to pass it on."""
    sizes = (85_496, 0.0369), (54_452, 0.0029), (759_548, 0.0151)
    bases = (Base(str(n), (Branch("b", size, s, 0),)) for n, (size, s) in enumerate(sizes))
    model, cluster = LayeredModel(tuple(bases)), Cluster(1, 2, 99.4, 49.7)
    in_order_s, _ = find_optimum(model, cluster)
    any_order_s, _ = find_optimum(model, cluster, in_order=False)
    assert (in_order_s, any_order_s) == pytest.approx((0.221, 0.198), abs=0.001)


def test_between_racks_a_transfer_takes_the_rate_between_racks_and_within_them_that_within():
    """Equation (7): 1 s from the server to rack 0, 1 s to rack 1, and 0.25 s in each."""
    model = LayeredModel((Base("x", (Branch("a", 1_250_000, 0, 0),)),))
    cluster = Cluster(2, 2, intra_mbps=40, inter_mbps=10, server_mbps=100)
    handout = owl.build_across(model, [2, 2], 1, group_evenly)
    assert handout.transfers == (
        Transfer(SERVER, 0, (0,)), Transfer(0, 2, (0,)), Transfer(0, 1, (0,)), Transfer(2, 3, (0,)),
    )  # fmt: skip
    arrived = {each.worker: each.arrived_s for each in simulate_forward(model, handout, cluster)}
    assert arrived == {0: 1.0, 2: 2.0, 1: 1.5, 3: 2.25}


@settings(max_examples=60)
@given(MODELS, CLUSTERS)
def test_across_racks_every_worker_gets_every_branch_and_the_server_sends_each_once(model, cluster):
    handout = owl.deploy_across(model, cluster)
    check(model, handout)
    sent = [b for each in handout.transfers if each.source == SERVER for b in each.branches]
    assert sorted(sent) == [*range(len(model.branches))]
    bound = baselines.compute_bound(model, cluster, across=True)
    assert compute_forward_end(model, handout, cluster) >= bound - 1e-9


def every_handout(model, workers):
    """All hand-outs that send one branch in each message, in every order."""

    def extend(done, held, last):
        if len(done) == workers * len(model.branches):
            yield Handout(workers, tuple(done))
        for target in range(workers):
            for branch, base in enumerate(model.base_of):
                if branch in held[target] or base < last.get(target, 0):
                    continue
                for source, has in held.items():
                    if branch in has and source != target:
                        following = {**held, target: held[target] | {branch}}
                        move = Transfer(source, target, (branch,))
                        yield from extend([*done, move], following, {**last, target: base})

    start = {SERVER: {*range(len(model.branches))}} | {w: set() for w in range(workers)}
    yield from extend([], start, {})


@settings(max_examples=25, deadline=None)
@given(
    st.lists(BRANCHES, min_size=2, max_size=2),
    st.booleans(),
    st.floats(20, 200),
    st.floats(10, 100),
    st.sampled_from([None, 20.0, 80.0]),
    st.sampled_from([(1, 2), (2, 1)]),
)
def test_the_optimum_is_the_best_of_all_handouts(branches, chain, intra, inter, server, shape):
    bases = [Base(str(n), (each,)) for n, each in enumerate(branches)]
    model = LayeredModel(tuple(bases) if chain else (Base("x", tuple(branches)),))
    cluster = Cluster(*shape, intra, inter, server)
    found_s, found = find_optimum(model, cluster, across=True)
    check(model, found)
    assert compute_forward_end(model, found, cluster) == pytest.approx(found_s, abs=1e-9)
    best_s = min(compute_forward_end(model, each, cluster) for each in every_handout(model, 2))
    assert found_s == pytest.approx(best_s, abs=1e-9)


@settings(max_examples=25, deadline=None)
@given(MODELS, CLUSTERS)
def test_the_optimum_lies_between_the_bound_and_owl(model, cluster):
    cluster = replace(cluster, workers=min(cluster.workers, 2))
    optimum_s, _ = find_optimum(model, cluster)
    assert optimum_s >= baselines.compute_bound(model, cluster) - 1e-9
    for count in owl.count_groups(model, cluster.workers):
        handout = owl.build(model, cluster.workers, count, group_evenly, owl.centralize)
        single = [Transfer(t.source, t.target, (b,)) for t in handout.transfers for b in t.branches]
        end_s = compute_forward_end(model, Handout(cluster.workers, tuple(single)), cluster)
        assert optimum_s <= end_s + 1e-9


def test_the_optimum_of_a_large_case_is_refused():
    with pytest.raises(ValueError, match="7 workers, 2 branches: expected 12 transfers or fewer"):
        find_optimum(PAIR, Cluster(1, 7, 10, 10))
