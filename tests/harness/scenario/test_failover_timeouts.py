"""The longest round trip of a network, from which agents' timeouts follow."""

from itertools import combinations, pairwise

import pytest
from hypothesis import given
from overlays import overlays

from trunkline.harness.scenario.failover_timeouts import find_longest_round_trip_ms
from trunkline.topologies.links import Link
from trunkline.topologies.model import Site, Topology


def network(delays_ms):
    names = sorted({end for link in delays_ms for end in link})
    links = tuple(Link(*ends, 10.0, delay_ms) for ends, delay_ms in delays_ms.items())
    return Topology("test", tuple(map(Site, names)), links)


def test_a_round_trip_takes_the_links_of_the_way_there_in_both_directions():
    delays_ms = {("a", "b"): 1.0, ("b", "a"): 50.0, ("b", "c"): 2.0, ("c", "b"): 7.0}
    assert find_longest_round_trip_ms(network(delays_ms)) == 60.0


@given(overlays())
def test_it_is_the_longest_one_of_all_pairs_of_sites(delays_ms):
    made = network({ends: delay_ms % 40 for ends, delay_ms in delays_ms.items()})
    found_ms = [
        sum(made.link(*hop).delay_ms + made.link(*hop[::-1]).delay_ms for hop in pairwise(path))
        for path in (made.path(a, b) for a, b in combinations(made.site_names, 2))
    ]
    assert find_longest_round_trip_ms(made) == pytest.approx(max(found_ms))
