"""Source routes: the rate of a route is that of its slowest hop."""

import itertools

from hypothesis import given
from overlays import overlays

from trunkline.agents.planning.routes import route_rates_mbps, routes


@given(overlays())
def test_a_route_is_as_fast_as_its_slowest_hop(rates_mbps):
    sites = sorted({site for link in rates_mbps for site in link})
    found = routes(itertools.permutations(sites, 2), rates_mbps)
    assert route_rates_mbps(found, rates_mbps) == {
        pair: min(rates_mbps[hop] for hop in itertools.pairwise(route))
        for pair, route in found.items()
    }
    assert list(route_rates_mbps(found, rates_mbps)) == list(found)
