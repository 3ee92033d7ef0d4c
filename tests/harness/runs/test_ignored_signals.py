"""A run goes on after signals that were ignored when it was started, as by nohup."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

TRUNKLINE = [sys.executable, "-m", "trunkline.harness.commands.main"]
SCENARIO = """
name: small
topology: {builder: full_mesh, sites: 3, rates: 100 Mbit/s, delays: 5 ms}
workload: {kind: synthetic, model: 1 MB, compute: 0.1 s}
scheme: {policy: bsp, plan: ring}
stop: {tasks: 5}
outputs: {plots: false}
"""
DEADLINE_S = 120
HANG_UP, CTRL_C = signal.SIGHUP, signal.SIGINT
NOHUP = ("nohup",)
BACKGROUND_JOB = ("sh", "-c", 'trap "" INT; exec "$@"', "sh")


@pytest.mark.parametrize(
    ("before", "sent", "code"),
    [
        ((), (HANG_UP,), 129),
        ((), (CTRL_C,), 130),
        (NOHUP, (HANG_UP,), 0),
        (NOHUP, (HANG_UP, CTRL_C), 130),
        (BACKGROUND_JOB, (CTRL_C,), 0),
        (BACKGROUND_JOB, (CTRL_C, HANG_UP), 129),
        ((*BACKGROUND_JOB, *NOHUP), (HANG_UP, CTRL_C), 0),
    ],
)
def test_only_signals_that_are_not_ignored_end_a_run(embedded, tmp_path, before, sent, code):
    (tmp_path / "small.yaml").write_text(SCENARIO)
    with subprocess.Popen(
        [*before, *TRUNKLINE, "run", "small.yaml", "--quiet"],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        _wait_for_events(tmp_path, process)
        for number in sent:
            os.killpg(process.pid, number)
        _, errors = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == code, errors


def _wait_for_events(folder: Path, process: subprocess.Popen[str]) -> None:
    deadline_s = time.monotonic() + DEADLINE_S
    while not any(log.stat().st_size for log in folder.glob("runs/small/2*/events.jsonl")):
        assert process.poll() is None, "the run ended early"
        assert time.monotonic() < deadline_s, "the run has not begun"
        time.sleep(0.02)


def test_a_run_s_process_blocks_no_ctrl_c_as_a_dask_worker_does():
    program = [sys.executable, "-m", "trunkline.harness.runs.run_process"]
    code = "import os, signal, sys; signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT}); "
    code += "os.execv(sys.executable, sys.argv[1:])"
    with subprocess.Popen(
        [sys.executable, "-c", code, *program],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        deadline_s = time.monotonic() + DEADLINE_S
        while not (_has_begun(process.pid) and not _blocks_ctrl_c(process.pid)):
            assert process.poll() is None, "it ended early"
            assert time.monotonic() < deadline_s, "it blocks Ctrl-C"
            time.sleep(0.02)
        process.kill()


def _blocks_ctrl_c(pid: int) -> bool:
    """Whether a process blocks Ctrl-C."""
    [line] = [
        each for each in Path(f"/proc/{pid}/status").read_text().splitlines() if "SigBlk" in each
    ]
    return bool(int(line.split()[1], 16) & 1 << (CTRL_C - 1))


def _has_begun(pid: int) -> bool:
    """Whether a process is a run's, rather than what it was before."""
    return Path(f"/proc/{pid}/cmdline").read_text().split("\0")[1:2] == ["-m"]
