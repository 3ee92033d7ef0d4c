"""Links that change, fail and are mended while traffic is on them, under the virtual clock.

Everything is measured by ordinary sockets in one boot of the embedded kernel; the tests then look
at one thing each.
"""

import contextlib
import itertools
import socket
import time

import pytest
from probing import PORT, QUIET_S, datagrams, receiver, sender, wait_until

from trunkline.harness.measure.measurement_plan import Train
from trunkline.harness.measure.site_functions import SiteProcess
from trunkline.topologies.links import Link
from trunkline.topologies.model import Site, Topology

MS = 10**6
PAIR = Topology(
    "pair",
    (Site("a"), Site("b"), Site("c")),
    (
        Link("a", "b", 40.0, delay_ms=20.0, queue_bytes=500_000),
        Link("b", "a", 40.0, delay_ms=20.0, queue_bytes=500_000),
        Link("b", "c", 100.0, delay_ms=1.0),
        Link("c", "b", 100.0, delay_ms=1.0),
    ),
)
PAYLOAD = 1000
WIRE = Train(1, PAYLOAD, 1, 0.0).wire_bytes


# What runs inside the embedded kernel.


def measure():
    """Everything below, as JSON."""
    from trunkline.harness.network.mininet_net import MininetNetwork

    network = MininetNetwork(PAIR)
    network.start()
    try:
        return {
            "slower": burst(network, [(30, {"rate_mbps": 10.0})]),
            "faster": burst(network, [(0, {"rate_mbps": 10.0}), (100, {"rate_mbps": 80.0})]),
            "nearer": burst(network, [(7, {"delay_ms": 5.0}), (42, {"delay_ms": 20.0})]),
            "occupied": occupied(network),
            "redrawn": redrawn(network),
            "hole": outage(network, "blackhole"),
            "carrier": outage(network, "carrier"),
            "both_at_once": both_at_once(network),
            "configured": configured(network),
        }
    finally:
        network.stop()


def burst(network, changes):
    """300 datagrams from a to b at once, changes so many ms later; (number, ns) of each arrival."""
    with sender(network, "a", "b", PAYLOAD) as out, receiver(network, "b") as into:
        started_ns = time.time_ns()
        if changes[0][0] == 0:
            network.set_link("a", "b", **changes.pop(0)[1])
        out.send(0, 300)
        for at_ms, values in changes:
            wait_until(started_ns + at_ms * MS)
            network.set_link("a", "b", **values)
            if "delay_ms" in values:
                out.send(300 + at_ms, 1)
        found = arrivals(into, started_ns)
    network.set_link("a", "b", rate_mbps=40.0, delay_ms=20.0)
    return found


def arrivals(into, started_ns):
    """(number, ns since the start) of each datagram that arrives until all is quiet."""
    time.sleep(QUIET_S)
    return [(number, came_ns - started_ns) for _, number, _, came_ns in into.drain().tolist()]


def occupied(network):
    """Half a queue at 40 Mbit/s, then another rate, then far too much: how many fit?"""
    fitted = []
    for rate_mbps in (10.0, 80.0):
        with sender(network, "a", "b", PAYLOAD) as out, receiver(network, "b") as into:
            out.send(0, 240)
            network.set_link("a", "b", rate_mbps=rate_mbps)
            out.send(240, 760)
            fitted.append(len(arrivals(into, 0)))
        network.set_link("a", "b", rate_mbps=40.0)
    return fitted


def redrawn(network):
    """A greedy TCP flow at 20, 5 and 40 Mbit/s, 6 s each: its goodput in the last 4 s of each."""
    address, device = (network.address("c"), PORT), network.device("b", "c")

    def accept(line):
        with socket.create_server(address) as server:
            line.send("ready")
            connection, _ = server.accept()
            buffer, total, counts = bytearray(1 << 20), 0, []
            while count := connection.recv_into(buffer):
                total += count
                counts.append((time.time_ns(), total))
            return counts

    def push(_):
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, device.encode())
            client.connect(address)
            end_s = time.monotonic() + 19
            while time.monotonic() < end_s:
                client.sendall(bytes(1 << 16))

    with SiteProcess(network, "c", accept) as server:
        server.receive()
        started_ns = time.time_ns()
        with SiteProcess(network, "b", push) as client:
            for number, rate_mbps in enumerate((20.0, 5.0, 40.0)):
                wait_until(started_ns + number * 6_000 * MS)
                network.set_link("b", "c", rate_mbps=rate_mbps)
            client.receive()
        counts = server.receive()
    goodputs = []
    for number in range(3):
        end_ns = started_ns + (number + 1) * 6_000 * MS
        inside = [(t, n) for t, n in counts if end_ns - 4_000 * MS <= t < end_ns]
        (first_ns, first), (last_ns, last) = inside[0], inside[-1]
        goodputs.append((last - first) * 8e3 / (last_ns - first_ns))
    return goodputs


def outage(network, how):
    """A datagram every ms each way; a -> b is cut from 50 ms to 100 ms. Who arrived when?"""
    before = network.counters()["a", "b"]
    failed = 0
    with contextlib.ExitStack() as stack:
        receivers = [stack.enter_context(receiver(network, dst)) for dst in "ba"]
        senders = [stack.enter_context(sender(network, *ends, PAYLOAD)) for ends in ("ab", "ba")]
        started_ns = time.time_ns()
        for number in range(150):
            wait_until(started_ns + number * MS)
            if number == 50:
                network.cut("a", "b", how)
                network.cut("a", "b", how)
            if number == 100:
                network.mend("a", "b", how)
                network.mend("a", "b", how)
            for out in senders:
                try:
                    out.send(number, 1)
                except OSError:
                    failed += 1
        arrived = [arrivals(into, started_ns) for into in receivers]
    swallowed = network.counters()["a", "b"].swallowed - before.swallowed
    return {"arrived": arrived, "failed": failed, "swallowed": swallowed}


def both_at_once(network):
    """A blackhole survives that the carrier goes and comes; what it swallowed stays counted."""
    network.cut("a", "b", "blackhole")
    before = network.counters()["a", "b"].swallowed
    network.cut("b", "a", "carrier")
    network.mend("a", "b", "carrier")
    found = datagrams(network, "a", "b", 10)
    network.mend("a", "b", "blackhole")
    return [found, network.counters()["a", "b"].swallowed - before]


def configured(network):
    """What iproute2 says of both ends, before a carrier outage, during and after it."""
    commands = ("ip route", "ip neigh", "tc qdisc", "tc filter show dev {} egress", "ip link")

    def said():
        ends = ((network.mininet["a"], "l0-1"), (network.mininet["b"], "l1-0"))
        return [host.cmd(each.format(device)) for host, device in ends for each in commands]

    before = said()
    network.cut("a", "b", "carrier")
    during = said()
    network.mend("a", "b", "carrier")
    return [before, during, said(), network.mininet.pingAll()]


# What is expected of it.


@pytest.fixture(scope="module")
def found(embedded):
    return embedded.call(measure)


def times_ms(rate_mbps):
    """One datagram's transmission time."""
    return WIRE * 8e-3 / rate_mbps


def gaps_ms(arrived):
    return [(b - a) / 1e6 for (_, a), (_, b) in itertools.pairwise(arrived)]


@pytest.mark.parametrize("name", ["slower", "faster"])
def test_a_new_rate_loses_and_reorders_nothing(found, name):
    assert [number for number, _ in found[name]] == list(range(300))


def test_a_lower_rate_holds_for_what_is_queued_but_not_for_what_is_on_the_wire(found):
    gaps = gaps_ms(found["slower"])
    served = int(30 / times_ms(40.0))  # had left for the wire when the rate changed, after 30 ms
    assert gaps[: served - 1] == pytest.approx([times_ms(40.0)] * (served - 1), abs=0.01)
    assert times_ms(40.0) < gaps[served - 1] < times_ms(10.0)  # was being served
    assert gaps[served:] == pytest.approx([times_ms(10.0)] * (299 - served), abs=0.01)


def test_a_higher_rate_holds_for_what_is_queued(found):
    arrived = found["faster"]
    left_ms = (300 - 100 / times_ms(10.0)) * times_ms(80.0)
    assert arrived[-1][1] / 1e6 == pytest.approx(20 + 100 + left_ms, abs=0.2)
    assert min(gaps_ms(arrived)) == pytest.approx(times_ms(80.0), abs=0.01)


def test_a_new_delay_lets_nobody_overtake(found):
    order = [number for number, _ in found["nearer"]]
    assert order == [*range(300), 307, 342]


def test_a_new_delay_holds_for_what_has_not_left_for_the_wire(found):
    expected_ms = [0.0]
    for number in range(300):
        leaves_ms = (number + 1) * times_ms(40.0)
        delay_ms = 5 if 7 < leaves_ms <= 42 else 20
        expected_ms.append(max(leaves_ms + delay_ms, expected_ms[-1]))
    arrived_ms = [ns / 1e6 for number, ns in found["nearer"] if number < 300]
    assert arrived_ms == pytest.approx(expected_ms[1:], abs=0.01)


def test_the_queue_knows_what_is_queued_when_the_rate_changes(found):
    assert found["occupied"] == pytest.approx([500_000 // WIRE] * 2, abs=1)


def test_a_long_tcp_flow_gets_every_rate_that_it_meets(found):
    share = 1448 / 1514
    assert found["redrawn"] == pytest.approx([20 * share, 5 * share, 40 * share], rel=0.01)


def test_a_blackhole_swallows_one_direction_from_the_first_moment_to_the_last(found):
    (there, back), swallowed = found["hole"]["arrived"], found["hole"]["swallowed"]
    assert [number for number, _ in back] == list(range(150))
    lost = sorted(set(range(150)) - {number for number, _ in there})
    assert lost == list(range(30, 80)) or len(lost) == pytest.approx(50, abs=1)
    assert not [at_ns for _, at_ns in there if 50.1 < at_ns / 1e6 < 99.9]
    assert (swallowed, found["hole"]["failed"]) == (len(lost), 0)


def test_a_lost_carrier_stops_both_directions_and_both_sites_know(found):
    assert found["carrier"]["failed"] == 2 * 50
    for arrived in found["carrier"]["arrived"]:
        numbers = [number for number, _ in arrived]
        assert numbers[-50:] == list(range(100, 150))
        assert not [at_ns for _, at_ns in arrived if 50.1 < at_ns / 1e6 < 100]
        assert arrived[-50][1] / 1e6 == pytest.approx(100 + 20 + times_ms(40.0), abs=0.1)


def test_a_blackhole_stays_while_the_carrier_goes_and_comes(found):
    assert found["both_at_once"] == [[], 10]


def test_a_mended_carrier_is_configured_as_before(found):
    before, during, after, lost_percent = found["configured"]
    assert before != during
    assert before == after
    assert lost_percent == 0
