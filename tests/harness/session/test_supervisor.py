"""A fault has acted on a child when `change` returns."""

import os
from pathlib import Path
from types import SimpleNamespace

from trunkline.harness.processes.fork import fork
from trunkline.harness.session.agent_children import AgentChildren
from trunkline.harness.session.supervisor import Child, Supervisor


def spin() -> int:
    while True:
        pass


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1][0]


def test_a_paused_child_has_stopped_before_the_pause_is_logged():
    children = SimpleNamespace(
        signals=AgentChildren.signals,
        timers=None,
        schedule=None,
        note_change=lambda child, do: None,
    )
    supervisor = Supervisor(SimpleNamespace(limits=SimpleNamespace(run_s=9.0)), children)
    process, (read_fd, told_fd) = fork(spin), os.pipe()
    supervisor._forked.append(Child("n1", process, told_fd, (read_fd,)))
    supervisor._open.add(process.pidfd)
    try:
        for _ in range(20):
            supervisor.change("n1", "pause", 1)
            assert state_of(process.pid) == "T"
            supervisor.change("n1", "resume", 1)
            assert state_of(process.pid) != "T"
    finally:
        supervisor._open.clear()
        supervisor.end()
