"""Every way in which a run ends inside the embedded kernel; all runs here share one guest."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from unittest import mock

import pytest
from inside import run_all
from test_run_session import MESH, SMALL, folder

from trunkline.agents.events.task_events import TaskStarted
from trunkline.harness.report import outputs
from trunkline.harness.session import agent_main, run_session
from trunkline.harness.session.supervisor import Supervisor


def kill_a_worker(home: str) -> dict:
    """Inside: SIGKILL the worker of n2 as soon as a task has started."""

    def assassin(self, logged):
        original(self, logged)
        if isinstance(logged.event, TaskStarted):
            victims = [child for child in supervisors[0]._forked if child.name == "n2"]
            os.kill(victims[0].process.pid, signal.SIGKILL)

    supervisors = []
    start, original = Supervisor.start, run_session.EventLog.write
    with (
        mock.patch.object(
            Supervisor, "start", lambda self: (supervisors.append(self), start(self))
        ),
        mock.patch.object(run_session.EventLog, "write", assassin),
    ):
        return run_all(home, ["killed"])


def take_a_port(home: str) -> dict:
    """Inside: the controller is to listen where its site's worker listens already."""
    with mock.patch.object(agent_main, "CONTROLLER_PORT", agent_main.WORKER_PORT):
        return run_all(home, ["port"])


def fill_a_disk(text: str) -> dict:
    """Inside: the run's folder is on a file system of 64 KiB."""
    small = Path(os.environ["TMPDIR"]) / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(small)], check=True)
    folder(small, "disk", text)
    return run_all(str(small), ["disk"])


def end_in_every_way(home: str, names: list[str], text_for_disk: str) -> dict:
    """Inside: all runs of the fixture `done`."""
    done = run_all(home, names, ["scipy.optimize"])
    for also in (fill_a_disk(text_for_disk), take_a_port(home), kill_a_worker(home)):
        done = {"codes": done["codes"] | also["codes"], "left": done["left"] + also["left"]}
    return done


LATE = MESH.replace("20 ms", "500 ms")
ENDS = {
    "killed": SMALL % (MESH, "bsp", "ring"),
    "port": SMALL % (MESH, "bsp", "ring"),
    "disk": (SMALL % (MESH, "preduce", "a2a")).replace("tasks: 3", "tasks: 100"),
    "budget": (SMALL % (MESH, "preduce", "a2a")).replace("tasks: 3", "tasks: 1000")
    + "limits: {run: 1.5 s, task: 1 s}\n",
    "late": (SMALL % (LATE, "preduce", "crew")).replace("tasks: 3", "time: 5 s"),
    "warm": (SMALL % (MESH, "bsp", "crew")).replace("tasks: 3", "time: 2 s")
    + "warm_up: {time: 1 s}\ntimeline:\n- {at: 0 s, do: outage n3 n4 for 30 s}\n",
}
"""Runs that end in ways of their own, in one guest."""


@pytest.fixture(scope="module")
def done(embedded, tmp_path_factory):
    """The folder of the runs of ENDS, their codes, and what is left of them."""
    home = tmp_path_factory.mktemp("ends")
    for name in ENDS.keys() - {"disk"}:
        folder(home, name, ENDS[name])
    names = ["budget", "late", "warm"]
    return home, embedded.call(end_in_every_way, str(home), names, ENDS["disk"], visible=[home])


@pytest.fixture
def ends(done):
    return done[0]


def test_a_run_that_cannot_go_on_fails_also_with_a_full_disk_and_nothing_is_left(done):
    codes = {"killed": 1, "port": 1, "disk": 1, "budget": 1, "late": 0, "warm": 0}
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
