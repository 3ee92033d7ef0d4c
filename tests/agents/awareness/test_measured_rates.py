"""Rates as plans see them when estimates are off."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trunkline.agents.awareness.measured_rates import add_error

RATES = {("a", "b"): 100.0, ("b", "a"): 50.0, ("b", "c"): 25.0}


@given(error=st.floats(0, 0.99), seed=st.integers())
def test_every_rate_is_off_by_no_more_than_the_error(error, seed):
    seen = add_error(RATES, error, random.Random(seed))
    assert seen.keys() == RATES.keys()
    assert all(abs(seen[link] / rate - 1) <= error + 1e-12 for link, rate in RATES.items())


def test_links_are_off_independently_and_the_same_for_the_same_seed():
    seen = add_error(RATES, 0.3, random.Random(1))
    assert len({round(seen[link] / rate, 6) for link, rate in RATES.items()}) == 3
    assert (
        add_error(RATES, 0.3, random.Random(1)) == seen != add_error(RATES, 0.3, random.Random(2))
    )


def test_without_error_the_rates_are_exact():
    assert add_error(RATES, 0.0, random.Random(1)) == RATES


def test_an_error_of_everything_is_refused():
    with pytest.raises(ValueError, match=r"error: 1\.0: expected 0 up to"):
        add_error(RATES, 1.0, random.Random(1))
