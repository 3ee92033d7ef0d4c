import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trunkline.workloads import synthetic
from trunkline.workloads.base import Term, digest, fingerprint
from trunkline.workloads.option_rules import OptionError
from trunkline.workloads.synthetic import PERIOD, build, contribution, expected

CHUNK = 256
ELEMENTS = 10 * CHUNK
SEEDS = st.integers(0, 2**64)
MEMBERS = st.lists(
    st.tuples(st.integers(0, 1000), st.integers(0, 1000), st.integers(1, 20)),
    min_size=1,
    max_size=6,
    unique_by=lambda member: member[:2],
)


def total(seed, members, scale, elements):
    """`expected` where the order does not matter."""
    order = tuple(Term(*member) for member in members)
    return expected(seed, [(((0, elements),), order)], scale, elements)


def test_the_first_numbers_of_a_contribution_are_these():
    assert contribution(1, 0, 0, 8).tolist() == [130, 85, 115, 162, 157, 247, 24, 121]
    assert contribution(1, 1, 0, 8).tolist() == [253, 25, 116, 37, 165, 11, 179, 138]


def test_contributions_are_whole_numbers_from_1_to_255():
    model = contribution(3, 4, 5, 2 * PERIOD)
    assert model.dtype == np.float32
    assert set(np.unique(model)) == set(range(1, 256))


@given(seed=SEEDS, members=MEMBERS, order=st.randoms(use_true_random=False))
def test_sums_are_exact_in_any_order_and_grouping(seed, members, order):
    terms = [
        np.float32(weight) * contribution(seed, rank, iteration, ELEMENTS)
        for rank, iteration, weight in members
    ]
    while len(terms) > 1:
        order.shuffle(terms)
        terms.append(terms.pop() + terms.pop())
    scale = 1 / sum(weight for _, _, weight in members)
    assert np.array_equal(terms[0] * np.float32(scale), total(seed, members, scale, ELEMENTS))


@given(seed=SEEDS, shorter=st.integers(0, 3000), more=st.integers(0, 3000))
def test_a_longer_model_begins_like_a_shorter_one(seed, shorter, more):
    model = contribution(seed, 2, 9, shorter + more)
    assert np.array_equal(model[:shorter], contribution(seed, 2, 9, shorter))


def test_models_longer_than_the_period_repeat_it():
    model = contribution(1, 0, 0, 2 * PERIOD + 100)
    assert np.array_equal(model[:PERIOD], model[PERIOD : 2 * PERIOD])
    added = total(1, [(0, 0, 1), (1, 0, 1)], 1.0, 2 * PERIOD + 100)
    assert np.array_equal(added, model + contribution(1, 1, 0, 2 * PERIOD + 100))


@given(seed=SEEDS, rank=st.integers(0, 1000), iteration=st.integers(0, 10**6))
def test_all_chunks_of_a_contribution_differ(seed, rank, iteration):
    chunks = contribution(seed, rank, iteration, ELEMENTS).reshape(-1, CHUNK)
    assert not any(np.array_equal(a, b) for a, b in itertools.combinations(chunks, 2))


def test_chunks_still_differ_in_a_large_model_of_small_chunks():
    chunks = contribution(1, 0, 0, 700 * 4096).reshape(-1, 4096)
    assert len({chunk.tobytes() for chunk in chunks}) == 700


def test_contributions_of_other_sites_iterations_and_seeds_differ():
    models = {
        contribution(seed, rank, iteration, 64).tobytes()
        for seed, rank, iteration in itertools.product(range(3), range(60), range(50))
    }
    assert len(models) == 3 * 60 * 50


@given(
    seed=SEEDS,
    members=MEMBERS,
    who=st.integers(0, 5),
    where=st.integers(0, 9),
    harm=st.sampled_from(["missing", "doubled", "swapped", "stale"]),
)
def test_one_wrong_chunk_changes_the_result(seed, members, who, where, harm):
    rank, iteration, weight = members[who % len(members)]
    own = contribution(seed, rank, iteration, ELEMENTS).reshape(-1, CHUNK)
    right = total(seed, members, 1.0, ELEMENTS)
    wrong = right.copy().reshape(-1, CHUNK)
    stale = contribution(seed, rank, iteration + 1, ELEMENTS).reshape(-1, CHUNK)
    arrives = {
        "missing": 0 * own[where],
        "doubled": 2 * own[where],
        "swapped": own[(where + 1) % 10],
        "stale": stale[where],
    }[harm]
    wrong[where] += np.float32(weight) * (arrives - own[where])
    assert digest(wrong.reshape(-1)) != digest(right)
    if harm in ("missing", "doubled"):
        assert fingerprint(wrong.reshape(-1), 4 * CHUNK) != fingerprint(right, 4 * CHUNK)


def test_a_result_is_recomputed_with_its_weights_and_scale():
    a, b = contribution(1, 4, 7, 100), contribution(1, 5, 3, 100)
    assert np.array_equal(
        total(1, [(4, 7, 3.0), (5, 3, 1.0)], 0.25, 100), (3 * a + b) * np.float32(0.25)
    )


@pytest.mark.parametrize(
    ("weights", "exact"),
    [([1, 2, 3], True), ([0.5], False), ([65_000, 793], True), ([65_000, 794], False)],
)
def test_sums_are_exact_with_small_whole_weights(weights, exact):
    assert synthetic.is_exact(weights) is exact


def test_other_sums_are_rounded_as_they_are_formed():
    a, b, c = (contribution(1, rank, 7, 3 * PERIOD) for rank in range(3))
    terms = [Term(rank, 7, weight) for rank, weight in enumerate((0.1, 0.7, 1 / 3))]
    split = PERIOD + 11
    found = expected(
        1,
        [
            (((0, 5), (split, 3 * PERIOD)), tuple(terms)),
            (((5, split),), (terms[0], (terms[1], terms[2]))),
        ],
        0.9,
        3 * PERIOD,
    )
    a, b, c = np.float32(0.1) * a, np.float32(0.7) * b, np.float32(1 / 3) * c
    left, right = ((a + b) + c) * np.float32(0.9), (a + (b + c)) * np.float32(0.9)
    assert np.array_equal(found[:5], left[:5])
    assert np.array_equal(found[5:split], right[5:split])
    assert np.array_equal(found[split:], left[split:])
    assert not np.array_equal(left, right)


def test_the_heaviest_allowed_sum_is_still_exact():
    weight = 65_793
    exact = contribution(1, 0, 0, PERIOD).astype(np.float64) * weight
    assert exact.max() < 2**24
    assert np.array_equal(total(1, [(0, 0, weight)], 1.0, PERIOD), exact)


def test_a_worker_contributes_the_closed_form_of_its_iteration():
    workload = build(2, 9, 1, model_bytes=4 * ELEMENTS, compute_s=0.3)
    assert workload.compute(5) == 0.3
    workload.commit()
    assert np.array_equal(workload.contribution(), contribution(1, 2, 5, ELEMENTS))
    assert workload.evaluate() is None


def test_an_installed_result_replaces_the_tensor_until_the_next_iteration():
    workload = build(2, 9, 1, model_bytes=4 * ELEMENTS)
    workload.compute(0)
    workload.commit()
    result = np.full(ELEMENTS, 7, dtype=np.float32)
    workload.install(result)
    result[:] = 0
    assert set(workload.contribution()) == {7.0}
    workload.compute(1)
    workload.commit()
    assert np.array_equal(workload.contribution(), contribution(1, 2, 1, ELEMENTS))


def test_models_are_those_of_the_first_version_to_the_bit():
    """The digests come from the version in which `compute` itself changed the model."""
    workload = build(2, 9, 1, model_bytes=4 * ELEMENTS)
    digests = [digest(workload.contribution())]
    for iteration in range(3):
        workload.compute(iteration)
        workload.commit()
        digests.append(digest(workload.contribution()))
        if iteration == 1:
            workload.install(workload.contribution() * np.float32(0.75))
            digests.append(digest(workload.contribution()))
    assert digests == [
        "97e6fd22566722828f19163867134516",
        "ec1e85b6eba25f6406cde41d32ecf8e9",
        "277ddcf463fdc9717e8ae835a4dd74d9",
        "396a3aa641c98532d0851307e3916d1f",
        "eea283d01e484eb5f6b7a8cce63769bc",
    ]


def test_a_change_is_the_contribution_of_its_iteration_and_leaves_the_tensor_alone():
    workload = build(2, 9, 1, model_bytes=4 * ELEMENTS)
    for iteration in (0, 1):
        workload.compute(iteration)
        assert not workload.contribution().any()
        change = workload.change()
        assert np.array_equal(change, contribution(1, 2, iteration, ELEMENTS))
        assert not np.shares_memory(change, workload.contribution())


def test_a_commit_replaces_what_was_installed_since_its_compute():
    workload = build(2, 9, 1, model_bytes=4 * ELEMENTS)
    workload.compute(4)
    workload.install(np.full(ELEMENTS, 7, dtype=np.float32))
    workload.commit()
    assert np.array_equal(workload.contribution(), contribution(1, 2, 4, ELEMENTS))


@pytest.mark.parametrize("method", ["commit", "change"])
def test_nothing_can_be_committed_before_the_first_compute(method):
    with pytest.raises(RuntimeError, match="nothing is computed yet"):
        getattr(build(0, 1, 1, model_bytes=4), method)()


def test_a_batch_only_scales_the_time():
    workload = build(0, 3, 1, model_bytes=400, compute_s=0.3, batch=10)
    assert [workload.compute(0, batch) for batch in (None, 10, 20)] == [0.3, 0.3, 0.6]
    assert np.array_equal(workload.change(), contribution(1, 0, 0, 100))


def test_an_impossible_batch_is_refused():
    with pytest.raises(OptionError, match="batch: 0: expected a whole number from 1 to"):
        build(0, 3, 1, batch=0)


def test_a_slow_site_takes_longer():
    fast = build(0, ["a", "b"], 1, model_bytes=4, compute_s=0.1, slowdown={"b": 3.0})
    slow = build(1, ["a", "b"], 1, model_bytes=4, compute_s=0.1, slowdown={"b": 3.0})
    assert (fast.compute(0), slow.compute(0)) == (0.1, pytest.approx(0.3))


@pytest.mark.parametrize("size", [0, -4, 6, 2.0, 2**35])
def test_a_model_of_an_impossible_size_is_refused(size):
    with pytest.raises(
        OptionError, match=rf"^workload.model: {size}: expected whole float32 numbers"
    ):
        build(0, 3, 1, model_bytes=size)


def test_the_size_of_the_model_is_the_option_model():
    assert synthetic.model_bytes() == 50_000_000
    assert synthetic.model_bytes(model_bytes=180_000_000, compute_s=0.1) == 180_000_000
    assert build(0, 3, 1, model_bytes=4000).contribution().nbytes == 4000
