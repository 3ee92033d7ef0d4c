"""Changes of links that the run does not make are logged once, and only they are.

In this machine's own kernel, whose links have rates alone; the embedded one tells the same way.
"""

import os
from dataclasses import replace

import pytest

from trunkline.harness.network import read_back
from trunkline.harness.network.mininet_net import MininetNetwork
from trunkline.harness.network.shaping import netem_options
from trunkline.harness.session.links.link_watch import SET_BACK, LinkWatch
from trunkline.topologies.links import Link
from trunkline.topologies.model import Site, Topology

PAIR = Topology("pair", (Site("a"), Site("b")), (Link("a", "b", 50.0), Link("b", "a", 50.0)))
AS_SET = "rate 50 Mbit/s, MTU 1500"
QUEUE = "limit 625000 burst 100000"

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="builds namespaces: needs root")


@pytest.fixture
def network():
    network = MininetNetwork(PAIR)
    network.start()
    yield network
    network.stop()


@pytest.fixture
def watched(network):
    """A function that reads all sockets, and returns what was logged since the last call."""
    logged = []
    watch = LinkWatch(network, lambda kind, *values: logged.append(values))

    def take(*, finish=False):
        for compare in watch.readable.values():
            compare()
        if finish:
            watch.finish()
        found = logged[:]
        logged.clear()
        return found

    yield take
    watch.close()


def type_at(network, site, command):
    assert network.mininet[site].cmd(command).strip() == ""


def test_the_runs_own_changes_are_not_logged(network, watched):
    network.set_link("a", "b", rate_mbps=5.0)
    network.cut("a", "b", "carrier")
    assert watched(finish=True) == []
    network.mend("a", "b", "carrier")
    assert watched(finish=True) == []


def test_a_typed_change_is_logged_once_with_both_values(network, watched):
    type_at(network, "a", f"tc qdisc change dev l0-1 root tbf rate 10mbit {QUEUE}")
    assert watched() == [("a", "b", AS_SET, "rate 10 Mbit/s, MTU 1500")]
    assert watched(finish=True) == []
    network.set_link("a", "b", rate_mbps=50.0)
    assert watched(finish=True) == []


@pytest.mark.parametrize(
    ("command", "found"),
    [
        ("ip link set l0-1 down", "down"),
        ("ip link set l0-1 mtu 1400", "rate 50 Mbit/s, MTU 1400"),
        ("tc qdisc replace dev l0-1 root pfifo", "pfifo, MTU 1500"),
        ("tc qdisc del dev l0-1 root", "noqueue, MTU 1500"),
    ],
)
def test_every_kind_of_change_is_found(command, found, network, watched):
    type_at(network, "a", command)
    assert watched() == [("a", "b", AS_SET, found)]


@pytest.mark.parametrize(
    ("command", "wanted", "found"),
    [
        (
            "ip link set l0-1 address 02:00:00:00:00:09",
            "hardware address 02:00:00:00:00:01",
            "hardware address 02:00:00:00:00:09",
        ),
        ("ip link set l0-1 arp off", "ARP on", "ARP off"),
    ],
)
def test_what_is_usually_not_told_is_found_with_both_values(
    command, wanted, found, network, watched
):
    type_at(network, "a", command)
    assert watched() == [("a", "b", f"{AS_SET}, {wanted}", f"{AS_SET}, {found}")]


ROUTE = ("a", "the route to b", "l0-1")


@pytest.mark.parametrize(
    ("command", "found"),
    [
        ("ip route replace blackhole 10.0.0.2", (*ROUTE, "none (Invalid argument)")),
        ("ip route replace unreachable 10.0.0.2", (*ROUTE, "none (No route to host)")),
        ("ip route del 10.0.0.2", (*ROUTE, "none (Network is unreachable)")),
        ("ip route replace 10.0.0.2 dev lo", (*ROUTE, "lo")),
        ("ip rule add to 10.0.0.2 prohibit", (*ROUTE, "none (Permission denied)")),
        ("ip rule add dport 80 prohibit", ("a", "a rule of routing", "unchanged", SET_BACK)),
        (
            "ip neigh replace 10.0.0.2 lladdr 02:11:22:33:44:55 dev l0-1",
            ("a", "the hardware address of b", "02:00:00:01:00:00", "02:11:22:33:44:55"),
        ),
        (
            "ip neigh del 10.0.0.2 dev l0-1",
            ("a", "the hardware address of b", "02:00:00:01:00:00", "none"),
        ),
        ("ip addr flush to 10.0.0.1", ("a", "the address of a", "10.0.0.1", "none, and 1 more")),
    ],
)
def test_changes_of_routes_addresses_and_neighbours_are_found(command, found, network, watched):
    type_at(network, "a", command)
    assert watched() == [found]
    assert watched(finish=True) == []


def test_a_route_that_was_set_back_is_logged_too(network, watched):
    type_at(network, "a", "ip route replace blackhole 10.0.0.2")
    type_at(network, "a", "ip route replace 10.0.0.2 dev l0-1 src 10.0.0.1")
    assert watched() == [("a", "the way to b", "unchanged", SET_BACK)]


def test_a_link_that_is_removed_is_missing_at_both_ends(network, watched):
    before = network.counters()
    type_at(network, "a", "ip link del l0-1")
    gone = "no interface"
    assert sorted(watched()) == [("a", "b", AS_SET, gone), ("b", "a", AS_SET, gone)]
    assert network.counters() == before


def test_a_change_that_was_set_back_is_logged_too(network, watched):
    ((end, index, wanted),) = network.wanted("a")
    assert (end, wanted.describe(None)) == ("b", AS_SET)
    assert network.read_back("a")[index] == wanted
    type_at(network, "a", f"tc qdisc change dev l0-1 root tbf rate 10mbit {QUEUE}")
    type_at(network, "a", f"tc qdisc change dev l0-1 root tbf rate 50mbit {QUEUE}")
    assert watched() == [("a", "b", AS_SET, SET_BACK)]


def test_what_does_not_concern_the_links_is_not_logged(network, watched):
    type_at(network, "a", "ip link add own0 type veth peer name own1")
    type_at(network, "a", "tc qdisc add dev own0 root pfifo")
    type_at(network, "a", "ip addr add 192.168.7.1/24 dev own0")
    type_at(network, "a", "ip link set own0 up")
    type_at(network, "a", "ip route add 192.168.8.0/24 dev own0")
    type_at(network, "a", "ip neigh add 192.168.7.2 lladdr 02:00:00:00:00:07 dev own0")
    assert watched(finish=True) == []


def test_all_values_of_netem_are_in_words():
    link = Link("a", "b", 50.0, 5.0, jitter_ms=0.5, loss_percent=1.0)
    words = read_back.describe("netem", netem_options(link))
    assert words == "rate 50 Mbit/s, delay 5 ms, jitter 0.5 ms, loss 1 %"
    fast = read_back.describe("netem", netem_options(Link("a", "b", 40_000.0, 5.0)))
    assert fast.startswith("rate 40000 Mbit/s")
    shares = {"duplicate_percent": 2.0, "reorder_percent": 3.0, "corrupt_percent": 0.1}
    rough = replace(link, **shares, distribution="normal", correlation_percent=25.0)
    assert read_back.describe("netem", netem_options(rough)) == (
        f"{words}, duplicates 2 % (correlation 25 %), reordering 3 % (correlation 25 %), "
        "corruption 0.1 % (correlation 25 %), correlation of delays 25 %"
    )
    assert read_back.describe("netem", netem_options(link, before=rough)) == words
