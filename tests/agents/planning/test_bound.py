"""The smallest cuts of small overlays are found without scipy, and are those that it finds."""

from hypothesis import given
from hypothesis import strategies as st

from trunkline.agents.planning.bound import SmallestCuts, find_flow

SITES = tuple("abcdef")
PAIRS = [(a, b) for a in SITES for b in SITES if a != b]


@given(st.dictionaries(st.sampled_from(PAIRS), st.sampled_from([1.0, 20.0, 33.3]), min_size=1))
def test_the_largest_flow_is_that_of_scipy(rates):
    cuts = SmallestCuts(rates)
    for src, dst in PAIRS:
        if src in cuts._index and dst in cuts._index:
            flow = find_flow(cuts._units, src, dst)
            assert flow == cuts._find_flow_of_many(src, dst)
