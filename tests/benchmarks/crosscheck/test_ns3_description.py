"""A scenario as a description for ns-3: links, connections, messages and what they wait for."""

import pytest
from ns3_description import CannotDescribeError, describe, list_beginnings, list_faults

from trunkline.harness.scenario.loading import parse

PAIR = """
topology: {builder: full_mesh, sites: 2, rates: 10 Mbit/s, delays: 10 ms, queue: 75 kB}
workload: {kind: synthetic, model: 100 kB, compute: 2 s}
scheme: {name: ps-bsp, servers: [n2], chunk: 64 KiB}
stop: {tasks: 2}
"""
TREE = """
topology: {builder: full_mesh, sites: 3, rates: 10 Mbit/s, delays: 10 ms}
workload: {kind: synthetic, model: 64 KiB, compute: 1 s}
scheme: {policy: bsp, plan: ring, chunk: 64 KiB}
stop: {tasks: 1}
"""


def write(text: str, *changes: str) -> list[str]:
    made = describe(parse(text, "x.yaml", changes))
    return made.write({}, [*list_faults(made)]).splitlines()


def test_a_push_and_a_pull_are_messages_over_one_connection():
    found = [line for line in write(PAIR) if not line.startswith("set ")]
    assert found == [
        "sockets linux",
        "node n1",
        "node n2",
        "link 0 1 10000000 10000000 75000 10000000 10000000 75000",
        "connection 2 1 0 2 0 1",  # to the controller at n1
        "connection 2 0 1 2 1 0",  # of the chunks
        "beats 0 32 500000000 520118400",  # n1 has called n2 by 20 ms, and n2 n1 by 50 ms
        "beats 1 32 500000000 550488800",
        "moment 2060740800",  # n2 has called, the controller greets n1, and n1 computes
        "moment 0 0",  # n1 has the controller
        "message 0 1 460 0",  # which tells n2
        "message 1 0 65568 1",  # with the frame's header of 32 bytes
        "message 1 0 34496 1",
        "moment 10000000 2 3 2 4",  # n2 tells the controller
        "moment 0 5",
        "message 0 1 460 5",
        "message 1 1 65568 7",
        "message 1 1 34496 7",
        "run 1 3600000000000",
    ]


def test_a_sum_waits_for_what_it_adds_and_a_result_for_the_sum():
    # n1, n2 and n3 hear of the task in steps 1 to 3. n3 -> n1 -> n2 sums, n2 -> n3 -> n1 returns.
    assert [line for line in write(TREE) if line.startswith("message")] == [
        "message 0 1 480 0",
        "message 1 1 480 0",
        "message 2 1 65568 3",
        "message 3 0 65568 4 1",
        "message 4 0 65568 5 2",
        "message 2 1 65568 6",
    ]


def test_an_outage_follows_the_first_task():
    lines = write(PAIR, "timeline=[{at: 1 s, do: outage n1 n2 for 500 ms}]")
    assert lines[-3:-1] == ["down 0 1 1000000000 500000000 0", "down 1 0 1000000000 500000000 0"]


def test_background_traffic_has_the_rate_of_the_whole_frames():
    lines = write(PAIR, "background=[{src: n1, dst: n2, rate: 4 Mbit/s}]")
    assert lines[-2] == "datagrams 2 0 1 1500 3028000 0 3600000000000"


def test_the_settings_of_tcp_are_those_of_the_scenario():
    lines = write(PAIR, "network={congestion_control: bbr, initial_window: 20, pacing: false}")
    assert "set ns3::TcpL4Protocol::SocketType ns3::TcpBbr" in lines
    assert "set ns3::TcpSocket::InitialCwnd 20" in lines
    assert "set ns3::TcpSocketState::EnablePacing true" in lines  # BBR always paces
    assert "set ns3::TcpSocketState::EnablePacing false" in write(PAIR, "network.pacing=false")


def test_packets_are_lost_that_netem_loses():
    lines = [line for line in write(PAIR, "topology.loss=1 %", "seed=1") if "losses" in line]
    assert lines[0].startswith("losses 0 1 41 234 364 428 614 643")
    assert lines[1].startswith("losses 1 0 7 50 75 376 398 495")


def test_no_packet_is_lost_that_opens_a_connection():
    """netem would lose the second one from n2 to n1, and ns-3 would send it again after 3 s."""
    lines = [line for line in write(PAIR, "topology.loss=2 %", "seed=6") if "losses" in line]
    assert lines[1].startswith("losses 1 0 137 171 204 252")


def test_senders_are_like_those_of_linux_or_those_of_ns3():
    made = describe(parse(PAIR, "x.yaml", ["network.hystart=delay"]))
    ours, theirs = made.write({}, ()).splitlines(), made.write({}, (), "ns3").splitlines()
    kind, cubic = "set ns3::TcpL4Protocol::SocketType ns3::", "set ns3::"
    assert {"sockets linux", f"{kind}CubicOfLinux", f"{cubic}CubicOfLinux::HyStartDetect 2"} <= {
        *ours
    }
    assert {"sockets ns3", f"{kind}TcpCubic", f"{cubic}TcpCubic::HyStartDetect 2"} <= {*theirs}
    reno = describe(parse(PAIR, "x.yaml", ["network.congestion_control=reno"]))
    assert f"{kind}RenoOfLinux" in reno.write({}, ()).splitlines()
    assert f"{kind}TcpLinuxReno" in reno.write({}, (), "ns3").splitlines()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ("topology.jitter=1 ms", "n1 -> n2: jitter: has no words; expected"),
        ("timeline=[{at: 1 s, do: kill n1}]", "expected an outage"),
        ("background=[{src: n1, dst: n2, rate: 4 Mbit/s, kind: tcp}]", "expected constant"),
    ],
)
def test_what_has_no_words_is_refused(change, why):
    with pytest.raises(CannotDescribeError, match=why):
        write(PAIR, change)


def test_a_site_begins_when_it_has_its_neighbours_and_the_controller():
    delays = "topology.delays={n1: {n2: 1 ms, n3: 2 ms}, n2: {n1: 10 ms, n3: 20 ms},"
    delays += " n3: {n1: 100 ms, n2: 200 ms}}"
    found = list_beginnings(parse(TREE, "x.yaml", [delays]).topology, "n1")
    # n1 has called n3. n2 has called n3, and then n1. n3 was called by n2, and then calls n1.
    call_s, hello_s = 2 * 74 * 8 / 10e6, (66 + 249) * 8 / 10e6
    n1_s, n2_s, n3_s = 0.102 + call_s, 0.231 + 2 * call_s, 0.342 + 2 * call_s + hello_s
    assert found == pytest.approx({"n1": n1_s, "n2": n2_s, "n3": n3_s})
