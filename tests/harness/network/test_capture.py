"""Packet capture: the form of the files, and what links of the embedded kernel deliver."""

import json
import struct
import time
from dataclasses import astuple
from pathlib import Path

import pytest
import xxhash
from inside import run_all
from probing import datagrams

from trunkline.agents.events.run_events import LinkCapture
from trunkline.harness.network import capture
from trunkline.harness.scenario.loading import parse, resolve
from trunkline.topologies.links import Link
from trunkline.topologies.model import Site, Topology

SNAP_BYTES = 60
PAYLOAD_BYTES = 1000
PACKET_BYTES = PAYLOAD_BYTES + 8 + 20 + 14
COUNT, PERIOD_S = 100, 0.03
DELAYS_MS = {("a", "r"): 10.0, ("r", "a"): 2.0, ("r", "b"): 5.0, ("b", "r"): 1.0}
RATE_MBPS = 100.0
TAPS = [("a", "r"), ("r", "b"), ("b", "r")]

NETWORK = Topology(
    "line",
    (Site("a"), Site("b")),
    tuple(
        Link(*ends, RATE_MBPS, delay_ms, loss_percent=20.0 * (ends == ("r", "b")))
        for ends, delay_ms in DELAYS_MS.items()
    ),
    ("r",),
)

SCENARIO = """
name: captured
topology: {builder: full_mesh, sites: 3, rates: 20 Mbit/s, delays: 10 ms}
workload: {kind: synthetic, model: 400 kB, compute: 0.1 s}
scheme: {policy: bsp, plan: ring}
stop: {rounds: 2}
outputs: {plots: false}
capture: {links: [n1-n2]}
"""


def read_pcap(path: Path) -> tuple[int, list[tuple[int, int, bytes]]]:
    """The snap length of a file, and each packet's time in ns, size and kept bytes."""
    data = path.read_bytes()
    magic, major, minor, zone, accuracy, snap, link_type = struct.unpack_from("<IHHIIII", data)
    assert (magic, major, minor, zone, accuracy, link_type) == (0xA1B23C4D, 2, 4, 0, 0, 1)
    at, found = 24, []
    while at < len(data):
        seconds, nanoseconds, kept, size = struct.unpack_from("<IIII", data, at)
        found.append((seconds * 10**9 + nanoseconds, size, data[at + 16 : at + 16 + kept]))
        at += 16 + kept
    assert at == len(data)
    return snap, found


def test_a_file_is_in_the_pcap_format_with_nanoseconds(tmp_path):
    record = capture.file_record(2_000_000_003, b"abc", 1514)
    assert record.hex() == "020000000300000003000000ea050000616263"
    header = capture.file_header(96)
    assert header.hex() == "4d3cb2a10200040000000000000000006000000001000000"
    (tmp_path / "a_b.pcap").write_bytes(header + record)
    assert read_pcap(tmp_path / "a_b.pcap") == (96, [(2_000_000_003, 1514, b"abc")])


def test_the_name_of_a_file_says_the_direction():
    assert capture.file_name(("eu-west", "us")) == "eu-west_us.pcap"


def test_without_links_nothing_is_made(tmp_path):
    with capture.Capture({}, tmp_path / "capture", 96) as none:
        none.begin(1)
        assert none.end() == ()
    assert list(tmp_path.iterdir()) == []


# What runs inside the embedded kernel.


def measure(home: str) -> dict:
    from trunkline.harness.network.mininet_net import MininetNetwork

    network = MininetNetwork(NETWORK)
    network.start()
    folder = Path(home) / "capture"
    taps = {ends: network.tap(*ends) for ends in TAPS}
    with capture.Capture(taps, folder, SNAP_BYTES) as captured:
        datagrams(network, "a", "b", 1)  # before the epoch
        before = {ends: network.counters()[ends] for ends in TAPS}
        epoch_ns = time.monotonic_ns()
        captured.begin(epoch_ns)
        left_ns = []
        events = {
            number: lambda: left_ns.append(time.monotonic_ns() - epoch_ns)
            for number in range(COUNT)
        }
        arrived = datagrams(
            network, "a", "b", COUNT, size=PAYLOAD_BYTES, period_s=PERIOD_S, before=events
        )
        network.cut("r", "b", "carrier")
        time.sleep(1)
        network.mend("r", "b", "carrier")
        back = datagrams(network, "b", "a", 3, size=PAYLOAD_BYTES)
        network.cut("b", "r", "blackhole")
        swallowed = datagrams(network, "b", "a", 2, size=PAYLOAD_BYTES)
        after = {ends: network.counters()[ends] for ends in TAPS}
        links = captured.end()
    network.stop()
    return {
        "arrived": len(arrived),
        "back": [len(back), len(swallowed)],
        "left_ns": left_ns,
        "links": [list(astuple(link)) for link in links],
        "counted": [
            [after[e].packets - before[e].packets, after[e].bytes - before[e].bytes] for e in TAPS
        ],
    }


# What the tests look at.


@pytest.fixture(scope="module")
def found(embedded, tmp_path_factory):
    home = tmp_path_factory.mktemp("captures")
    said = embedded.call(measure, str(home), visible=[home])
    folder = home / "capture"
    said["contents"] = {ends: (folder / capture.file_name(ends)).read_bytes() for ends in TAPS}
    said["files"] = {ends: read_pcap(home / "capture" / capture.file_name(ends)) for ends in TAPS}
    return said


def test_a_file_has_the_packets_and_bytes_that_the_link_counted(found):
    for ends, counted, link in zip(TAPS, found["counted"], found["links"], strict=True):
        _, packets = found["files"][ends]
        assert [len(packets), sum(size for _, size, _ in packets)] == counted
        digest = xxhash.xxh3_128_hexdigest(found["contents"][ends])
        assert LinkCapture(*link) == LinkCapture(*ends, len(packets), 0, counted[1], digest)


def test_lost_packets_are_not_in_the_file(found):
    sizes = [size for _, size, _ in found["files"]["r", "b"][1]]
    assert sizes == [PACKET_BYTES] * found["arrived"]
    assert 50 < found["arrived"] < COUNT


def test_times_are_those_of_the_run_after_the_delays_of_the_links(found):
    sent_ns = PACKET_BYTES * 8e3 / RATE_MBPS
    _, at_router = found["files"]["a", "r"]
    assert len(at_router) == COUNT
    arrivals_ns = [t_ns for t_ns, _, _ in at_router]
    for left_ns, t_ns in zip(found["left_ns"], arrivals_ns, strict=True):
        assert t_ns - left_ns == pytest.approx(10e6 + sent_ns, abs=100_000)
    for t_ns, _, _ in found["files"]["r", "b"][1]:
        before_ns = max(each for each in arrivals_ns if each < t_ns)
        assert t_ns - before_ns == pytest.approx(5e6 + sent_ns, abs=1000)


def test_a_file_has_one_direction_also_after_an_outage(found):
    assert found["back"] == [3, 0]
    snap, packets = found["files"]["b", "r"]
    assert [size for _, size, _ in packets] == [
        PACKET_BYTES
    ] * 5  # also those that a blackhole swallowed
    assert packets[0][0] > found["left_ns"][-1] + 1e9
    assert snap == SNAP_BYTES
    for _, _, kept in packets:
        assert len(kept) == SNAP_BYTES
        assert kept[12:14] == b"\x08\x00"  # IPv4
        assert kept[26:34] == bytes((10, 0, 0, 2, 10, 0, 0, 1))  # from b to a
    assert {kept[26:34] for _, _, kept in found["files"]["r", "b"][1]} == {
        bytes((10, 0, 0, 1, 10, 0, 0, 2))
    }


@pytest.fixture(scope="module")
def runs(embedded, tmp_path_factory):
    """A run that ends, and one that exceeds its time, in one guest."""
    home = tmp_path_factory.mktemp("runs")
    limited = SCENARIO.replace("rounds: 2", "rounds: 1000") + "limits: {run: 2 s, task: 2 s}\n"
    for name, text in {"captured": SCENARIO, "ended": limited}.items():
        (home / name / "log").mkdir(parents=True)
        (home / name / "resolved.yaml").write_text(resolve(parse(text, "test.yaml")))
    done = embedded.call(run_all, str(home), ["captured", "ended"], visible=[home])
    assert done == {"codes": {"captured": 0, "ended": 1}, "left": []}
    return home


def test_a_run_leaves_a_file_for_each_direction_of_the_links_that_it_names(runs):
    from trunkline.harness.report import outputs  # not at the top, which the guest imports too

    run_dir = runs / "captured"
    assert sorted(path.name for path in (run_dir / "capture").iterdir()) == [
        "n1_n2.pcap", "n2_n1.pcap",
    ]  # fmt: skip
    hosts = (run_dir / "log" / "hosts").read_text().splitlines()
    assert hosts[:3] == ["127.0.0.1 localhost", "10.0.0.1 n1", "10.0.0.2 n2"]
    events = [json.loads(line) for line in (run_dir / "events.jsonl").read_text().splitlines()]
    (ended,) = (event for event in events if event["event"] == "capture_ended")
    counted = {(link["src"], link["dst"]): link for link in events[-1]["links"]}
    for link in ended["links"]:
        ends = link["src"], link["dst"]
        snap, packets = read_pcap(run_dir / "capture" / capture.file_name(ends))
        assert snap == 96
        assert link["missed"] == 0
        assert link["packets"] == len(packets) == counted[ends]["packets"]
        assert sum(size for _, size, _ in packets) == counted[ends]["bytes"]
        times_ns = [t_ns for t_ns, _, _ in packets]
        assert times_ns == sorted(times_ns)
        assert 10e6 < times_ns[0] < times_ns[-1] < events[-1]["t_ns"]
    assert outputs.build(run_dir).outcome == "pass"
    file = run_dir / "capture" / "n1_n2.pcap"
    falsify_one_time(file)
    found = outputs.build(run_dir)
    assert found.problems == (
        "captures are as written: n1 -> n2: the file is not the one that the run wrote",
    )
    file.unlink()
    assert outputs.build(run_dir).outcome == "pass"


def falsify_one_time(file: Path) -> None:
    """The first packet arrives a nanosecond later; its time follows the 24 bytes of the head."""
    content = bytearray(file.read_bytes())
    content[28] ^= 1
    file.write_bytes(content)


def test_files_are_complete_after_a_run_that_exceeded_its_time(runs):
    run_dir = runs / "ended"
    *_, ended, finished = (
        json.loads(line) for line in (run_dir / "events.jsonl").read_text().splitlines()
    )
    assert [ended["event"], finished["reason"]] == [
        "capture_ended",
        "the run took longer than the 2 s of limits.run",
    ]
    for link in ended["links"]:
        ends = link["src"], link["dst"]
        _, packets = read_pcap(run_dir / "capture" / capture.file_name(ends))
        assert link["packets"] == len(packets) > 100
        assert packets[-1][0] > 1.8e9
