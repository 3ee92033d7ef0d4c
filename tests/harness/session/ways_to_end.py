"""What the tests of ends do inside the embedded kernel, without the imports of those tests."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from unittest import mock

from inside import run_all

from trunkline.agents.events.task_events import TaskStarted
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


def fill_a_disk(resolved: str) -> dict:
    """Inside: the run's folder is on a file system of 64 KiB."""
    small = Path(os.environ["TMPDIR"]) / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(small)], check=True)
    (small / "disk" / "log").mkdir(parents=True)
    (small / "disk" / "resolved.yaml").write_text(resolved)
    return run_all(str(small), ["disk"])


def end_in_every_way(home: str, names: list[str], resolved: str) -> dict:
    """Inside: all runs of the fixture `done`."""
    done = run_all(home, names)
    for also in (fill_a_disk(resolved), take_a_port(home), kill_a_worker(home)):
        done = {"codes": done["codes"] | also["codes"], "left": done["left"] + also["left"]}
    return done
