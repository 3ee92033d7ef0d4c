import math
import re
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trunkline.workloads.compute_time import (
    T1,
    T2,
    ComputeTime,
    Constant,
    Lognormal,
    Uniform,
    delay_of,
    for_site,
    of_options,
    parse,
    problems,
    slowdown_factor,
    uniform,
)
from trunkline.workloads.option_rules import OptionError


def draws(distribution, count=4000):
    times = ComputeTime(distribution, seed=1, rank=0)
    return [times.time_s(iteration) for iteration in range(count)]


def test_the_draws_of_a_seed_are_these():
    times = ComputeTime(Uniform(0.0, 1.0), seed=7, rank=2)
    assert [round(times.time_s(iteration), 6) for iteration in range(3)] == [
        0.993008,
        0.183413,
        0.939404,
    ]
    times = ComputeTime(T1, seed=7, rank=2)
    assert [round(times.time_s(iteration), 6) for iteration in range(3)] == [
        0.192011,
        0.069253,
        0.159906,
    ]


def test_a_draw_depends_on_nothing_but_seed_rank_and_iteration():
    forward = [uniform(1, 2, iteration) for iteration in range(5)]
    backward = [uniform(1, 2, iteration) for iteration in reversed(range(5))]
    assert forward == backward[::-1]
    assert len({uniform(s, r, i) for s in range(4) for r in range(4) for i in range(4)}) == 64


def test_uniform_numbers_fill_the_unit_interval_evenly():
    tenths = [0] * 10
    for iteration in range(10_000):
        tenths[int(10 * uniform(3, 0, iteration))] += 1
    assert all(900 < count < 1100 for count in tenths)


def test_a_constant_time_is_constant():
    assert set(draws(Constant(0.1), 10)) == {0.1}


def test_uniform_times_have_the_mean_of_their_range():
    times = draws(Uniform(0.05, 0.2))
    assert min(times) >= 0.05
    assert max(times) <= 0.2
    assert statistics.mean(times) == pytest.approx(0.125, abs=0.002)


def test_a_lognormal_has_its_mean_and_deviation():
    times = draws(Lognormal(mean_s=0.1, deviation_s=0.05), 20_000)
    assert statistics.mean(times) == pytest.approx(0.1, rel=0.02)
    assert statistics.stdev(times) == pytest.approx(0.05, rel=0.05)


@pytest.mark.parametrize(("distribution", "median_s"), [(T1, 0.0942), (T2, 0.0653)])
def test_t1_and_t2_stay_in_the_range_of_the_crew_evaluation(distribution, median_s):
    times = draws(distribution)
    assert min(times) >= 0.05
    assert max(times) <= 0.2
    assert distribution.quantile_s(0.5) == pytest.approx(median_s, abs=0.0001)


def test_t1_is_broader_than_t2_and_both_lean_to_the_right():
    broad, narrow = draws(T1), draws(T2)
    assert statistics.stdev(broad) > 3 * statistics.stdev(narrow)
    assert statistics.mean(broad) > statistics.median(broad)
    assert statistics.mean(narrow) > statistics.median(narrow)


@given(
    low=st.floats(0.01, 0.2),
    width=st.floats(0.05, 1),
    mean=st.floats(0.05, 0.5),
    probability=st.floats(1e-9, 1 - 1e-9),
)
def test_quantiles_of_a_truncated_lognormal_stay_within_and_rise(low, width, mean, probability):
    distribution = Lognormal(mean, mean, low, low + width)
    quantile = distribution.quantile_s(probability)
    assert low <= distribution.quantile_s(probability / 2) <= quantile <= low + width


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        (0.1, Constant(0.1)),
        (0, Constant(0.0)),
        ([0.05, 0.2], Uniform(0.05, 0.2)),
        ((0.1, 0.1), Uniform(0.1, 0.1)),
        ("t1", T1),
        ("t2", T2),
        ({"lognormal": {"mean": 0.1, "deviation": 0.05}}, Lognormal(0.1, 0.05)),
        (
            {"lognormal": {"mean": 0.1, "deviation": 0.05, "low": 0.02, "high": 0.4}},
            Lognormal(0.1, 0.05, 0.02, 0.4),
        ),
    ],
)
def test_the_option_compute_names_a_distribution(option, expected):
    assert parse(option) == expected


@pytest.mark.parametrize(
    "option",
    [
        -0.1,
        float("nan"),
        True,
        None,
        "t3",
        [],
        [0.1],
        [0.2, 0.1],
        [0.1, 0.2, 0.3],
        ["a", "b"],
        {"lognormal": {"mean": 0.1}},
        {"lognormal": {"mean": 0.1, "deviation": 0}},
        {"lognormal": {"mean": 0.1, "deviation": 0.1, "low": 0.3, "high": 0.2}},
        {"lognormal": {"mean": 0.1, "deviation": 0.001, "low": 5.0}},
        {"lognormal": {"mean": 0.1, "deviation": 0.1, "median": 0.1}},
        {"lognormal": {"mean": 0.1, "deviation": 0.1}, "uniform": [0, 1]},
        {"gamma": {"mean": 0.1}},
    ],
)
def test_any_other_value_of_compute_is_refused_with_what_is_allowed(option):
    with pytest.raises(
        OptionError, match=r"^workload.compute: .*: expected a time \(0.1 s\), a range"
    ):
        parse(option)


@pytest.mark.parametrize(
    ("parameters", "why"),
    [
        ({"mean": 0.1}, "deviation is missing"),
        ({"mean": 0.1, "deviation": 0.1, "median": 0.1}, "median is no parameter of a lognormal"),
        ({"mean": "fast", "deviation": 0.1}, "mean is not a time"),
        ({"mean": True, "deviation": 0.1}, "mean is not a time"),
    ],
)
def test_a_wrong_lognormal_is_refused_by_what_is_wrong_with_it(parameters, why):
    with pytest.raises(OptionError, match=rf"{why}\)$"):
        parse({"lognormal": parameters})


def test_a_slowdown_names_sites_or_ranks():
    assert slowdown_factor({"tokyo": 4.0}, 1, ["paris", "tokyo"]) == 4.0
    assert slowdown_factor({"tokyo": 4.0}, 0, ["paris", "tokyo"]) == 1.0
    assert slowdown_factor({1: 2}, 1, 3) == 2.0
    assert slowdown_factor({"1": 2}, 1, 3) == 2.0
    assert slowdown_factor(None, 1, 3) == 1.0


def test_a_site_called_like_a_number_is_found_by_its_name_first():
    assert slowdown_factor({"0": 3.0}, 1, ["1", "0"]) == 3.0


@pytest.mark.parametrize(
    ("slowdown", "sites", "message"),
    [
        ({"rome": 2.0}, ["paris", "tokyo"], "'rome': expected paris, tokyo, or a rank from 0 to 1"),
        ({"rome": 2.0}, 2, "'rome': expected a rank from 0 to 1"),
        ({2: 2.0}, 2, "2: expected a rank from 0 to 1"),
        ({"-1": 2.0}, 2, "'-1': expected a rank from 0 to 1"),
        ({"tokyo": 0}, ["paris", "tokyo"], "workload.slowdown.tokyo: 0: expected a number above 0"),
        ({"tokyo": True}, ["paris", "tokyo"], "slowdown.tokyo: True: expected a number above 0"),
        ({"tokyo": 2, 1: 3}, ["paris", "tokyo"], "workload.slowdown.1: 3: expected each site once"),
    ],
)
def test_a_wrong_slowdown_is_refused(slowdown, sites, message):
    with pytest.raises(OptionError) as caught:
        slowdown_factor(slowdown, 0, sites)
    assert message in str(caught.value)


def test_factor_and_slowdown_multiply():
    plain = for_site(1, 3, 5, "t1", 1.0, None).time_s(0)
    slow = for_site(1, 3, 5, "t1", 2.0, {"1": 3.0}).time_s(0)
    assert slow == pytest.approx(6 * plain)


def test_a_delay_is_added_whatever_factor_and_batch():
    delayed = for_site(1, 3, 5, 0.2, 2.0, {"1": 3.0}, 10, {"1": 0.5})
    assert delayed.time_s(0) == pytest.approx(0.2 * 6 + 0.5)
    assert delayed.time_s(0, 20) == pytest.approx(0.4 * 6 + 0.5)
    assert for_site(0, 3, 5, 0.2, 2.0, None, 10, {"1": 0.5}).time_s(0) == pytest.approx(0.4)
    assert of_options(1, 3, 5, compute_s=0.2, delay_s={"1": 1.0}).time_s(0) == pytest.approx(1.2)


def test_a_lognormal_delay_of_mu_minus_2_and_sigma_1_has_this_mean_and_deviation():
    """R2SP, VI-B1: the mean is exp(mu + sigma**2 / 2), the variance (exp(sigma**2) - 1) times its
    square."""
    lognormal = {"lognormal": {"mean": 0.22313, "deviation": 0.292482}}
    times = for_site(0, 128, 1, 0.0, 1.0, None, None, lognormal)
    logs = [math.log(times.time_s(iteration)) for iteration in range(20_000)]
    assert statistics.mean(logs) == pytest.approx(-2, abs=0.02)
    assert statistics.stdev(logs) == pytest.approx(1, abs=0.02)


def test_a_delay_does_not_depend_on_the_time_of_computing():
    both = of_options(0, 1, 5, compute_s=[0.0, 1.0], delay_s=[0.0, 1.0])
    computing = of_options(0, 1, 5, compute_s=[0.0, 1.0])
    pairs = [
        (computing.time_s(iteration), both.time_s(iteration) - computing.time_s(iteration))
        for iteration in range(4000)
    ]
    assert abs(statistics.correlation(*zip(*pairs, strict=True))) < 0.05
    assert statistics.mean(delay_s for _, delay_s in pairs) == pytest.approx(0.5, abs=0.02)


@pytest.mark.parametrize(
    ("delay_s", "said"),
    [
        (-0.1, "workload.delay: -0.1: expected a time (0.1 s), a range"),
        ({"rome": 1.0}, "workload.delay: 'rome': expected paris, tokyo, or a rank from 0 to 1"),
        ({"paris": -1.0}, "workload.delay.paris: -1.0: expected a time from 0 s to below 1e6 s"),
        ({"paris": 1.0, "0": 1.0}, "workload.delay.0: 1.0: expected each site once"),
        ({"lognormal": {"mean": 0.1}}, "workload.delay: {'lognormal': {'mean': 0.1}}: expected"),
    ],
)
def test_a_wrong_delay_is_refused(delay_s, said):
    with pytest.raises(OptionError) as caught:
        delay_of(delay_s, 0, ["paris", "tokyo"])
    assert str(caught.value).startswith(said)


def test_all_problems_are_found_at_once():
    options = {"compute_s": "t9", "compute_factor": -1, "slowdown": {"9": 1}, "delay_s": "t9"}
    assert [problem.key for problem in problems(3, options)] == [
        "compute_factor",
        "compute",
        "slowdown",
        "delay",
    ]
    assert problems(3, {}) == []


def test_times_are_linear_in_the_batch():
    times = for_site(0, 1, 5, "t1", 1.0, None, 24)
    own_s = times.time_s(3)
    assert own_s == for_site(0, 1, 5, "t1", 1.0, None).time_s(3)
    assert [times.time_s(3, batch) for batch in (24, 48, 6)] == [own_s, 2 * own_s, own_s / 4]


def test_the_own_batch_is_the_option_batch_of_a_kind():
    times = of_options(0, 1, 5, compute_s=0.3, batch=10, other="x")
    assert times.time_s(0, 20) == 0.6


@pytest.mark.parametrize(
    ("own", "batch", "said"),
    [
        (32, 0, "batch: 0: expected a whole number above 0"),
        (32, 1.5, "batch: 1.5: expected a whole number above 0"),
        (None, 32, "batch: 32: expected none, the workload has no batch"),
    ],
)
def test_a_batch_that_has_no_time_is_refused(own, batch, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        for_site(0, 1, 5, 0.1, 1.0, None, own).time_s(0, batch)
