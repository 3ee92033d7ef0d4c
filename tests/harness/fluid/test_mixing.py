"""How well groups mix models: matrices and eigenvalues that can be worked out by hand."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from trunkline.harness.fluid import mixing

ABC = ("a", "b", "c")


def equal(*groups):
    return [dict.fromkeys(group, 1.0) for group in groups]


def test_members_average_and_the_others_keep_their_models():
    assert mixing.average(equal("ac"), ABC).tolist() == [[0.5, 0, 0.5], [0, 1, 0], [0.5, 0, 0.5]]
    assert mixing.average(equal("ac", "bc"), ABC).tolist() == [
        [0.75, 0, 0.25],
        [0, 0.75, 0.25],
        [0.25, 0.25, 0.5],
    ]


def test_weights_are_shares_of_their_sum():
    assert mixing.average([{"b": 3.0, "a": 1.0}], ABC).tolist() == [
        [0.25, 0.75, 0],
        [0.25, 0.75, 0],
        [0, 0, 1],
    ]


@pytest.mark.parametrize(
    ("groups", "rho"),
    [
        (equal("abc", "abc"), 0.0),
        # All pairs alike: 2/3 on the diagonal, 1/6 beside it.
        (equal("ab", "bc", "ac"), 0.5),
        # P-Reduce, figure 4 (b): the two fast sites meet every other time.
        (equal("ab", "ac", "ab", "bc"), 0.625),
        (equal("ab", "ab"), 1.0),
        ([{"a": 2.0, "b": 1.0, "c": 1.0}], 0.0),
    ],
)
def test_rho_is_the_second_eigenvalue(groups, rho):
    assert mixing.compute_rho(groups, ABC) == rho


@pytest.mark.parametrize(("n", "p"), [(3, 2), (8, 3), (8, 5), (16, 4)])
def test_groups_that_are_all_equally_likely_join_p_of_n_sites(n, p):
    sites = [f"n{rank}" for rank in range(n)]
    found = mixing.compute_rho(equal(*itertools.combinations(sites, p)), sites)
    assert found == pytest.approx(1 - (p - 1) / (n - 1), abs=1e-8)


def test_groups_that_never_meet_have_a_rho_of_one():
    assert mixing.compute_rho(equal("ab", "cd", "ab"), "abcd") == 1.0


@pytest.mark.parametrize(("groups", "sites"), [([], ABC), ([{"a": 1.0}], "a")])
def test_without_groups_or_others_rho_is_unknown(groups, sites):
    assert math.isnan(mixing.compute_rho(groups, sites))


def test_a_group_with_a_server_does_not_count():
    assert mixing.compute_rho([*equal("ab"), {"a": 1.0, "server": 1.0}], "ab") == 0.0
    assert math.isnan(mixing.compute_rho([{"a": 1.0, "server": 1.0}], "ab"))


def test_weights_that_sum_to_zero_have_no_rho():
    assert math.isnan(mixing.compute_rho([*equal("ab"), {"a": 1.0, "b": -1.0}], ABC))


def test_rows_sum_to_one():
    groups = [{"a": 4.0, "c": 3.0}, {"b": 1.0, "a": 2.0, "c": 5.0}]
    assert np.allclose(mixing.average(groups, ABC).sum(axis=1), 1)
