"""The emulated network in this machine's own kernel; needs root."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from trunkline.harness.network.interface import NetworkError, NetworkOptions
from trunkline.harness.network.mininet_net import MininetNetwork
from trunkline.topologies.links import Link
from trunkline.topologies.model import Site, Topology

ROOT = Path(__file__).parents[3]

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="builds namespaces: needs root")

CHAIN = Topology(
    "chain",
    (Site("a"), Site("b"), Site("c")),
    tuple(Link(src, dst, 50.0) for src, dst in ("ab", "ba", "bc", "cb")),
)

ATTEMPT = """
import os
from trunkline.harness.network.mininet_net import MininetNetwork
from trunkline.harness.network.interface import NetworkError
from trunkline.topologies.links import Link
from trunkline.topologies.model import Site, Topology
links = (Link("a", "b", 50.0), Link("b", "a", 50.0))
network = MininetNetwork(Topology("pair", (Site("a"), Site("b")), links))
if os.geteuid() == 0:
    os.setresuid(65534, 65534, 65534)
try:
    network.start()
except NetworkError as error:
    print(error)
"""


def footprint():
    return [
        len(list(Path("/proc/self/fd").iterdir())),
        Path(f"/proc/self/task/{os.getpid()}/children").read_text(),
        sorted(name for _, name in socket.if_nameindex()),
        Path("/proc/sys/net/ipv4/tcp_allowed_congestion_control").read_text(),
    ]


def received(network, src, dst):
    said = network.mininet[src].cmd("ping -c 2 -i 0.01 -W 2", network.address(dst))
    return "2 received" in said


@needs_root
def test_every_site_reaches_every_other_and_nothing_is_left():
    before = footprint()
    network = MininetNetwork(CHAIN)
    network.start()
    try:
        assert received(network, "a", "b")
        assert received(network, "c", "a")
        assert {pair: count.packets for pair, count in network.counters().items()} == {
            ("a", "b"): 4,
            ("b", "a"): 4,
            ("b", "c"): 2,
            ("c", "b"): 2,
        }
        network.set_link("a", "b", rate_mbps=20.0)
        assert "rate 20Mbit" in network.mininet["a"].cmd("tc qdisc show dev l0-1")
    finally:
        network.stop()
    assert footprint() == before


@needs_root
def test_networks_side_by_side_are_separate():
    first, second = MininetNetwork(CHAIN), MininetNetwork(CHAIN)
    first.start()
    try:
        second.start()
        assert received(second, "a", "c")
        second.stop()
        assert received(first, "a", "c")
    finally:
        first.stop()
        second.stop()


@needs_root
def test_a_network_that_cannot_be_built_is_refused_and_leaves_nothing():
    before = footprint()
    network = MininetNetwork(CHAIN, NetworkOptions(congestion_control="hope"))
    with pytest.raises(NetworkError, match="site a: congestion_control hope: "):
        network.start()
    assert footprint() == before


def test_building_without_the_right_to_is_refused_with_the_remedy():
    asked = subprocess.run(
        [sys.executable, "-c", ATTEMPT], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert asked.stdout.strip() == (
        "this machine: building a network needs CAP_NET_ADMIN and CAP_SYS_ADMIN; "
        f"this process (user id {os.geteuid() or 65534}) has not; "
        "remedy: backend: embedded, or run as root"
    )
