"""OWL in the embedded kernel: a rack is cut off while its workers compute what arrives."""

import json

import pandas as pd

from trunkline.harness.runs import runner
from trunkline.harness.scenario.loading import load

SCENARIO = """
topology:
  builder: racks
  racks: 2
  sites_per_rack: 2
  intra_rate: 100 Mbit/s
  alpha: 0.5
  server: true
  switches: true
workload: {kind: layered, table: inception-v4, size_factor: 0.005, batch: 64}
scheme: {policy: ps, plan: owl, servers: [server], chunk: 16 KiB}
timeline:
  - {at: 350 ms, do: outage r1-switch core for 3 s}
failover: {timeout: 1 s}
stop: {rounds: 8}
outputs: {plots: false}
"""
RACK = {"r1n1", "r1n2"}


def test_a_rack_that_is_cut_off_during_a_hand_out_computes_alone_and_comes_back(embedded, tmp_path):
    source = tmp_path / "cut.yaml"
    source.write_text(SCENARIO)
    done = runner.run(load(source), source, tmp_path / "runs", lambda progress: None)
    assert done.verdict.outcome == "pass", done.verdict
    events = list(map(json.loads, (done.run_dir / "events.jsonl").read_text().splitlines()))

    def of(kind):
        return [event for event in events if event["event"] == kind]

    (cut,), (mended,) = of("fault_started"), of("fault_ended")
    (halted,) = of("task_halted")
    before = {
        event["site"]
        for event in of("branch_arrived")
        if event["task"] == halted["task"] and event["t_ns"] < cut["t_ns"]
    }
    assert before == RACK | {"r2n1", "r2n2"}  # the hand-out was on its way everywhere
    assert {event["worker"] for event in of("worker_lost")} == RACK
    alone = {e["site"] for e in of("round_alone") if cut["t_ns"] < e["t_ns"] < mended["t_ns"]}
    assert alone == RACK
    back = [e for e in of("task_finished") if e["site"] in RACK and e["t_ns"] > mended["t_ns"]]
    assert {event["site"] for event in back} == RACK
    workers = pd.read_csv(done.run_dir / "tables" / "workers.csv").set_index("site")
    assert list(workers.loc[["r2n1", "r2n2"], "rounds"]) == [8, 8]
    assert workers.loc[sorted(RACK), "rounds"].min() >= 1
