"""Networks of other programs, measured: what their files say is what the kernel does."""

import json
import textwrap
from datetime import datetime

import pandas as pd
import pytest

from trunkline.harness.measure import self_check
from trunkline.harness.record.run_folder import RunFolder
from trunkline.harness.runs import runner
from trunkline.harness.scenario.loading import load

REST = """
workload: {kind: synthetic, model: 200 kB, compute: 0.1 s}
scheme: {policy: bsp, plan: ps}
stop: {rounds: 2}
outputs: {plots: false}
"""

SHADOW = """
graph [ directed 1
  node [ id 0 label "a" ]
  node [ id 1 label "b" host_bandwidth_up "4 Mbit" host_bandwidth_down "12 Mbit" ]
  node [ id 2 name "c" ]
  node [ id 3 label "alone" ]
  edge [ source 0 target 1 bandwidth "20 Mbit" latency "125 ms" packet_loss 0.1 ]
  edge [ source 1 target 0 bw 30 latency "25 ms" jitter "5 ms" ]
  edge [ source 0 target 2 capacity "5000 kbps" distance 1999 queue "40 packets" ]
  edge [ source 2 target 0 LinkSpeedRaw 8000000.0 length "500 km" ]
]
"""

MININET = """
from mininet.topo import Topo

class MyTopo(Topo):
    def build(self):
        switch = self.addSwitch("s1")
        self.addLink(self.addHost("h1"), switch, bw=10, delay="25ms", loss=4, max_queue_size=60)
        self.addLink(self.addHost("h2"), switch, params1=dict(bw=5, delay="3ms"),
                     params2=dict(bw=20, delay="4ms", jitter="1ms"))
"""


ACCESS = """\
Device;Upload (Mbit/s);Download;RTT;loss rate;queue
C1;8,5;30 Mbit/s;12;0,02;
c2;20;;-;;60 packets
"""


EXCEL = """\
sep=;
src;dst;Rate (MB/s);rtt
München;"O'Hare; US";0,625;60 ms
"O'Hare; US";München;1,25;60
"""

NESTED = """
{"nodes": [{"id": "a", "data": {"label": "Oslo"}}, {"id": "b"}],
 "links": [{"source": "a", "target": "b",
            "data": {"latency": {"ms": 80}, "bw": {"value": 8000, "unit": "kbps"}}}]}
"""


@pytest.mark.parametrize(
    ("name", "text", "topology", "wanted"),
    [
        (
            "x.csv",
            EXCEL,
            "{builder: file, file: x.csv}",
            [
                ("munchen", "o-hare-us", "rate", 5.0),
                ("o-hare-us", "munchen", "rate", 10.0),
                ("munchen", "o-hare-us", "delay", 30.0),
                ("o-hare-us", "munchen", "delay", 30.0),
            ],
        ),
        (
            "x.json",
            NESTED,
            "{builder: file, file: x.json}",
            [("oslo", "b", "rate", 8.0), ("oslo", "b", "delay", 80.0)],
        ),
        (
            "x.gml",
            SHADOW,
            "{builder: file, file: x.gml, part: largest}",
            [
                ("a", "b-gw", "rate", 20.0),
                ("a", "b-gw", "delay", 125.0),
                ("a", "b-gw", "loss", 10.0),
                ("b-gw", "a", "rate", 30.0),
                ("b-gw", "a", "delay", 25.0),
                ("b-gw", "a", "jitter", 5 / 3**0.5),
                ("a", "c", "rate", 5.0),
                ("a", "c", "delay", 10.002),
                ("a", "c", "queue", 60_560.0),
                ("c", "a", "rate", 8.0),
                ("c", "a", "delay", 2.502),
                ("b", "b-gw", "rate", 4.0),
                ("b-gw", "b", "rate", 12.0),
            ],
        ),
        (
            "mytopo.py",
            MININET,
            "mytopo.py",
            [
                ("h1", "s1", "rate", 10.0),
                ("h1", "s1", "delay", 25.0),
                ("s1", "h1", "loss", 4.0),
                ("h1", "s1", "queue", 90_840.0),
                ("h2", "s1", "rate", 5.0),
                ("h2", "s1", "delay", 3.0),
                ("s1", "h2", "rate", 20.0),
                ("s1", "h2", "delay", 4.0),
                ("s1", "h2", "jitter", 1 / 3**0.5),
            ],
        ),
        (
            "up.csv",
            ACCESS,
            "{builder: star, sites: [s, c1, c2], rates: 90 Mbit/s, delays: 10 ms, access: up.csv}",
            [
                ("c1", "c1-gw", "rate", 8.5),
                ("c1-gw", "c1", "rate", 30.0),
                ("c1", "c1-gw", "delay", 6.0),
                ("c1-gw", "c1", "loss", 2.0),
                ("c2", "c2-gw", "rate", 20.0),
                ("c2", "c2-gw", "queue", 90_840.0),
                ("c2-gw", "s", "rate", 90.0),
            ],
        ),
    ],
    ids=["excel", "nested", "shadow", "mininet", "access"],
)
def test_a_network_is_measured_as_its_file_says(embedded, tmp_path, name, text, topology, wanted):
    (tmp_path / name).write_text(text)
    (tmp_path / "x.yaml").write_text(f"topology: {topology}{REST}")
    folder = RunFolder.create(tmp_path, "bench", datetime(2026, 1, 1))
    scenario = load(tmp_path / "x.yaml")
    found = self_check.check(scenario, folder, lambda *_: None, with_foreign=False, quick=True)
    assert found.verdict.outcome == "pass"
    table = pd.read_csv(folder.path / "tables" / "fidelity.csv")
    rows = table.set_index(["src", "dst", "quantity"])
    for src, dst, quantity, expected in wanted:
        row = rows.loc[src, dst, quantity]
        assert row["outcome"] == "pass", row
        assert row["expected"] == pytest.approx(expected, rel=1e-4), row


STAR = """
topology:
  builder: star
  sites: [server, phone, tablet, laptop]
  rates: 100 Mbit/s
  delays: 20 ms
  access: [{sites: [phone, tablet], up: 5 Mbit/s, down: 20 Mbit/s, delay: 10 ms}]
"""


def test_a_star_whose_clients_have_access_links_runs(embedded, tmp_path):
    source = tmp_path / "star.yaml"
    source.write_text(textwrap.dedent(STAR) + REST)
    done = runner.run(load(source), source, tmp_path / "runs", lambda progress: None)
    assert done.verdict.outcome == "pass", done.verdict
    rows = pd.read_csv(done.run_dir / "tables" / "links.csv").set_index(["src", "dst"])
    assert rows.loc[("phone", "phone-gw"), "bytes"] == rows.loc[("phone-gw", "server"), "bytes"]


TRACED = """
topology: {builder: star, sites: [s, c1, c2], rates: 90 Mbit/s, delays: 10 ms, access: up.csv}
workload: {kind: synthetic, model: 500 kB, compute: 0.3 s}
scheme: {policy: bsp, plan: ps}
stop: {rounds: 8}
outputs: {plots: false}
timeline:
- {at: 0 s, do: trace c1 access lte.csv both rate=dl}
- {at: 0 s, do: availability all on.csv for 20 s}
"""
LTE = """\
timestamp;dl;ul;rtt (ms);loss
01.03.2024 12:00:00;20;1;40;0
01.03.2024 12:00:02;0;0;;
01.03.2024 12:00:03;10,5;1;60;0,1
01.03.2024 12:00:05;15;1;40;
"""


def test_a_run_follows_traces_and_is_judged_by_them(embedded, tmp_path):
    source = tmp_path / "traced.yaml"
    source.write_text(TRACED)
    (tmp_path / "up.csv").write_text(ACCESS)
    (tmp_path / "lte.csv").write_text(LTE)
    (tmp_path / "on.csv").write_text("time\tC2\n1\t0\n2.5\t1\n")
    done = runner.run(load(source), source, tmp_path / "runs", lambda progress: None)
    assert done.verdict.outcome == "pass", done.verdict
    rows = [json.loads(line) for line in (done.run_dir / "events.jsonl").read_text().splitlines()]
    found = [row for row in rows if row["event"] == "link_changed"]
    assert [(row["rate_mbps"], row["delay_ms"], row["cuts"]) for row in found
            if (row["src"], row["dst"]) == ("c1", "c1-gw")][:4] == [
        (20, 20, []), (20, 20, ["blackhole"]), (10.5, 30, []), (15, 20, [])]  # fmt: skip
    assert [row["cuts"] for row in found if row["src"] == "c2-gw"] == [["blackhole"], []]
