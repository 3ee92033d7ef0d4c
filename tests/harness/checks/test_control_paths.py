"""Quickest paths of few nodes are found without scipy, and take as long as those that it finds."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from trunkline.harness.checks.control_paths import find_quickest, find_quickest_of_many

NODES = 6
PAIRS = [(a, b) for a in range(NODES) for b in range(NODES) if a != b]
DELAYS_MS = st.sampled_from([0.0, 0.1, 2.5, 20.0])


@given(st.dictionaries(st.sampled_from(PAIRS), DELAYS_MS, min_size=1))
def test_the_quickest_paths_are_those_of_scipy(delays):
    values, ends = np.array([*delays.values()]), tuple(map(list, zip(*delays, strict=True)))
    found = find_quickest(values, ends, NODES)
    np.testing.assert_allclose(found, find_quickest_of_many(values, ends, NODES), rtol=1e-12)
