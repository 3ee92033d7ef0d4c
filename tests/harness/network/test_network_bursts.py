"""Losses in bursts under the virtual clock: as many and as long as asked for, by the seed alone."""

import math

import numpy as np
import pytest
from probing import datagrams

from trunkline.topologies.links import Link, TopologyError, check_values
from trunkline.topologies.model import Site, Topology

PACKETS = 20_000
QUEUE = {"queue_bytes": 8_000_000}


def network(loss_percent, burst):
    return Topology(
        "bursts",
        (Site("a"), Site("b")),
        (
            Link("a", "b", 100.0, 5.0, 0.0, loss_percent, burst=burst, **QUEUE),
            Link("b", "a", 100.0, 5.0),
        ),
    )


# What runs inside the embedded kernel.


def measure():
    from trunkline.harness.network.mininet_net import MininetNetwork

    found = {}
    for loss_percent, burst in ((2.0, 5.0), (10.0, 20.0), (1.0, 1.0)):
        for seed in (1, 1, 2):
            net = MininetNetwork(network(loss_percent, burst), seed=seed)
            net.start()
            found.setdefault(f"{loss_percent:g}/{burst:g}", []).append(lost(net))
            net.stop()
    net = MininetNetwork(network(0.0, 1.0))
    net.start()
    found["changed"] = [lost(net)]
    for values in ({"loss_percent": 5.0, "burst": 10.0}, {"burst": 1.0}, {"loss_percent": 0.0}):
        net.set_link("a", "b", **values)
        found["changed"].append(lost(net))
    net.stop()
    return found


def lost(net):
    """The numbers of the packets that did not arrive."""
    came = {number for number, _ in datagrams(net, "a", "b", PACKETS)}
    return sorted(set(range(PACKETS)) - came)


# What the tests look at.


@pytest.fixture(scope="module")
def found(embedded):
    return embedded.call(measure)


def judge(numbers, share, burst):
    """Mean loss and mean burst, each as deviations from what was set."""
    bursts = int((np.diff(numbers, prepend=-2) > 1).sum())
    likeness = 1 - 1 / burst / (1 - share) if burst > 1 else 0.0
    spread = math.sqrt(PACKETS * share * (1 - share) * (1 + likeness) / (1 - likeness))
    long = math.sqrt(burst * (burst - 1) / bursts) or math.sqrt(share / bursts)
    mean = burst if burst > 1 else 1 / (1 - share)
    return (len(numbers) - PACKETS * share) / spread, (len(numbers) / bursts - mean) / long


@pytest.mark.parametrize(("kind", "burst"), [("2/5", 5.0), ("10/20", 20.0), ("1/1", 1.0)])
def test_losses_are_as_many_and_as_long_as_set(found, kind, burst):
    share = float(kind.split("/")[0]) / 100
    for numbers in found[kind]:
        loss, length = judge(numbers, share, burst)
        assert abs(loss) < 3
        assert abs(length) < 3


@pytest.mark.parametrize("kind", ["2/5", "10/20"])
def test_bursts_depend_on_the_seed_alone(found, kind):
    first, again, other = found[kind]
    assert first == again
    assert first != other


def test_bursts_begin_and_end_while_the_link_is_in_use(found):
    none, bursts, single, none_again = found["changed"]
    assert none == [] == none_again
    assert all(abs(sigmas) < 3 for sigmas in judge(bursts, 0.05, 10.0))
    assert all(abs(sigmas) < 3 for sigmas in judge(single, 0.05, 1.0))


@pytest.mark.parametrize(
    ("loss_percent", "burst", "text"),
    [
        (1.0, 0.5, "burst 0.5 packets: expected 1 to 10000 packets"),
        (1.0, 1e5, "burst 100000 packets: expected"),
        (80.0, 2.0, "up to 66.67 % with bursts of 2 packets, or 100 %"),
    ],
)
def test_impossible_bursts_are_refused(loss_percent, burst, text):
    with pytest.raises(TopologyError, match=text):
        check_values("link", Link("a", "b", 1.0, 0.0, 0.0, loss_percent, burst=burst))
    check_values("link", Link("a", "b", 1.0, 0.0, 0.0, 100.0, burst=2.0))
