"""Weights of a group's models by their staleness: exact, as the paper's equation (9) has them."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trunkline.agents.policies import staleness
from trunkline.agents.policies.policy import WHOLE_TOTAL, weighted

HALF = Fraction(1, 2)
GROUPS = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(0, 40), min_size=1)
DECAYS = st.fractions(0, 1, max_denominator=1000).filter(lambda decay: 0 < decay < 1)


def thirds(*parts):
    return dict(zip("abc", (Fraction(part, sum(parts)) for part in parts), strict=False))


def test_each_older_version_weighs_half_as_much():
    assert staleness.compute_weights({"a": 9, "b": 8, "c": 7}, HALF) == thirds(4, 2, 1)


def test_the_same_version_is_shared():
    assert staleness.compute_weights({"a": 9, "b": 9, "c": 8}, HALF) == thirds(1, 1, 1)
    assert staleness.compute_weights({"a": 3, "b": 3}, HALF) == thirds(1, 1)


def test_what_nobody_holds_goes_to_the_closest_version_and_of_two_to_the_newer():
    # r = 1, 2, 3 weigh 4, 2, 1; the middle is as far from either.
    assert staleness.compute_weights({"a": 9, "b": 7}, HALF) == thirds(6, 1)
    # r = 1, 2, 3, 4 weigh 8, 4, 2, 1; the third is closer to the last.
    assert staleness.compute_weights({"a": 9, "b": 6}, HALF) == thirds(12, 3)


def test_what_nobody_holds_goes_to_the_initial_model_if_that_is_asked_for():
    # r = 1, 2, 3 weigh 4, 2, 1 sevenths, and 2 of them are the initial model's.
    found = staleness.compute_weights({"a": 9, "b": 7}, HALF, "initial")
    assert found == {"a": Fraction(4, 7), "b": Fraction(1, 7)}


@given(GROUPS, DECAYS)
def test_each_held_version_weighs_what_equation_9_says_beside_the_initial_model(iterations, decay):
    found = staleness.compute_weights(iterations, decay, "initial")
    newest = max(iterations.values())
    r_max = newest - min(iterations.values()) + 1
    by_version = {}
    for site, weight in found.items():
        by_version[iterations[site]] = by_version.get(iterations[site], 0) + weight
    assert by_version == {k: beta(newest - k + 1, r_max, decay) for k in iterations.values()}


@given(GROUPS, DECAYS)
def test_weights_sum_to_one_and_all_versions_of_one_age_are_alike(iterations, decay):
    found = staleness.compute_weights(iterations, decay)
    assert sum(found.values()) == 1
    assert min(found.values()) > 0
    assert len(set(zip(iterations.values(), found.values(), strict=True))) == len(
        set(iterations.values())
    )


def beta(r, r_max, a):
    """Equation (9) for the relative iteration r."""
    return (1 - a) * a ** (r - 1) / (1 - a**r_max)


@given(st.integers(1, 20), DECAYS)
def test_where_every_version_is_held_the_weights_are_equation_9(count, decay):
    found = staleness.compute_weights({str(age): -age for age in range(count)}, decay)
    assert list(found.values()) == [beta(r, count, decay) for r in range(1, count + 1)]


@pytest.mark.parametrize(
    ("iterations", "shares"),
    [
        # Each site's list of versions r, and the number of sites that share them.
        ({"a": 5, "b": 5, "c": 5}, {"a": ([1], 3), "b": ([1], 3), "c": ([1], 3)}),
        ({"a": 5, "b": 4, "c": 4}, {"a": ([1], 1), "b": ([2], 2), "c": ([2], 2)}),
        ({"a": 1, "b": 5, "c": 2}, {"a": ([5], 1), "b": ([1, 2], 1), "c": ([3, 4], 1)}),
        ({"a": 9, "b": 2, "c": 2}, {"a": ([1, 2, 3, 4], 1), "b": ([5, 6, 7, 8], 2)}),
        ({"a": 0, "b": 6}, {"a": ([5, 6, 7], 1), "b": ([1, 2, 3, 4], 1)}),
    ],
)
@pytest.mark.parametrize("decay", [HALF, Fraction(9, 10), Fraction(1, 1000)])
def test_a_site_has_the_weights_of_the_versions_that_it_stands_for(iterations, shares, decay):
    found = staleness.compute_weights(iterations, decay)
    r_max = max(r for versions, _ in shares.values() for r in versions)
    for site, (versions, holders) in shares.items():
        assert found[site] == sum(beta(r, r_max, decay) for r in versions) / holders


@given(GROUPS, DECAYS)
def test_weights_are_equation_9_with_the_closest_version_in_place_of_one_that_nobody_holds(
    iterations, decay
):
    r_of = {site: max(iterations.values()) - k + 1 for site, k in iterations.items()}
    r_max = max(r_of.values())
    expected = dict.fromkeys(iterations, Fraction(0))
    for r in range(1, r_max + 1):
        distance = min(abs(held - r) for held in r_of.values())
        stand_in = r - distance if r - distance in r_of.values() else r + distance
        sharing = [site for site, held in r_of.items() if held == stand_in]
        for site in sharing:
            expected[site] += beta(r, r_max, decay) / len(sharing)
    assert staleness.compute_weights(iterations, decay) == expected


def test_a_site_that_was_away_for_long_has_a_weight_at_once():
    found = staleness.compute_weights({"a": 100_000, "b": 0}, HALF)
    assert sum(found.values()) == 1
    assert found["b"] < Fraction(1, 2**50_000)


@given(GROUPS, DECAYS)
def test_small_weights_become_whole_numbers_and_mean_the_same(iterations, decay):
    exact = staleness.compute_weights(iterations, decay)
    start = weighted(exact)
    assert start.group == tuple(exact)
    if all((each * WHOLE_TOTAL).denominator == 1 for each in exact.values()):
        assert all(weight.is_integer() for weight in start.weights.values())
    for site, weight in start.weights.items():
        assert start.scale * weight == pytest.approx(float(exact[site]), rel=1e-12)
