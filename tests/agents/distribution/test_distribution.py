"""Hand-outs of a model in a rack: grouping, deployment, constraints, and the time of a step."""

import random
from collections import Counter
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trunkline.agents.distribution import baselines, owl
from trunkline.agents.distribution.grouping import group_evenly, group_randomly
from trunkline.agents.distribution.handout import (
    SERVER,
    Cluster,
    Handout,
    HandoutError,
    Transfer,
    check,
)
from trunkline.agents.distribution.step import compute_forward_end, simulate_forward
from trunkline.workloads.layered.model import Base, Branch, LayeredModel, load

DEPLOYMENTS = (owl.centralize, owl.decentralize, owl.centralize_unevenly, owl.unbalance)
SIZES = st.lists(st.integers(1, 1000), min_size=1, max_size=7)
BRANCHES = st.builds(
    Branch, st.just("b"), st.integers(1, 10**6), st.floats(0, 0.2), st.floats(0, 0.2)
)


def models(widest):
    """Models of at most `widest` bases with at most as many branches."""
    bases = st.lists(st.lists(BRANCHES, min_size=1, max_size=widest), min_size=1, max_size=widest)
    return bases.map(
        lambda found: LayeredModel(
            tuple(Base(f"base{index}", tuple(each)) for index, each in enumerate(found))
        )
    )


CLUSTERS = st.builds(
    Cluster,
    racks=st.integers(1, 5),
    workers=st.integers(1, 5),
    intra_mbps=st.floats(20, 200),
    inter_mbps=st.floats(10, 100),
    server_mbps=st.none() | st.floats(10, 500),
    startup_s=st.sampled_from([0.0, 0.01, 0.05]),
)
"""Up to 5 workers; a branch takes up to 0.8 s on the slowest link."""


def handouts(model, cluster):
    """Every way in which this room hands a model out."""
    shuffle = partial(group_randomly, random.Random(1))
    yield baselines.naive(model, cluster)
    yield baselines.overlap(model, cluster)
    yield baselines.ipart(model, cluster)
    yield owl.deploy(model, cluster)
    yield owl.deploy_by_prediction(model, cluster)
    for count in owl.count_groups(model, cluster.workers):
        for grouping in (group_evenly, shuffle):
            for deployment in DEPLOYMENTS:
                yield owl.build(model, cluster.workers, count, grouping, deployment)


def find_optimum(sizes, count):
    """The smallest possible size of the largest of `count` groups, by trying all groupings."""

    def place(index, totals):
        if index == len(sizes):
            return max(totals)
        used = [*range(len(totals))]
        options = [[*totals[:i], totals[i] + sizes[index], *totals[i + 1 :]] for i in used]
        if len(totals) < count:
            options.append([*totals, sizes[index]])
        return min(place(index + 1, option) for option in options)

    return place(0, [])


@settings(max_examples=1000)
@given(SIZES, st.data())
def test_the_largest_group_is_within_the_proven_bound_of_the_optimum(sizes, data):
    count = data.draw(st.integers(1, len(sizes)))
    groups = group_evenly(sizes, count)
    assert sorted(index for group in groups for index in group) == [*range(len(sizes))]
    assert len(groups) == count and all(groups)
    largest = max(sum(sizes[index] for index in group) for group in groups)
    assert 2 * count * largest <= (3 * count - 1) * find_optimum(sizes, count)


def test_the_largest_branch_goes_into_the_smallest_group():
    assert group_evenly([7, 9, 3, 4], 2) == ((1, 2), (0, 3))


def test_a_random_grouping_has_every_branch_and_no_empty_group():
    for seed in range(50):
        groups = group_randomly(random.Random(seed), [5, 5, 5, 5], 3)
        assert sorted(index for group in groups for index in group) == [0, 1, 2, 3]
        assert all(groups)


@settings(max_examples=60)
@given(models(4), CLUSTERS)
def test_in_every_handout_each_worker_gets_each_branch_once_and_passes_on_only_what_it_has(
    model, cluster
):
    for handout in handouts(model, cluster):
        check(model, handout)
        held = {SERVER: {*range(len(model.branches))}} | {w: set() for w in range(cluster.workers)}
        for transfer in handout.transfers:
            assert held[transfer.source].issuperset(transfer.branches)
            held[transfer.target].update(transfer.branches)
        got = Counter((each.target, b) for each in handout.transfers for b in each.branches)
        assert set(got.values()) == {1}
        assert len(got) == cluster.workers * len(model.branches)


@pytest.mark.parametrize("deployment", [owl.centralize, owl.centralize_unevenly, owl.unbalance])
@settings(max_examples=60)
@given(models(4), CLUSTERS)
def test_only_the_decentralized_deployment_takes_the_model_into_the_rack_more_than_once(
    deployment, model, cluster
):
    for count in owl.count_groups(model, cluster.workers):
        handout = owl.build(model, cluster.workers, count, group_evenly, deployment)
        pulled = [b for each in handout.transfers if each.source == SERVER for b in each.branches]
        assert sorted(pulled) == [*range(len(model.branches))]


def test_in_uneven_groups_one_worker_holds_a_group_alone_and_sends_it_to_all_others():
    moves = [(each.source, each.target) for each in owl.centralize_unevenly(4, ((0,), (1,)))]
    pulls, broadcast = [(SERVER, 0), (SERVER, 3)], [(0, 1), (0, 2)]
    assert moves == [*pulls, *broadcast, (0, 3), (3, 0), (3, 1), (3, 2)]


TWO = LayeredModel(
    (
        Base("x", (Branch("a", 500_000, 0.1, 0.2), Branch("b", 250_000, 0.2, 0.4))),
        Base("y", (Branch("c", 125_000, 0.3, 0.6),)),
    )
)
"""0.4, 0.2 and 0.1 s on 10 Mbit/s."""


@pytest.mark.parametrize(
    ("transfers", "said"),
    [
        ([(SERVER, 0, (0, 1, 2)), (0, 1, (0, 1, 2))], None),
        ([(0, 1, (0, 1, 2)), (SERVER, 0, (0, 1, 2))], r"the source has not received all of it \(9"),
        ([(SERVER, 0, (0, 1, 2)), (SERVER, 1, (0, 1))], r"worker 1 misses branches \[2\]"),
        ([(SERVER, 0, (0, 1, 2)), (0, 1, (0, 1, 2)), (SERVER, 1, (2,))], "gets a branch twice"),
        ([(SERVER, 0, (2,)), (SERVER, 0, (0, 1)), (0, 1, (0, 1, 2))], r"a later base came .*\(11"),
        ([(SERVER, 0, (0, 1)), (0, 1, (0, 1))], r"branches \[2\] never leave the server \(8\)"),
    ],
)
def test_a_handout_that_breaks_a_constraint_is_refused(transfers, said):
    handout = Handout(2, tuple(Transfer(*each) for each in transfers))
    if said is None:
        check(TWO, handout)
    else:
        with pytest.raises(HandoutError, match=said):
            compute_forward_end(TWO, handout, Cluster(1, 2, 20, 10))


def test_the_step_of_two_workers_is_this():
    """Worker 0 pulls a, worker 1 pulls b; both pass them on, then worker 0 passes on c."""
    handout = owl.build(TWO, 2, 2, group_evenly, owl.centralize)
    computed = simulate_forward(TWO, handout, Cluster(1, 2, 16, 10))
    times = [
        (each.worker, each.branch, each.arrived_s, each.start_s, each.end_s) for each in computed
    ]
    assert times == [
        (0, 0, *map(pytest.approx, (0.4, 0.4, 0.5))),
        (0, 1, *map(pytest.approx, (0.725, 0.725, 0.925))),
        (0, 2, *map(pytest.approx, (0.7, 0.925, 1.225))),
        (1, 1, *map(pytest.approx, (0.6, 0.6, 0.8))),
        (1, 0, *map(pytest.approx, (0.65, 0.8, 0.9))),
        (1, 2, *map(pytest.approx, (0.7625, 0.9, 1.2))),
    ]


def simulate(model, handout, cluster):
    """The same step by events: what may begin, begins; then time goes on to what ends next."""
    queues = {}
    for number, each in enumerate(handout.transfers):
        for link in links_of(each):
            queues.setdefault(link, []).append(number)
    has = {SERVER: {*range(len(model.branches))}} | {w: set() for w in range(handout.workers)}
    got = {worker: [] for worker in range(handout.workers)}
    done = {worker: set() for worker in range(handout.workers)}
    now, running, busy = 0.0, {}, {}
    while any(len(each) < len(model.branches) for each in done.values()):
        for number, each in enumerate(handout.transfers):
            heads = all(queues[link][:1] == [number] for link in links_of(each))
            if heads and number not in running and has[each.source].issuperset(each.branches):
                bits = 8 * sum(model.branches[b].parameter_bytes for b in each.branches)
                rate = cluster.intra_mbps
                if each.source == SERVER:
                    rate = min(
                        cluster.inter_mbps, (cluster.server_mbps or float("inf")) / cluster.racks
                    )
                running[number] = now + cluster.startup_s + bits / (1e6 * rate)
        for worker, branches in got.items():
            left = [b for b in range(len(model.branches)) if b not in done[worker]]
            if worker not in busy and left:
                base = model.base_of[left[0]]
                ready = [b for b in branches if model.base_of[b] == base and b in left]
                if ready:
                    busy[worker] = (now + model.branches[ready[0]].forward_s, ready[0])
        now = min([*running.values(), *(end for end, _ in busy.values())])
        for number in sorted(n for n, end in running.items() if end == now):
            del running[number]
            each = handout.transfers[number]
            for link in links_of(each):
                queues[link].remove(number)
            has[each.target].update(each.branches)
            got[each.target].extend(sorted(each.branches))
        for worker in [w for w, (end, _) in busy.items() if end == now]:
            done[worker].add(busy.pop(worker)[1])
    return now


def links_of(transfer):
    if transfer.source == SERVER:
        return ["into the rack"]
    return [f"out of {transfer.source}", f"into {transfer.target}"]


@settings(max_examples=100)
@given(models(4), CLUSTERS)
def test_a_simulation_by_events_gives_the_same_time(model, cluster):
    for handout in handouts(model, cluster):
        expected = simulate(model, handout, cluster)
        assert compute_forward_end(model, handout, cluster) == pytest.approx(expected, abs=1e-9)


@settings(max_examples=60)
@given(models(4), CLUSTERS)
def test_no_handout_beats_the_bound_and_owls_deployment_is_its_best(model, cluster):
    bound = baselines.compute_bound(model, cluster)
    for handout in handouts(model, cluster):
        assert compute_forward_end(model, handout, cluster) >= bound - 1e-9
    best = compute_forward_end(model, owl.deploy(model, cluster), cluster)
    for count in owl.count_groups(model, cluster.workers):
        one = owl.build(model, cluster.workers, count, group_evenly, owl.centralize)
        assert best <= compute_forward_end(model, one, cluster)


def orders(base):
    if not base:
        yield ()
    for index, each in enumerate(base):
        for rest in orders(base[:index] + base[index + 1 :]):
            yield (each, *rest)


@settings(max_examples=100)
@given(models(3), st.floats(10, 100))
def test_the_bound_is_the_best_order_of_branches_for_one_worker(model, rate):
    cluster = Cluster(1, 1, rate, rate)

    def end(bases, numbers):
        if not bases:
            transfers = [Transfer(SERVER, 0, (number,)) for number in numbers]
            return compute_forward_end(model, Handout(1, tuple(transfers)), cluster)
        return min(end(bases[1:], [*numbers, *order]) for order in orders(bases[0]))

    found = baselines.compute_bound(model, cluster)
    assert found == pytest.approx(end(model.numbers, []), abs=1e-9)


def packings(count):
    """All ways to cut a sequence into consecutive packs."""
    for cuts in range(2 ** (count - 1)):
        packs, first = [], 0
        for last in range(1, count + 1):
            if last == count or cuts >> (last - 1) & 1:
                packs.append(tuple(range(first, last)))
                first = last
        yield packs


@settings(max_examples=60)
@given(
    st.lists(BRANCHES, min_size=1, max_size=7), st.integers(1, 3), st.sampled_from([0.0, 0.02, 0.1])
)
def test_no_other_packing_is_faster_than_that_of_ipart(branches, workers, startup_s):
    model = LayeredModel(tuple(Base(str(n), (each,)) for n, each in enumerate(branches)))
    cluster = Cluster(1, workers, 50, 50, startup_s=startup_s)
    best = min(
        compute_forward_end(
            model,
            Handout(
                workers, tuple(Transfer(SERVER, w, pack) for pack in packs for w in range(workers))
            ),
            cluster,
        )
        for packs in packings(len(branches))
    )
    found = compute_forward_end(model, baselines.ipart(model, cluster), cluster)
    assert found == pytest.approx(best, abs=1e-9)


def test_equations_13_and_14_are_these_and_prefer_the_centralized_deployment():
    model = LayeredModel((Base("x", (Branch("a", 625_000, 0, 0), Branch("b", 625_000, 0, 0))),))
    cluster = Cluster(3, 4, intra_mbps=20, inter_mbps=10)
    # 10 Mbit: 1 s into the rack, and (4 / D - 1) * 0.5 s in it; or 4 / D * 1 s into the rack.
    assert [owl.predict_centralized(model, cluster, count) for count in (1, 2)] == [2.5, 1.5]
    assert [owl.predict_decentralized(model, cluster, count) for count in (1, 2)] == [4, 2]
    chosen = owl.deploy_by_prediction(model, cluster)
    assert chosen == owl.build(model, 4, 2, group_evenly, owl.centralize)


def test_racks_share_the_uplink_of_the_server_if_it_is_a_limit():
    assert Cluster(50, 2, 200, 100).inlet_mbps == 100
    assert Cluster(50, 2, 200, 100, server_mbps=1000).inlet_mbps == 20
    assert Cluster(2, 2, 200, 100, server_mbps=1000).inlet_mbps == 100


@pytest.mark.parametrize("name", ["dfn", "inception-v4"])
def test_the_order_of_the_paper_holds_at_100_workers(name):
    model, cluster = load(name).scaled(128), Cluster(50, 2, 10_000, 5_000, startup_s=2e-4)
    ways = (owl.deploy, baselines.ipart, baselines.overlap, baselines.naive)
    ends = [compute_forward_end(model, way(model, cluster), cluster) for way in ways]
    assert ends == sorted(ends)
    assert ends[0] + model.backward_s < 1.1 * (
        baselines.compute_bound(model, cluster) + model.backward_s
    )
