"""The emulated network under the virtual clock: what comes out is what the topology says.

Each network is measured by ordinary sockets and programs inside the embedded kernel, all in one
boot; the tests then look at one thing each.
"""

import os
import re
import socket
import threading
from pathlib import Path

import pytest
from probing import datagrams

from trunkline.harness.measure import pair
from trunkline.harness.measure.effort import EFFORTS
from trunkline.harness.measure.judge import judge
from trunkline.harness.measure.measurement_plan import plan
from trunkline.harness.measure.observation import Observation
from trunkline.harness.measure.site_functions import SiteProcess
from trunkline.harness.network.interface import NetworkError, NetworkOptions, site_ipv6_address
from trunkline.topologies.links import Link
from trunkline.topologies.model import Site, Topology

HEADERS = 14 + 20 + 8  # of Ethernet, IPv4 and UDP

CHAIN = Topology(
    "chain",
    (Site("a"), Site("b"), Site("c")),
    (
        Link("a", "b", 50.0, delay_ms=10.0),
        Link("b", "a", 5.0, delay_ms=25.0),
        Link("b", "c", 100.0, delay_ms=5.0, queue_bytes=100_000),
        Link("c", "b", 100.0, delay_ms=5.0, jitter_ms=2.0),
    ),
)
LOSSY = Topology(
    "lossy",
    (Site("a"), Site("b")),
    (
        Link("a", "b", 100.0, delay_ms=5.0, loss_percent=1.0, queue_bytes=4_000_000),
        Link("b", "a", 100.0, delay_ms=5.0),
    ),
)
FAST = Topology(
    "fast",
    (Site("a"), Site("b")),
    (Link("a", "b", 200.0, delay_ms=1.0, queue_bytes=500_000), Link("b", "a", 200.0, delay_ms=1.0)),
)
SENT = 4000
"""Datagrams over a link that loses some."""

OTHER = NetworkOptions(offloads=True, mtu=9000, initial_window=4)


# What runs inside the embedded kernel.


def measure():
    """Everything below, as JSON; Mininet is imported here because tests outside need none."""
    from trunkline.harness.network.mininet_net import MininetNetwork

    before = footprint()
    network = MininetNetwork(CHAIN)
    network.start()
    found = {
        "small": datagrams(network, "a", "b", 3, period_s=0.1),
        "large": datagrams(network, "b", "a", 3, size=1472, period_s=0.1),
        "burst_small": len(datagrams(network, "b", "c", 2000, size=200)),
        "burst_large": len(datagrams(network, "b", "c", 500, size=1400)),
        "counters": counters(network, "b", "c"),
        "sparse": datagrams(network, "c", "b", 400, period_s=0.02),
        "dense": datagrams(network, "c", "b", 400, period_s=0.0005),
        "observed": [seen.to_json() for seen in observe(network, CHAIN, NetworkOptions())],
        "ping": network.mininet["a"].cmd("ping -c 3 -i 0.5", network.address("c")),
        "pingall": network.mininet.pingAll(),
        "addresses": [host.IP() for host in network.mininet.hosts],
        "features": network.mininet["b"].cmd("ethtool -k l1-0; ip -d link show l1-0"),
        "read_back": at(network, "b", read_back),
        "control": at(network, "a", congestion_control),
        "changed": datagrams(
            network, "a", "b", 400, size=1000, period_s=0.001, before=change_later(network)
        ),
        "dark": darkened(network),
    }
    network.stop()
    network.stop()
    found["footprints"] = [before, footprint()]
    found["losses"] = [losses(MininetNetwork(LOSSY, seed=seed)) for seed in (1, 1, 2)]
    found["other"] = other_options(MininetNetwork(FAST, OTHER))
    found["ipv6"] = ipv6(MininetNetwork(CHAIN, NetworkOptions(ipv6=True)))
    found["refusals"] = refusals(MininetNetwork)
    found["memory"] = memory(MininetNetwork)
    found["footprints"].append(footprint())
    return found


def read_back():
    """What another netlink library reads at a site: device, rate and delay of each link."""
    from pyroute2 import IPRoute

    with IPRoute() as route:
        names = {link["index"]: link.get("ifname") for link in route.get_links()}
        shapers = [
            (names[q["index"]], q.get("options"))
            for q in route.get_qdiscs()
            if q.get("kind") == "netem"
        ]
        return {
            name: (8e-6 * options.get_attr("TCA_NETEM_RATE")["rate"], options["delay"] * 64e-6)
            for name, options in shapers
        }


def change_later(network):
    """Before which datagrams the link changes: another delay, back again, and another rate."""

    def to(**values):
        return lambda: network.set_link("a", "b", **values)

    return {100: to(delay_ms=40.0), 200: to(delay_ms=10.0), 300: to(rate_mbps=4.0)}


def ipv6(network):
    """What ping says over two links, before a carrier was cut and after."""
    network.start()
    ping = f"ping -6 -c 3 -i 0.5 {site_ipv6_address(2)}"
    said = [network.mininet["a"].cmd(ping)]
    network.cut("b", "c", "carrier")
    network.mend("b", "c", "carrier")
    said.append(network.mininet["a"].cmd(ping))
    said.append(network.mininet["a"].cmd("ip -6 -o address"))
    network.stop()
    return said


def darkened(network):
    """What arrives over a link that loses everything."""
    network.set_link("a", "b", loss_percent=100.0)
    return datagrams(network, "a", "b", 10)


def at(network, site, function):
    """What a function returns at a site."""
    with SiteProcess(network, site, lambda _: function()) as remote:
        return remote.receive()


def congestion_control():
    """What an ordinary program's connections get at a site."""
    return Path("/proc/sys/net/ipv4/tcp_congestion_control").read_text().strip()


def observe(network, topology, options):
    """What the fidelity self-check sees of both directions of every link."""
    for planned in plan(topology, options, EFFORTS["virtual"]):
        yield from pair.measure(network, planned, with_foreign=False)


def counters(network, src, dst):
    found = network.counters()[src, dst]
    return [found.packets, found.bytes, found.queue_drops, found.losses, found.drops]


def losses(network):
    """Which of SENT datagrams were lost, and how many the link says it lost."""
    network.start()
    try:
        arrived = {number for number, _ in datagrams(network, "a", "b", SENT, size=100)}
        return [sorted(set(range(SENT)) - arrived), network.counters()["a", "b"].losses]
    finally:
        network.stop()


def other_options(network):
    """Jumbo packets and offloads, where only an administrator may make `cubic` the default."""
    Path("/proc/sys/net/ipv4/tcp_allowed_congestion_control").write_text("reno")
    network.start()
    try:
        return {
            "observed": [seen.to_json() for seen in observe(network, FAST, OTHER)],
            "features": network.mininet["a"].cmd("ethtool -k l0-1; ip -d link show l0-1"),
            "route": network.mininet["a"].cmd("ip route get 10.0.0.2"),
        }
    finally:
        network.stop()


def memory(build):
    """TCP's limit, in pages; where 16 MB to send meet it, and where a limit of 8 MB."""
    limit = Path("/proc/sys/net/ipv4/tcp_mem")
    lifted = limit.read_text()
    short = []
    for pages in (lifted, "2000 2000 2000"):
        limit.write_text(pages)
        network = build(FAST)
        network.start()
        a, b = (network.mininet[site].namespace for site in "ab")
        with b.inside():
            server = socket.create_server((network.address("b"), 7000))
        with server, a.inside(), socket.create_connection(server.getsockname()) as client:
            client.setsockopt(socket.SOL_SOCKET, 32, 2**26)  # SO_SNDBUFFORCE
            client.setblocking(False)
            client.send(bytes(16_000_000))
        short.append(network.short_of_memory())
        network.stop()
    limit.write_text(lifted)
    return [lifted.split(), str(os.sysconf("SC_PHYS_PAGES")), short]


def refusals(build):
    """What is said when a network cannot be built, or changed."""
    with pytest.raises(NetworkError) as built:
        build(LOSSY, NetworkOptions(congestion_control="hope")).start()
    network = build(LOSSY)
    network.start()
    with pytest.raises(NetworkError) as changed:
        network.set_link("a", "b", loss_percent=101.0)
    network.stop()
    return [str(built.value), str(changed.value)]


def footprint():
    """Child processes, open files, interfaces and threads: what a network could leave behind."""
    try:
        children = os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        children = None
    return [
        children,
        len(list(Path("/proc/self/fd").iterdir())),
        sorted(name for _, name in socket.if_nameindex()),
        threading.active_count(),
    ]


# What is expected of it.


@pytest.fixture(scope="module")
def found(embedded):
    return embedded.call(measure)


def transmission_ms(payload_bytes, rate_mbps):
    return (payload_bytes + HEADERS) * 8e-3 / rate_mbps


def test_a_packet_takes_the_delay_of_its_direction_and_its_transmission_time(found):
    for _, delay_ns in found["small"]:
        assert delay_ns / 1e6 == pytest.approx(10 + transmission_ms(64, 50), abs=0.01)
    for _, delay_ns in found["large"]:
        assert delay_ns / 1e6 == pytest.approx(25 + transmission_ms(1472, 5), abs=0.01)


def readings(topology, options, observed):
    """What the self-check says of them, by quantity and link."""
    plans = plan(topology, options, EFFORTS["virtual"])
    rows = judge(topology, options, plans, map(Observation.from_json, observed), "virtual")
    return {(row.quantity, row.src + row.dst): row for row in rows}


def test_the_self_check_finds_every_link_as_it_was_set(found):
    rows = readings(CHAIN, NetworkOptions(), found["observed"])
    judged = {at: row.outcome for at, row in rows.items() if row.outcome}
    assert set(judged.values()) == {"pass"}
    assert len(judged) == 4 * 7
    narrow = {"goodput": 0.2, "rate": 0.05, "delay": 0.01, "jitter": 0.01}  # %, %, ms, ms
    for (quantity, ends), row in rows.items():
        if quantity in narrow and ends != "cb":  # that link has jitter: packets come in bunches
            assert row.error == pytest.approx(0, abs=narrow[quantity]), row


def test_another_library_reads_the_rates_and_delays_that_were_set(found):
    assert found["read_back"] == {"l1-0": [5.0, 25.0], "l1-2": [100.0, 5.0]}


def test_the_queue_holds_its_bytes_whatever_the_packets_sizes(found):
    assert found["burst_small"] == pytest.approx(100_000 // (200 + HEADERS), abs=1)
    assert found["burst_large"] == pytest.approx(100_000 // (1400 + HEADERS), abs=1)


def test_counters_tell_what_a_link_carried_and_what_did_not_fit(found):
    packets, carried_bytes, queue_drops, lost, drops = found["counters"]
    small, large = found["burst_small"], found["burst_large"]
    assert (packets, lost) == (small + large, 0)
    assert queue_drops == drops == 2500 - small - large
    assert carried_bytes == small * (200 + HEADERS) + large * (1400 + HEADERS)


def test_tcp_may_use_all_memory_and_where_it_may_not_its_sites_are_known(found):
    limits, pages, (by_default, limited) = found["memory"]
    assert limits == [pages] * 3
    assert (by_default, limited) == ([], ["a"])


def test_jitter_is_uniform_around_the_delay(found):
    extra_ms = [ns / 1e6 - 5 - transmission_ms(64, 100) for _, ns in found["sparse"]]
    assert len(extra_ms) == 400
    assert -2 <= min(extra_ms) < -1.9
    assert 1.9 < max(extra_ms) <= 2.01
    assert sum(extra_ms) / 400 == pytest.approx(0, abs=3 * 2 / 3**0.5 / 400**0.5)


def test_jitter_does_not_reorder(found):
    assert [number for number, _ in found["dense"]] == list(range(400))


def test_ping_crosses_sites_without_a_direct_link(found):
    round_trips = re.findall(r"time=([\d.]+) ms", found["ping"])
    assert len(round_trips) == 3
    for round_trip in round_trips:
        assert float(round_trip) == pytest.approx(10 + 5 + 25 + 5, abs=2 + 0.3)


def test_sites_have_ipv6_addresses_if_asked_and_keep_their_routes_after_a_cut(found):
    *pings, addresses = found["ipv6"]
    for said in pings:
        round_trips = [float(each) for each in re.findall(r"time=([\d.]+) ms", said)]
        assert len(round_trips) == 3, said
        assert round_trips == pytest.approx([10 + 5 + 25 + 5] * 3, abs=2 + 0.3)
    assert re.findall(r"(\w+) +inet6 (\S+)", addresses) == [
        ("lo", "::1/128"),
        ("eth0", "fd00::1/128"),
    ]


def test_every_site_reaches_every_other_at_the_address_that_mininet_says(found):
    assert found["pingall"] == 0
    assert found["addresses"] == ["10.0.0.1", "10.0.0.2", "10.0.0.3"]


def test_without_offloads_every_packet_is_a_packet(found):
    for feature in ("tcp-segmentation-offload", "generic-segmentation", "generic-receive"):
        assert re.search(rf"{feature}[a-z-]*: off", found["features"])
    assert "gso_max_segs 1 " in found["features"]
    assert found["control"] == "cubic"


def test_other_options_take_effect(found):
    other = found["other"]
    assert "tcp-segmentation-offload: on" in other["features"]
    assert "mtu 9000" in other["features"]
    assert "initcwnd 4" in other["route"]
    assert "congctl cubic" in other["route"]
    row = readings(FAST, OTHER, other["observed"])["goodput", "ab"]
    assert row.expected == pytest.approx(200 * 8948 / 9014)
    assert row.error == pytest.approx(0, abs=1)


def test_a_link_changes_in_place_without_losing_or_reordering_a_packet(found):
    numbers = [number for number, _ in found["changed"]]
    assert numbers == list(range(400))


def test_a_changed_delay_and_rate_take_effect(found):
    delay_ms = [ns / 1e6 for _, ns in found["changed"]]
    sent = transmission_ms(1000, 50)
    assert delay_ms[10:80] == pytest.approx([10 + sent] * 70, abs=0.02)
    assert delay_ms[105:180] == pytest.approx([40 + sent] * 75, abs=0.02)
    assert delay_ms[250:280] == pytest.approx([10 + sent] * 30, abs=0.02)
    growth_ms = (delay_ms[399] - delay_ms[310]) / 89
    assert growth_ms == pytest.approx(transmission_ms(1000, 4) - 1, abs=0.01)


def test_a_link_that_loses_everything_delivers_nothing(found):
    assert found["dark"] == []


def test_losses_are_as_frequent_as_asked_for_and_counted(found):
    for lost, counted in found["losses"]:
        assert len(lost) == counted
        assert len(lost) == pytest.approx(0.01 * SENT, abs=3 * (SENT * 0.01 * 0.99) ** 0.5)


def test_losses_depend_on_the_seed_alone(found):
    (first, _), (again, _), (other, _) = found["losses"]
    assert first == again
    assert first != other


def test_what_cannot_be_built_is_refused_with_a_reason(found):
    control, loss = found["refusals"]
    assert control.startswith("site a: congestion_control hope: this kernel has ")
    assert control.endswith("; remedy: modprobe tcp_hope")
    assert loss == "link a -> b: loss 101 %: expected 0 to 100 %"


def test_nothing_is_left_behind_by_a_run_or_a_failed_start(found):
    before, after, after_failures = found["footprints"]
    assert before == after == after_failures
