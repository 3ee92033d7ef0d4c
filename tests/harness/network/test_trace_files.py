"""Files of traces as users have them: packets have the rates, delays and losses in each file.

One network in the embedded kernel, under the virtual clock: a hub, and a site for each file, whose
link follows the file through three phases. Bursts of packets cross the links meanwhile.
"""

import itertools
import select
import time

import numpy as np
import pytest

from trunkline.harness.faults.fault_injector import FaultInjector
from trunkline.harness.faults.timeline import Timeline
from trunkline.harness.measure.datagrams import Receiver, Sender
from trunkline.harness.measure.site_functions import SiteProcess
from trunkline.harness.scenario.loading import load, parse, resolve

PHASE_S, PHASES = 2, 3
PERIOD_NS, BURST, PAYLOAD, WIRE, PORT = 40_000_000, 8, 1472, 1514, 5000
OFF = {"loss": 100}

FILES = {
    "tabs": (
        "\ufefftime\tBandwidth_Mbps\r\n\r\n0\t20\r\n# later\r\n2\t0\r\n4\t10\r\n",
        "",
        [{"rate": 20, "delay": 10}, OFF, {"rate": 10, "delay": 10}],
    ),
    "semicolons": (
        'sep=;\n"Time (s)";"Bandwidth (Mbit/s)";"RTT (ms)";Note\n'
        "0;20,5;40;x\n2,0;;60,5;\n4;10;80;y",
        "",
        [{"rate": 20.5, "delay": 20}, {"rate": 20.5, "delay": 30.25}, {"rate": 10, "delay": 40}],
    ),
    "starlink": (
        "timestamp,pop_ping_latency_ms,pop_ping_drop_rate\n2024-03-01T12:00:00Z,40,0\n"
        "2024-03-01T12:00:02Z,nan,0.3\n2024-03-01 13:00:04+01:00,60,\n",
        "",
        [{"delay": 20, "loss": 0}, {"delay": 20, "loss": 30}, {"delay": 30, "loss": 30}],
    ),
    "losses": (
        "time | loss\n0 | 20 %\n2 | 100\n4 | 0\n",
        "",
        [{"loss": 20}, OFF, {"loss": 0, "rate": 50}],
    ),
    "jitter": (
        "# t delay jitter\n0 20 0\n2 20 8\n4 12 0\n",
        "",
        [{"delay": 20}, {"jitter": 8}, {"delay": 12}],
    ),
    "unix": (
        "timestamp (ms),throughput_kbps\n1709294400500,20000\n"
        "1709294402500,0\n1709294404500,8000\n",
        "",
        [{"rate": 20}, OFF, {"rate": 8}],
    ),
    "later": (
        "0,5\n300,20,30 ms\n302,40\n304,10,5 ms\n",
        "from=300 s",
        [{"rate": 20, "delay": 30}, {"rate": 40, "delay": 30}, {"rate": 10, "delay": 5}],
    ),
    "values": ("20\n0\n10\n", "unit=Mbit/s step=2 s", [{"rate": 20}, OFF, {"rate": 10}]),
    "speedtest": (
        "id,Date,download,upload,ping\n7,01.03.2024 12:00:00,9e6,1e6,44\n"
        "7,01.03.2024 12:00:02,20e6,1e6,\n7,01.03.2024 12:00:04,4e6,1e6,20\n",
        "rate=download unit=bit/s",
        [{"rate": 9, "delay": 22}, {"rate": 20, "delay": 22}, {"rate": 4, "delay": 10}],
    ),
    "mahimahi": (
        "\n".join(map(str, (*range(1, 2001), *range(2002, 4001, 2), *range(4004, 6001, 4)))),
        "",
        [{"rate": 12}, {"rate": 6}, {"rate": 3}],
    ),
}
SWITCHES = "client;time;state\ntablet;0;on\nphone;1;off\ntablet;2;off\ntablet;4;on\n"
ACCESS = "Device;Upload (Mbit/s);Download;rtt\nphone;8,5;30 Mbit/s;12\n"

WANTED = {
    **{("hub", site): phases for site, (_, _, phases) in FILES.items()},
    ("tabs", "hub"): [{"rate": 50, "delay": 10}] * 3,  # a trace is one-way
    ("hub", "tablet"): [{"loss": 0}, OFF, {"loss": 0, "rate": 50}],
    ("tablet", "hub"): [{"loss": 0}, OFF, {"loss": 0, "rate": 50}],
    ("phone", "hub"): [{"rate": 8.5, "delay": 16}, {"rate": 4, "delay": 16}, {"rate": 3}],
    ("hub", "phone"): [{"rate": 30, "delay": 16}] * 3,
}


def carried(text):
    """Performs the scenario's timeline; the rows of packets that arrive, by source and target."""
    from trunkline.harness.network.mininet_net import MininetNetwork

    scenario = parse(text, "resolved")
    network = MininetNetwork(scenario.topology, scenario.network, scenario.seed)
    network.start()
    start_ns = time.time_ns() + 100_000_000
    timeline = Timeline(scenario.topology, scenario.timeline, scenario.seed)
    injector = FaultInjector(timeline, network, None, lambda kind, **values: None)
    names = scenario.topology.site_names
    processes = {
        name: SiteProcess(network, name, lambda _, name=name: exchange(name, network, start_ns))
        for name in names
    }
    try:
        injector.start(time.monotonic_ns() + start_ns - time.time_ns())
        end_ns = start_ns + PHASE_S * PHASES * 10**9
        while (left_ns := end_ns - time.time_ns()) > 0:
            if select.select([injector.fd], [], [], left_ns / 1e9)[0]:
                injector.perform_due()
        return {name: process.receive() for name, process in processes.items()}
    finally:
        for process in processes.values():
            process.__exit__(None, None, None)
        injector.close()
        network.stop()


def exchange(here, network, start_ns):
    """Sends a burst to each of the others in every period; what came, and from whom."""
    receiver = Receiver((network.address(here), PORT))
    names = network.topology.site_names
    others = [dst for src, dst in WANTED if src == here]
    senders = [Sender((network.address(each), PORT), network.device(here, each), names.index(here),
                      PAYLOAD)
               for each in others]  # fmt: skip
    for period in range(PHASE_S * PHASES * 10**9 // PERIOD_NS):
        time.sleep(max(0, start_ns + period * PERIOD_NS - time.time_ns()) / 1e9)
        for sender in senders:
            sender.send(period * BURST, BURST)
    time.sleep(max(0, start_ns + (PHASE_S * PHASES + 1) * 10**9 - time.time_ns()) / 1e9)
    return [[names[row[0]], *row[1:]] for row in receiver.drain().tolist()]


@pytest.fixture(scope="module")
def arrived(embedded, tmp_path_factory):
    folder = tmp_path_factory.mktemp("traces")
    lines = []
    for site, (text, hints, _) in FILES.items():
        file = f"{site}.up" if site == "mahimahi" else f"{site}.txt"
        (folder / file).write_bytes(text.encode())
        lines.append(f"- {{at: 0 s, do: 'trace hub -> {site} {file} {hints}'}}\n")
    (folder / "switches.csv").write_text(SWITCHES)
    (folder / "access.csv").write_text(ACCESS)
    (folder / "phone.csv").write_text("s,Mbit/s\n2,4\n4,3\n")
    names = ", ".join(dict.fromkeys(name for pair in WANTED for name in pair))
    (folder / "scenario.yaml").write_text(
        f"topology: {{builder: star, sites: [{names}], rates: 50 Mbit/s, delays: 10 ms, "
        "access: access.csv}\nworkload: {kind: synthetic}\nscheme: {policy: bsp, plan: ps}\n"
        f"stop: {{time: 1 h}}\ntimeline:\n{''.join(lines)}"
        "- {at: 0 s, do: availability tablet switches.csv}\n"
        "- {at: 0 s, do: trace phone -> access phone.csv}\n"
    )
    return embedded.call(carried, resolve(load(folder / "scenario.yaml")))


@pytest.mark.parametrize("ends", WANTED, ids="-".join)
def test_packets_meet_the_values_of_the_file(arrived, ends):
    src, dst = ends
    rows = np.array([row[1:] for row in arrived[dst] if row[0] == src])
    for phase, wanted in enumerate(WANTED[ends]):
        bursts = PHASE_S * 10**9 // PERIOD_NS
        first, last = (phase * bursts + 4) * BURST, ((phase + 1) * bursts - 4) * BURST
        came = rows[(rows[:, 0] >= first) & (rows[:, 0] < last)]
        lost = 100 * (1 - len(came) / (last - first))
        loss = wanted.get("loss", 0)
        assert lost == pytest.approx(loss, abs=7 if 0 < loss < 100 else 0), phase
        if "rate" in wanted:
            pairs = itertools.pairwise(came.tolist())
            gaps = [b[2] - a[2] for a, b in pairs if a[0] + 1 == b[0] and b[0] % BURST]
            assert 8000 * WIRE / np.median(gaps) == pytest.approx(wanted["rate"], rel=0.01), phase
        heads = came[came[:, 0] % BURST == 0]
        on_wire_ms = WIRE * 8 / wanted.get("rate", 50) / 1000
        delays_ms = (heads[:, 2] - heads[:, 1]) / 1e6 - on_wire_ms
        if "delay" in wanted:
            assert np.median(delays_ms) == pytest.approx(wanted["delay"], abs=0.3), phase
        if "jitter" in wanted:
            assert 1.6 <= np.ptp(delays_ms) / wanted["jitter"] <= 2.01, phase
