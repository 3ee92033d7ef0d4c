"""Routes: as few as the topology allows, and each node's address within the network of all."""

import ipaddress
import os
import socket
from itertools import permutations

import pytest

from trunkline.harness.network import wiring
from trunkline.harness.network.interface import (
    NetworkOptions,
    site_address,
    site_ipv6_address,
)
from trunkline.harness.network.mininet_net import MininetNetwork
from trunkline.topologies.links import Link
from trunkline.topologies.model import Site, Topology


def star(clients, tail=()):
    names = ("hub", *(f"c{n}" for n in range(clients)), *tail)
    edges = [("hub", name) for name in names[1 : clients + 1]]
    edges += [(names[-1], names[-2])] if tail else []
    links = tuple(Link(*ends, 50.0) for a, b in edges for ends in ((a, b), (b, a)))
    return Topology("star", tuple(map(Site, names)), links)


def count_routes(topology):
    requests = (wiring.set_routes(topology, each, NetworkOptions()) for each in topology.node_names)
    return sum(request.what.startswith("route") for each in requests for request in each)


def test_the_routes_of_a_star_grow_with_its_sites():
    assert [count_routes(star(n)) for n in (2, 100, 1000)] == [2 + 4, 100 + 200, 1000 + 2000]


@pytest.mark.parametrize("nodes", [1, 2, 3, 255, 256, 1001, 10_000])
def test_the_network_of_all_nodes_has_their_addresses_and_few_others(nodes):
    for family, to_text in ((socket.AF_INET, site_address), (socket.AF_INET6, site_ipv6_address)):
        address, bits = wiring.network_of(family, nodes)
        network = ipaddress.ip_network((address, bits))
        assert all(ipaddress.ip_address(to_text(rank)) in network for rank in range(nodes))
        assert network.num_addresses <= 2 * (nodes + 1)


@pytest.mark.skipif(os.geteuid() != 0, reason="builds namespaces: needs root")
def test_sites_with_one_neighbour_reach_all_others():
    """Over the hub, and over a client that forwards; other addresses stay unreachable."""
    topology = star(3, tail=("end",))
    network = MininetNetwork(topology, NetworkOptions(ipv6=True))
    network.start()
    try:
        for src, dst in permutations(topology.site_names, 2):
            rank = topology.rank(dst)
            for address in (site_address(rank), site_ipv6_address(rank)):
                said = network.mininet[src].cmd("ping -c 1 -W 5", address)
                assert " 0% packet loss" in said, (src, dst, said)
        for address in ("10.1.0.1", "192.0.2.1", "fd01::1"):
            assert "unreachable" in network.mininet["end"].cmd("ping -c 1 -W 1", address).lower()
        assert [*network.differing_ways("end")] == []
        network.mininet["end"].cmd("ip route replace blackhole 10.0.0.1")
        assert [each.what for each in network.differing_ways("end")] == ["the route to hub"]
    finally:
        network.stop()
