"""Schedules and traces of a scenario, carried out while both directions of its links are full.

In the embedded kernel, under the virtual clock. Around every change each direction gets more
packets than it can carry, so that every packet's transmission shows the rate that held meanwhile.
"""

import itertools
import select
import time

import pytest

from trunkline.agents.events.fault_events import LinkChanged
from trunkline.harness.faults.fault_injector import FaultInjector
from trunkline.harness.faults.timeline import Timeline
from trunkline.harness.measure.datagrams import Receiver, Sender
from trunkline.harness.measure.site_functions import SiteProcess
from trunkline.harness.scenario.loading import load, parse, resolve

SCENARIO = """
name: changing
topology:
  builder: explicit
  sites: [a, b]
  links:
  - {src: a, dst: b, rate: 100 Mbit/s, delay: 10 ms, queue: 500 kB}
  - {src: b, dst: a, rate: 100 Mbit/s, delay: 10 ms, queue: 500 kB}
workload: {kind: synthetic}
scheme: {policy: bsp, plan: ring}
stop: {time: 1 h}
timeline:
"""
REDRAWN = "- {at: 0 s, do: redraw rate=20..155 Mbit/s every 180 s}"
TRACED = """
- {at: 0 s, do: trace a -> b uplink.csv every 1 s}
- {at: 0 s, do: trace b -> a cell.mahi}
"""
CSV = "time,rate\n0,80\n0.25,20 Mbit/s\n0.5,155\n0.75,40\n"
MAHIMAHI = [*range(1, 201), *range(202, 401, 2), *(1 + at // 8 for at in range(3200, 6400))]
PORT, PAYLOAD, WIRE = 5000, 1472, 1514
DELAY_NS = 10_000_000
PER_MS = 17  # packets: 206 Mbit/s
NOTED_NS = 10_000  # a change is noted at most so long after it was made


# What runs inside the embedded kernel.


def carried(text, windows_s):
    """Performs the scenario's timeline; what happens to its links, and what arrives, and when."""
    from trunkline.harness.network.mininet_net import MininetNetwork

    scenario = parse(text, "resolved")
    network = MininetNetwork(scenario.topology, scenario.network, scenario.seed)
    network.start()
    start_ns = time.time_ns() + 100_000_000
    log = []

    def note(kind, **values):
        if kind is LinkChanged:
            ends = [values["src"], values["dst"]]
            log.append([*ends, time.time_ns() - start_ns, values["rate_mbps"]])

    timeline = Timeline(scenario.topology, scenario.timeline, scenario.seed)
    injector = FaultInjector(timeline, network, None, note)
    try:
        with (
            SiteProcess(network, "a", lambda _: fill(network, "a", "b", start_ns, windows_s)) as a,
            SiteProcess(network, "b", lambda _: fill(network, "b", "a", start_ns, windows_s)) as b,
        ):
            injector.start(time.monotonic_ns() + start_ns - time.time_ns())
            end_ns = start_ns + round(windows_s[-1][1] * 1e9)
            while (left_ns := end_ns - time.time_ns()) > 0:
                if select.select([injector.fd], [], [], left_ns / 1e9)[0]:
                    injector.perform_due()
            return {"changes": log, "arrived": {"a": a.receive(), "b": b.receive()}}
    finally:
        injector.close()
        network.stop()


def fill(network, here, there, start_ns, windows_s):
    """Sends too much during each window (start, end); (window, number, arrival) of what comes."""
    receiver = Receiver((network.address(here), PORT))
    address, device = (network.address(there), PORT), network.device(here, there)
    arrived = []
    for train, (first_s, last_s) in enumerate(windows_s):
        sender = Sender(address, device, train, PAYLOAD)
        for period in range(round((last_s - first_s) * 1000)):
            due_ns = start_ns + round(first_s * 1e9) + period * 1_000_000
            time.sleep(max(0, due_ns - time.time_ns()) / 1e9)
            sender.send(period * PER_MS, PER_MS)
        time.sleep(0.5)  # until the queue is empty
        sender.close()
        came = receiver.drain()
        arrived += [[train, number, at_ns - start_ns] for _, number, _, at_ns in came.tolist()]
    return arrived


# What is expected of it.


def redrawn():
    """Three minutes apart, half a second of traffic before each change and after it."""
    windows_s = [(0.0, 0.5), *((at_s - 0.4, at_s + 0.4) for at_s in (180, 360, 540, 720))]
    return REDRAWN, windows_s


def traced():
    return TRACED, [(0.0, 1.6)]


@pytest.fixture(scope="module", params=[redrawn, traced])
def found(embedded, request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("traces")
    timeline, windows_s = request.param()
    (folder / "uplink.csv").write_text(CSV)
    (folder / "cell.mahi").write_text("".join(f"{at_ms}\n" for at_ms in MAHIMAHI))
    (folder / "scenario.yaml").write_text(SCENARIO + timeline)
    text = resolve(load(folder / "scenario.yaml"))
    return request.param, embedded.call(carried, text, windows_s)


def rates(found, src, dst):
    """(from when in ns, rate in Mbit/s), before any change 100."""
    return [(-(10**12), 100.0), *(row[2:] for row in found["changes"] if row[:2] == [src, dst])]


def carried_bits(rates, from_ns, until_ns):
    """What a link with these rates carries between two times."""
    ends = [at_ns for at_ns, _ in rates[1:]] + [10**15]
    return sum(
        max(0, min(until_ns, end_ns) - max(from_ns, at_ns)) * rate_mbps / 1000
        for (at_ns, rate_mbps), end_ns in zip(rates, ends, strict=True)
    )


def test_changes_come_when_they_should_and_to_every_direction(found):
    case, seen = found
    there, back = (rates(seen, *ends)[1:] for ends in ("ab", "ba"))
    if case is redrawn:
        assert [at_ns / 1e9 for at_ns, _ in there] == pytest.approx(
            [0, 180, 360, 540, 720], abs=1e-3
        )
        assert [at_ns for at_ns, _ in there] == pytest.approx(
            [at_ns for at_ns, _ in back], abs=10**6
        )
        drawn = [rate_mbps for _, rate_mbps in there + back]
        assert all(20 <= rate_mbps <= 155 for rate_mbps in drawn)
        assert len(set(drawn)) == 10
    else:
        assert [rate for _, rate in there][:6] == [80, 20, 155, 40, 80, 20]
        assert [at_ns / 1e9 for at_ns, _ in there][:6] == pytest.approx(
            [0, 0.25, 0.5, 0.75, 1, 1.25], abs=1e-3
        )
        assert [rate for _, rate in back][:3] == pytest.approx([12, 6, 96], rel=0.02)
        assert [at_ns / 1e9 for at_ns, _ in back][:3] == pytest.approx([0, 0.2, 0.4], abs=1e-3)


@pytest.mark.parametrize("ends", ["ab", "ba"])
def test_every_packet_takes_the_time_that_the_rates_of_its_transmission_ask_for(found, ends):
    _, seen = found
    held = rates(seen, *ends)
    steady, changed = [], []
    for _, packets in itertools.groupby(seen["arrived"][ends[1]], key=lambda row: row[0]):
        left_ns = [at_ns - DELAY_NS for _, _, at_ns in packets]
        for first_ns, last_ns in itertools.pairwise(left_ns):
            meanwhile = [at_ns for at_ns, _ in held if first_ns - NOTED_NS < at_ns < last_ns]
            bits = carried_bits(held, first_ns, last_ns)
            (changed if meanwhile else steady).append(bits / (8 * WIRE))
    assert len(steady) > 1000
    assert len(changed) >= 2
    assert [min(steady), max(steady)] == pytest.approx([1, 1], abs=0.01)
    assert [min(changed), max(changed)] == pytest.approx([1, 1], abs=0.2)


@pytest.mark.parametrize("ends", ["ab", "ba"])
def test_no_change_drops_what_is_queued(found, ends):
    _, seen = found
    numbers = [(train, number) for train, number, _ in seen["arrived"][ends[1]]]
    lost = [b - a - 1 for (one, a), (other, b) in itertools.pairwise(numbers) if one == other]
    assert min(lost) == 0  # no packet overtook another
    assert max(lost) < 500_000 // WIRE / 3
