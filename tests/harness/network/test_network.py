"""Names, addresses and values of a network, and its in-memory fake."""

import math

import pytest

from trunkline.harness.network.interface import (
    InMemoryNetwork,
    LinkCounters,
    NetworkError,
    change_link,
    device_name,
    hardware_address,
    list_hosts,
    site_address,
    site_ipv6_address,
)
from trunkline.topologies.links import Link, TopologyError
from trunkline.topologies.model import Site, Topology

LINK = Link("a", "b", 50.0, delay_ms=10.0, loss_percent=1.0)
PAIR = Topology("pair", (Site("a"), Site("b")), (LINK, Link("b", "a", 5.0)))


def test_addresses_count_up_from_the_first_of_the_ten_network():
    assert [site_address(rank) for rank in (0, 1, 254, 255, 65_535)] == [
        "10.0.0.1",
        "10.0.0.2",
        "10.0.0.255",
        "10.0.1.0",
        "10.1.0.0",
    ]


def test_ipv6_addresses_count_up_in_the_range_of_local_networks():
    assert [site_ipv6_address(rank) for rank in (0, 65_535)] == ["fd00::1", "fd00::1:0"]


def test_names_have_addresses_of_both_families_if_sites_have_both():
    assert list_hosts(PAIR) == "127.0.0.1 localhost\n10.0.0.1 a\n10.0.0.2 b\n"
    assert list_hosts(PAIR, ipv6=True) == (
        "127.0.0.1 localhost\n10.0.0.1 a\n10.0.0.2 b\n::1 localhost\nfd00::1 a\nfd00::2 b\n"
    )


def test_the_longest_interface_name_fits_linux():
    assert device_name(0, 1) == "l0-1"
    assert len(device_name(65_535, 65_534)) <= 15


def test_hardware_addresses_are_local_unicast_and_tell_the_link():
    assert hardware_address(1, 258).hex(":") == "02:00:00:01:01:02"


def test_a_link_changes_only_what_is_given():
    assert change_link(LINK, delay_ms=20.0) == Link("a", "b", 50.0, 20.0, loss_percent=1.0)
    assert change_link(LINK, loss_percent=100.0).loss_percent == 100.0


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"rate_mbps": 0.0}, "link a -> b: rate 0 Mbit/s: expected 0.001 to 1000000 Mbit/s"),
        ({"rate_mbps": math.inf}, "link a -> b: rate inf Mbit/s: expected 0.001 to 1000000 Mbit/s"),
        ({"delay_ms": -1.0}, "link a -> b: delay -1 ms: expected 0 to 60000 ms"),
        ({"jitter_ms": 11.0}, "link a -> b: jitter 11 ms: expected 0 to the link's delay, 10 ms"),
        ({"loss_percent": 101.0}, "link a -> b: loss 101 %: expected 0 to 100 %"),
    ],
)
def test_an_impossible_value_is_refused_by_name(value, message):
    with pytest.raises(NetworkError) as refused:
        change_link(LINK, **value)
    assert str(refused.value) == message


def test_an_error_says_where_what_and_the_remedy():
    assert str(NetworkError("no", "site a", "say yes")) == "site a: no; remedy: say yes"


def test_the_fake_knows_the_topology_and_remembers_what_was_done():
    network = InMemoryNetwork(PAIR, carried={("a", "b"): LinkCounters(1514, 1, 2, 3)})
    network.start()
    network.enter("b")
    network.set_link("a", "b", rate_mbps=20.0)
    assert (network.running, network.entered) == (True, ["b"])
    assert (network.address("b"), network.device("b", "a")) == ("10.0.0.2", "l1-0")
    assert network.topology.link("a", "b").rate_mbps == 20.0
    assert network.counters() == {
        ("a", "b"): LinkCounters(1514, 1, 2, 3),
        ("b", "a"): LinkCounters(),
    }
    assert network.counters()["a", "b"].drops == 5
    with pytest.raises(TopologyError):
        network.enter("c")
