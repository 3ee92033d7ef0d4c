"""Max-min fair rates, and the fluid model of overlay links that share links."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trunkline.agents.planning.fluid.completion_times import estimate, simulate
from trunkline.agents.planning.fluid.fair_shares import compute_fair_rates
from trunkline.agents.planning.fluid.fluid_tasks import FluidTask
from trunkline.agents.planning.plan import Block, Plan

MB = 1_000_000


def test_the_example_of_the_text_book():
    # Three short transfers share their links with a long one; the second link is the tightest.
    paths = {"long": "abc", "first": "a", "second": "b", "third": "c"}
    rates = {"a": 10.0, "b": 4.0, "c": 6.0}
    assert compute_fair_rates(paths, rates) == {"long": 2, "second": 2, "third": 4, "first": 8}


PATHS = st.dictionaries(
    st.integers(0, 12), st.frozensets(st.integers(0, 6), min_size=1), min_size=1, max_size=12
)
RATES = st.fixed_dictionaries({link: st.floats(0.1, 1000.0) for link in range(7)})


@given(PATHS, RATES)
def test_no_transfer_can_get_more_without_taking_from_a_smaller_one(paths, rates):
    found = compute_fair_rates(paths, rates)
    assert found.keys() == paths.keys()
    used = {link: sum(found[t] for t in paths if link in paths[t]) for link in rates}
    assert all(used[link] <= rates[link] * (1 + 1e-9) for link in rates)
    for transfer, path in paths.items():
        assert any(
            used[link] >= rates[link] * (1 - 1e-9)
            and all(found[t] <= found[transfer] * (1 + 1e-9) for t in paths if link in paths[t])
            for link in path
        ), transfer


def pull(receiver):
    block = Block(((0, 4),), "s", (), (("s", receiver),))
    return FluidTask(Plan(("s",), (receiver,), 4, (block,)), 4 * MB, MB)


def behind(uplink_mbps, sites):
    """A server behind an uplink, and other sites with 100 Mbit/s each."""
    paths = {("s", site): (("s", "gw"), ("gw", site)) for site in sites}
    return paths, {("s", "gw"): uplink_mbps} | {("gw", site): 100.0 for site in sites}


@pytest.mark.parametrize(("uplink_mbps", "share_mbps"), [(80.0, 10.0), (400.0, 50.0), (1e4, 100.0)])
def test_eight_pulls_share_the_uplink_of_a_server(uplink_mbps, share_mbps):
    sites = "abcdefgh"
    paths, rates = behind(uplink_mbps, sites)
    times = simulate([pull(site) for site in sites], rates, paths=paths)
    assert times == pytest.approx([32.0 / share_mbps] * 8)


def test_a_transfer_that_ends_leaves_its_share_to_the_others():
    paths, rates = behind(20.0, "ab")
    late = FluidTask(pull("b").plan, 4 * MB, MB, start_s=1.0)
    # a: 20 Mbit in the first second, then 12 Mbit at 10; b: 12 Mbit by then, and 20 Mbit at 20.
    assert simulate([pull("a"), late], rates, paths=paths) == pytest.approx([2.2, 3.2])


@given(st.integers(0, 2**16))
def test_links_that_nobody_shares_give_the_same_times(seed):
    rates = {ends: 5.0 + (seed >> n & 7) for n, ends in enumerate((("a", "b"), ("c", "b")))}
    rates |= {ends[::-1]: rate + 1 for ends, rate in rates.items()}
    block = Block(((0, 5),), "b", (("a", "b"), ("c", "b")), (("b", "a"), ("b", "c")))
    plan = Plan(("a", "b", "c"), ("a", "b", "c"), 5, (block,))
    paths = {ends: [ends] for ends in rates}
    alone = estimate(plan, rates, MB, 5 * MB)
    assert estimate(plan, rates, MB, 5 * MB, paths=paths) == pytest.approx(alone)


def test_a_slow_link_of_a_path_sets_its_rate():
    hops = ("a", "r", "q", "b")
    rates = dict(zip(pairwise(hops), (30.0, 8.0, 20.0), strict=True))
    block = Block(((0, 1),), "b", (("a", "b"),), ())
    plan = Plan(("a", "b"), ("b",), 1, (block,))
    assert estimate(plan, rates, MB, MB, paths={("a", "b"): list(pairwise(hops))}) == 1.0
