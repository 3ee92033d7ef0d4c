"""SIGTERM and Ctrl-C between the making of a run's folder and the start of its kernel."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import pytest

SCENARIO = """
topology: {builder: full_mesh, sites: 2, rates: 10 Mbit/s, delays: 10 ms}
workload: {kind: synthetic, model: 100 kB, compute: 50 ms}
scheme: allreduce
stop: {rounds: 3}
"""
MOMENTS = 8

# Counts the lines of Python that run between the two, and sends itself the signal at one of them;
# each attempt is a forked process. It prints [how the attempt ended, what it left] per attempt.
ATTEMPTS = """
import json, os, shutil, signal, sys, tempfile
from pathlib import Path
from trunkline.harness.commands import main
from trunkline.harness.kernel import boot
from trunkline.harness.kernel.process import Signals
from trunkline.harness.record.run_folder import RunFolder
from trunkline.harness.runs import runner
from trunkline.harness.scenario.loading import load

scenario, number, moments, home = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
expected = 128 + number
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job ignores it
tempfile.tempdir = f"{home}/temporary"
os.makedirs(tempfile.tempdir)
create = RunFolder.create.__func__
load(scenario)  # so that attempts need not import what comes before the folder

def attempt(at, finalizers=()):
    lines = 0
    seen = []

    def trace(frame, event, _):
        nonlocal lines
        if event == "line":
            lines += 1
            if frame.f_code.co_name == "__del__":
                seen.append(lines)
            if lines == at:
                sys.settrace(None)
                os.kill(os.getpid(), number)
        return trace

    def create_and_trace(*arguments):
        made = create(*arguments)
        sys.settrace(trace)
        frame = sys._getframe(1)
        while frame:
            frame.f_trace, frame = trace, frame.f_back
        return made

    def run(command, **_):
        with Signals():
            sys.settrace(None)
        os.write(told, json.dumps([lines, seen]).encode())
        os._exit(0)

    hear, told = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        RunFolder.create, boot.run = classmethod(create_and_trace), run
        os._exit(main.main(["run", scenario, "--quiet", "--runs", f"{home}/runs"]))
    os.close(told)
    with os.fdopen(hear) as said:
        text = said.read()
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return code, text

lines, finalizers = json.loads(attempt(0)[1])
shutil.rmtree(home)  # the first attempt was cut off
os.makedirs(tempfile.tempdir)
# The number of lines differs by some dozens from attempt to attempt, so none is at the very end.
chosen = [1, *(lines * n // (moments + 1) for n in range(1, moments + 1)), *finalizers[:-1:2]]
wrong = []
for at in chosen:
    code, text = attempt(at)
    if code != expected:
        wrong.append([at, lines, code, text])
left = os.listdir(tempfile.tempdir)
left += [str(p) for p in Path(home, "runs").glob("*/*/*") if p.name in ("control", "requests")]
print(json.dumps([len(finalizers), wrong, left]))
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_ends_a_run_at_any_moment_before_its_kernel_starts(number, code, tmp_path):
    """Also in finalizers, where Python drops exceptions. The first attempt has no signal."""
    (tmp_path / "small.yaml").write_text(SCENARIO)
    scenario = str(tmp_path / "small.yaml")
    words = scenario, str(int(number)), str(MOMENTS), str(tmp_path / "home")
    command = [sys.executable, "-c", ATTEMPTS, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    finalizers, wrong, left = json.loads(done.stdout)
    assert finalizers > 0
    assert wrong == []
    assert left == []
