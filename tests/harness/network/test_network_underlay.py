"""Routers and access links under the virtual clock: overlay links share what they have in common.

Everything is measured by ordinary sockets in one boot of the embedded kernel.
"""

import contextlib
import os
import socket
import time
from itertools import pairwise
from pathlib import Path

import pytest
from probing import datagrams

from trunkline.agents.planning.fluid.fair_shares import compute_fair_rates
from trunkline.harness.background.background_processes import BackgroundTraffic
from trunkline.harness.background.flows import Background, leave_rates, list_flows
from trunkline.harness.measure.site_functions import SiteProcess
from trunkline.harness.network.interface import payload_share
from trunkline.topologies.links import Link
from trunkline.topologies.model import Site, Topology
from trunkline.topologies.rates.access import AccessLink, add_access_links

PORT = 6100
LEAVES = tuple(f"n{number}" for number in range(1, 9))
SHARED_MBPS, MEGABYTES = 5.0, 1.875
"""The link that two transfers share, and the size of each."""

# The last of eight pulls has the uplink to itself, and CUBIC takes up to a second to use it. In six
# repetitions at 100 Mbit/s, eight pulls of 15 MB took up to 7 percent longer than fair, those of
# 40 MB 3.5 percent. At 6.25 Mbit/s, 2.5 MB take as long as these, with a sixteenth of the packets.
MEGABYTES_PULLED = 2.5


# A constant flow over the server's uplink.
BACKGROUND_MBPS = 1.25


def both(src, dst, rate_mbps, delay_ms, queue_bytes=None):
    return [
        Link(a, b, rate_mbps, delay_ms, queue_bytes=queue_bytes)
        for a, b in ((src, dst), (dst, src))
    ]


# a and b are at router r, c and d at router q. Another way from r to q is longer.
DUMBBELL = Topology(
    "dumbbell",
    tuple(Site(name) for name in "abcd"),
    (
        *both("a", "r", 1000.0, 1.0, 600_000),
        *both("b", "r", 1000.0, 1.0, 600_000),
        *both("r", "q", SHARED_MBPS, 10.0, 25_000),
        *both("q", "c", 1000.0, 1.0, 600_000),
        *both("q", "d", 1000.0, 1.0, 600_000),
        *both("r", "far", 1000.0, 30.0),
        *both("far", "q", 1000.0, 30.0),
    ),
    ("r", "q", "far"),
)
UPLINK = add_access_links(
    Topology(
        "uplink",
        (Site("server"), *map(Site, LEAVES)),
        tuple(link for leaf in LEAVES for link in both("server", leaf, 1000.0, 10.0, 4_000_000)),
    ),
    [AccessLink(6.25, 1000.0, ("server",), delay_ms=1.0, queue_bytes=75_000)],
)


# What runs inside the embedded kernel.


def measure():
    from trunkline.harness.network.mininet_net import MininetNetwork

    network = MininetNetwork(DUMBBELL)
    network.start()
    found = {
        "pingall": network.mininet.pingAll(),
        "small": datagrams(network, "a", "c", 3, period_s=0.1),
        "route": [
            network.mininet["a"].cmd(f"ping -c 1 -W 1 -t {hops}", network.address("d"))
            for hops in (1, 2, 3)
        ],
        "alone": transfer(network, [("a", "c")]),
        "shared": transfer(network, [("a", "c"), ("b", "d")]),
        "counters": carried(network, "r", "q"),
    }
    network.stop()
    network = MininetNetwork(UPLINK)
    network.start()
    found["pulls"] = transfer(network, [("server", leaf) for leaf in LEAVES], MEGABYTES_PULLED)
    with flowing(network, Background("server", "n1", BACKGROUND_MBPS)):
        found["beside"] = transfer(network, [("server", x) for x in LEAVES], MEGABYTES_PULLED)
    network.set_link("server", "server-gw", rate_mbps=3.125)
    pulls = [("server", leaf) for leaf in LEAVES]
    found["slower"] = transfer(network, pulls, MEGABYTES_PULLED / 2)
    network.stop()
    return found


@contextlib.contextmanager
def flowing(network, *entries):
    """Background traffic until the block ends."""
    flows = list_flows(entries)
    background = BackgroundTraffic(flows, network, 1, 1500, Path(os.environ["TMPDIR"]))
    with contextlib.closing(background):
        background.start(lambda *_: None, lambda _: None)
        background.begin(time.monotonic_ns())
        yield
        for _ in background.finish():
            pass


def carried(network, src, dst):
    return network.counters()[src, dst].bytes


def transfer(network, pairs, megabytes=MEGABYTES):
    """Seconds from the common start until each receiver of a TCP transfer has all bytes."""
    start_s = time.time() + 2.0
    receivers = [
        SiteProcess(network, dst, make_receiver(network, dst, PORT + n, start_s, megabytes))
        for n, (_, dst) in enumerate(pairs)
    ]
    senders = [
        SiteProcess(network, src, make_sender(network, dst, PORT + n, start_s, megabytes))
        for n, (src, dst) in enumerate(pairs)
    ]
    took = [receiver.receive() for receiver in receivers]
    for process in (*senders, *receivers):
        process.__exit__(None, None, None)
    return took


def make_sender(network, dst, port, start_s, megabytes):
    def send(_):
        time.sleep(start_s - time.time())
        with socket.create_connection((network.address(dst), port)) as out:
            out.sendall(bytes(round(megabytes * 1e6)))
            out.shutdown(socket.SHUT_WR)
            out.recv(1)

    return send


def make_receiver(network, dst, port, start_s, megabytes):
    def receive(_):
        with socket.create_server((network.address(dst), port)) as server:
            incoming, _ = server.accept()
            left = round(megabytes * 1e6)
            while left:
                left -= len(incoming.recv(1 << 16))
            return time.time() - start_s

    return receive


# What the tests look at.


@pytest.fixture(scope="module")
def found(embedded):
    return embedded.call(measure)


def expected_s(topology, pairs, megabytes=MEGABYTES, flows=()):
    """When transfers of the same size end by max-min fairness, without propagation and TCP."""
    paths = {pair: tuple(pairwise(topology.path(*pair))) for pair in pairs}
    left_mbps = leave_rates(topology.rates_mbps(), topology, flows)
    rates = compute_fair_rates(paths, left_mbps)
    return [8 * megabytes / (rates[pair] * payload_share(1500)) for pair in pairs]


def test_every_site_and_router_reaches_every_other(found):
    assert found["pingall"] == 0


def test_a_packet_takes_the_delays_of_its_path(found):
    sent_ms = (64 + 42) * 8e-3 * (1 / 1000 + 1 / SHARED_MBPS + 1 / 1000)
    for _, delay_ns in found["small"]:
        assert delay_ns / 1e6 == pytest.approx(12.0 + sent_ms, abs=0.1)


def test_packets_take_the_shortest_path(found):
    for node, said in zip(("r", "q", "d"), found["route"], strict=True):
        assert f"rom 10.0.0.{DUMBBELL.rank(node) + 1}" in said


def test_two_transfers_share_the_link_that_both_cross(found):
    (alone,) = found["alone"]
    assert alone == pytest.approx(*expected_s(DUMBBELL, [("a", "c")]), rel=0.05)
    shared = expected_s(DUMBBELL, [("a", "c"), ("b", "d")])
    assert max(found["shared"]) == pytest.approx(shared[0], rel=0.05)


def test_the_shared_link_counts_the_bytes_of_both(found):
    assert found["counters"] > 3 * MEGABYTES * 1_000_000


@pytest.mark.parametrize(("kind", "slowdown"), [("pulls", 1), ("slower", 2)])
def test_eight_pulls_share_the_uplink_of_their_server(found, kind, slowdown):
    """Half of the bytes at half of the rate, too."""
    pairs = [("server", leaf) for leaf in LEAVES]
    fair = expected_s(UPLINK, pairs, MEGABYTES_PULLED / slowdown)
    assert max(found[kind]) == pytest.approx(max(fair) * slowdown, rel=0.05)


def test_eight_pulls_beside_background_traffic_share_what_it_leaves(found):
    flows = list_flows([Background("server", "n1", BACKGROUND_MBPS)])
    pairs = [("server", leaf) for leaf in LEAVES]
    fair = max(expected_s(UPLINK, pairs, MEGABYTES_PULLED, flows))
    assert fair == pytest.approx(max(expected_s(UPLINK, pairs, MEGABYTES_PULLED)) / 0.8)
    assert max(found["beside"]) == pytest.approx(fair, rel=0.05)
