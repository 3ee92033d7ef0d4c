"""Every way in which a run ends inside the embedded kernel; all runs here share one guest."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from test_run_session import ALONE, MESH, SMALL, folder
from ways_to_end import end_in_every_way

from trunkline.harness.report import outputs
from trunkline.harness.scenario.loading import parse, resolve

LATE = MESH.replace("20 ms", "500 ms")
ENDS = {
    "killed": ALONE % (MESH, "bsp", "ring"),
    "port": SMALL % (MESH, "bsp", "ring"),
    "disk": (SMALL % (MESH, "preduce", "a2a")).replace("tasks: 3", "tasks: 100"),
    "budget": (SMALL % (MESH, "preduce", "a2a")).replace("tasks: 3", "tasks: 1000")
    + "limits: {run: 1.5 s, task: 1 s}\n",
    "late": (SMALL % (LATE, "preduce", "crew")).replace("tasks: 3", "time: 5 s"),
    "warm": (SMALL % (MESH, "bsp", "crew")).replace("tasks: 3", "time: 2 s")
    + "warm_up: {time: 1 s}\ntimeline:\n- {at: 0 s, do: outage n3 n4 for 30 s}\n",
    "overtaken": """
topology: {builder: full_mesh, sites: 3, rates: 100 Mbit/s, delays: 10 ms}
workload: {kind: synthetic, model: 100 kB, compute: 300 ms}
scheme: {policy: bsp, plan: ring}
stop: {tasks: 10}
failover: {backup: n2}
outputs: {plots: false}
timeline:
- {at: 1 s, do: kill controller for 2.71 s}
""",
    "asleep": """
topology: {builder: full_mesh, sites: 3, rates: 100 Mbit/s, delays: 10 ms}
workload: {kind: sleeper.py}
scheme: {policy: bsp, plan: ring}
stop: {rounds: 3}
agents: {per_process: all}
limits: {run: 20 s}
outputs: {plots: false}
code:
  sleeper.py: |
    import time
    import numpy as np
    class Sleeper:
        def __init__(self, rank):
            self.rank, self.model = rank, np.ones(25_000, np.float32)
        def compute(self, iteration):
            if (self.rank, iteration) == (1, 1):
                time.sleep(1e6)
            return 0.1
        def contribution(self):
            return self.model
        def install(self, result):
            self.model[:] = result
        def evaluate(self):
            return None
    def build(rank, sites, seed):
        return Sleeper(rank)
    def model_bytes():
        return 100_000
""",
}
"""Runs that end in ways of their own, in one guest."""


@pytest.fixture(scope="module")
def done(embedded, tmp_path_factory):
    """The folder of the runs of ENDS, their codes, and what is left of them."""
    home = tmp_path_factory.mktemp("ends")
    for name in ENDS.keys() - {"disk"}:
        folder(home, name, ENDS[name])
    names = ["budget", "late", "warm", "overtaken", "asleep"]
    disk = resolve(parse(ENDS["disk"], "test.yaml"))
    return home, embedded.call(end_in_every_way, str(home), names, disk, visible=[home])


@pytest.fixture
def ends(done):
    return done[0]


def test_a_run_that_cannot_go_on_fails_also_with_a_full_disk_and_nothing_is_left(done):
    failed = ("killed", "port", "disk", "budget", "asleep")
    codes = dict.fromkeys(failed, 1) | dict.fromkeys(("late", "warm", "overtaken"), 0)
    assert done[1] == {"codes": codes, "left": []}


def read_events(run_dir: Path) -> list[dict]:
    return [json.loads(line) for line in (run_dir / "events.jsonl").read_text().splitlines()]


def test_a_killed_worker_ends_the_run_and_is_named(ends):
    exited = [event for event in read_events(ends / "killed") if event["event"] == "agent_exited"]
    assert {"who": "n2", "code": 0, "signal": 9}.items() <= exited[0].items()
    assert outputs.build(ends / "killed").outcome == "fail"


def test_a_taken_port_ends_the_run_and_is_named(ends):
    log = (ends / "port" / "events.jsonl").read_text()
    assert "cannot listen on 10.0.0.1 port 7400: Address already in use" in log


def test_a_run_over_its_budget_is_ended_and_says_so(ends):
    last = read_events(ends / "budget")[-1]
    assert last["reason"] == "the run took longer than the 1.5 s of limits.run"


def test_stop_time_counts_from_the_start_of_the_run_however_late_sites_connect(ends):
    """Two seconds for a connection over 500 ms; a lost SYN costs as much."""
    events = read_events(ends / "late")
    first = next(event["t_ns"] for event in events if event["event"] == "compute_started")
    stopped = next(event["t_ns"] for event in events if event["event"] == "stopping")
    assert first > 1e9
    assert stopped == pytest.approx(5e9, rel=0.002)


def test_faults_last_until_the_end_of_a_run_with_a_warm_up(ends):
    events = read_events(ends / "warm")
    ended = [event["t_ns"] for event in events if event["event"] == "fault_ended"]
    assert ended == [pytest.approx(3e9, rel=0.002)]


def test_a_controller_that_begins_again_when_the_backup_stops_the_run_ends_with_it(ends):
    """The backup has not found it yet, so only the runner can tell it."""
    events = read_events(ends / "overtaken")
    begun = next(
        e["t_ns"] for e in events if e["event"] == "agent_changed" and e["do"] == "restart"
    )
    stopped = {e["site"]: e["t_ns"] for e in events if e["event"] == "stopping"}
    assert begun < stopped["backup"] < stopped["controller"]
    assert "backup_stood_down" not in {e["event"] for e in events}
    assert events[-1]["reason"] == "10 tasks had been started"


def test_code_that_sleeps_in_a_shared_process_is_named_and_ends_with_it(ends):
    last = read_events(ends / "asleep")[-1]
    assert last["reason"] == (
        "the run took longer than the 20 s of limits.run;"
        " the code of n2 holds up all agents of its process"
    )
