"""How bytes are spread over the time of a transfer: literal rates in, literal seconds out."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import starmap

import pytest

from trunkline.harness.network.interface import payload_share
from trunkline.harness.record.link_history import Conditions, Spell
from trunkline.harness.report.explanations.links.link_loads import LinkLoads, Load, Slowdown
from trunkline.harness.report.overlay.spreading import find_pace_mbps
from trunkline.topologies.links import Link
from trunkline.topologies.model import Site, Topology

S = 10**9
HOP = ("a", "b")
LINK = Link("a", "b", 50.0, 10.0)
TOPOLOGY = Topology("t", (Site("a"), Site("b")), (LINK, Link("b", "a", 50.0, 10.0)))
MTU = 1500


def carry(megabits, *spells):
    """A link with spells of (second, rate; 0 if it is cut), and one load from 0 to 4 s."""
    links = ((at_s * S, replace(LINK, rate_mbps=rate or 50.0), not rate) for at_s, rate in spells)
    size = round(megabits / 8e-6 * payload_share(MTU))
    conditions = Conditions({HOP: tuple(starmap(Spell, links))}, TOPOLOGY)
    return LinkLoads(conditions, MTU, {HOP: [Load(0, size, 0, 4 * S)]})


@pytest.mark.parametrize(
    ("spells", "megabits", "pace"),
    [
        ([(2.0, 50.0)], 20.0, 10.0),
        ([(3.0, 2.0), (1.0, 50.0)], 26.0, 20.0),
        ([(1.0, 50.0), (3.0, 2.0)], 4.0, 1.0),
        ([(3.0, 2.0), (1.0, 50.0)], 56.0, math.inf),
        ([], 1.0, math.inf),
    ],
)
def test_a_pace_is_that_of_the_sender_where_the_link_is_not_slower(spells, megabits, pace):
    assert find_pace_mbps(spells, megabits) == pytest.approx(pace)


def test_bytes_are_where_the_links_rate_lets_them_be():
    loads = carry(26, (0, 50.0), (1, 2.0))
    size = loads.count(HOP, (0, 4 * S))
    assert loads.count(HOP, (1 * S, 4 * S)) == pytest.approx(size * 6 / 26)
    assert loads.use(HOP, (0, 4 * S)) == pytest.approx((3 + 20 / 50) / 4)


def test_a_slowdown_is_what_the_bytes_of_the_slow_time_need_in_addition():
    slow = carry(26, (0, 50.0), (1, 2.0)).find_slowdown(HOP, (0, 4 * S))
    assert slow == Slowdown(pytest.approx(3 * (1 - 2 / 50)), 2.0, 1 * S)
    mild = carry(40, (0, 50.0), (1, 40.0)).find_slowdown(HOP, (0, 4 * S))
    assert mild == Slowdown(pytest.approx(3 * 10 * (1 / 40 - 1 / 50)), 40.0, 1 * S)
    assert carry(26, (0, 50.0)).find_slowdown(HOP, (0, 4 * S)) is None


def test_a_cut_link_carries_nothing_and_is_not_slow():
    loads = carry(40, (0, 50.0), (2, 0))
    assert loads.count(HOP, (2 * S, 4 * S)) == 0
    assert loads.find_slowdown(HOP, (0, 4 * S)) is None


def test_what_tasks_put_on_a_link_is_told_by_task_and_by_way():
    loads = carry(26, (0, 50.0))
    (whole,) = loads.loads[HOP]
    results = replace(whole, start_ns=2 * S, is_result=True)
    other = replace(whole, task=3, end_ns=2 * S)
    loads = replace(loads, loads={HOP: [whole, results, other, replace(whole, task=None)]})
    half = whole.bytes / 2
    assert loads.count_tasks(HOP, (2 * S, 4 * S)) == {0: pytest.approx(half + whole.bytes)}
    assert loads.count_tasks(HOP, (0, 2 * S)) == {0: pytest.approx(half), 3: whole.bytes}
    (shared,) = loads.find_shared(0, [(HOP, (2 * S, 4 * S)), (HOP, (0, 2 * S))])
    assert (shared.where, shared.contributed) == ("a -> b", pytest.approx(half))
    assert shared.results == whole.bytes
    assert shared.seconds == pytest.approx(13 / 50)
    assert loads.find_shared(3, [(HOP, (0, 2 * S))]) == ()
