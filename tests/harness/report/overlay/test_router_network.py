"""Networks with more sites than a map has room for: their routers are drawn."""

import random

from three_sites import history

from trunkline.harness.report.overlay import overlay_section
from trunkline.harness.report.overlay.router_network import count_sites, find_routers
from trunkline.topologies import file, star
from trunkline.topologies.model import Topology
from trunkline.topologies.rates.access import AccessLink, add_access_links

KIND = "payload as a share of its rate"


def draw(topology: Topology) -> str:
    shares = [0.9 if link.src.startswith("chicago") else 0.0 for link in topology.links]
    return "".join(map(str, overlay_section.draw_overlay(topology, shares, None, history(), KIND)))


def test_routers_are_a_network_of_their_own_with_the_names_of_their_nodes():
    whole = file.build(random.Random(1), file="os3e", sites_per_node=4, hub="chicago-1")
    routers, numbers = find_routers(whole)
    nodes = file.build(random.Random(1), file="os3e")
    assert routers.site_names == nodes.site_names
    assert routers.rates_mbps() == nodes.rates_mbps()
    assert [whole.links[n].delay_ms for n in numbers] == [link.delay_ms for link in routers.links]
    assert count_sites(whole) == "136 sites, 4 at each of 34 routers"


def test_a_map_has_the_routers_if_there_is_no_room_for_sites():
    drawn = draw(file.build(random.Random(1), file="os3e", sites_per_node=4, hub="chicago-1"))
    assert "The routers alone, without their 136 sites" in drawn
    assert "Map of the network: 34 routers and 84 links" in drawn
    assert drawn.count('class="link load-5"') == 4  # those from Chicago
    assert "chicago-2" not in drawn


def test_without_routers_to_draw_there_is_no_map():
    plain = star.build(random.Random(1), sites=200)
    behind = add_access_links(plain, [AccessLink(5.0, 5.0, ("n1",))])
    assert find_routers(behind) is None
    assert "No map: 201 nodes and 400 links are too many." in draw(behind)
