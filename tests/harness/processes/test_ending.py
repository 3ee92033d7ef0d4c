"""Signals end a process by an exception, wherever Python happens to be."""

import os
import signal
import subprocess
import sys

import pytest

from trunkline.harness.processes.ending import AGAIN_S

SCRIPT = """
import os, signal, sys, time, weakref
from trunkline.harness.processes.ending import Terminated, end_by
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job ignores it
number, place = int(sys.argv[1]), sys.argv[2]
end_by(signal.SIGTERM, signal.SIGHUP)

class Thing:
    def __del__(self):
        if place == "finalizer":
            os.kill(os.getpid(), number)

def gone(_):
    if place == "callback":
        os.kill(os.getpid(), number)

try:
    thing = Thing()
    watch = weakref.ref(thing, gone)
    del thing
    if place == "code":
        os.kill(os.getpid(), number)
    time.sleep(20)
    print("lost")
except KeyboardInterrupt as stop:
    try:
        for other in (signal.SIGTERM, signal.SIGHUP):
            os.kill(os.getpid(), other)
        print(type(stop).__name__, *stop.args)
    except KeyboardInterrupt:
        print("the cleaning up was interrupted")
"""


@pytest.mark.parametrize("place", ["code", "finalizer", "callback"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_process_once_wherever_it_comes(number, place):
    done = run(number, place)
    assert (done.returncode, done.stdout) == (0, f"Terminated {number}\n"), done.stderr


@pytest.mark.parametrize("place", ["finalizer", "callback"])
def test_ctrl_c_is_not_lost_in_a_finalizer(place):
    assert "lost" not in run(signal.SIGINT, place).stdout


def test_a_signal_that_is_ignored_from_the_start_stays_ignored():
    script = SCRIPT.replace("end_by(", "signal.signal(number, signal.SIG_IGN)\nend_by(", 1)
    script = script.replace("time.sleep(20)", f"time.sleep({10 * AGAIN_S})")
    assert run(signal.SIGHUP, "code", script).stdout == "lost\n"


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT])
def test_what_nohup_or_a_background_job_ignores_stays_ignored(number):
    script = (
        "import os, signal, sys, time\n"
        "from trunkline.harness.processes.ending import end_by, interrupt_by_ctrl_c\n"
        "end_by(signal.SIGTERM, signal.SIGHUP)\n"
        "interrupt_by_ctrl_c()\n"
        "os.kill(os.getpid(), int(sys.argv[1]))\n"
        "time.sleep(0.01)\n"
        "print('went on')\n"
    )
    ignoring = ["sh", "-c", 'trap "" HUP INT; exec "$@"', "sh"]
    told = subprocess.check_output([*ignoring, sys.executable, "-c", script, str(int(number))])
    assert told == b"went on\n"


IMPORTING = """
import os, signal, sys
from pathlib import Path
from trunkline.harness.processes.ending import end_by, interrupt_by_ctrl_c
signal.signal(signal.SIGINT, signal.default_int_handler)
number, folder = int(sys.argv[1]), sys.argv[2]
end_by(signal.SIGTERM)
interrupt_by_ctrl_c()
Path(folder, "module.py").write_text(f"import os; os.kill(os.getpid(), {number}); done = True")
sys.path.insert(0, folder)
try:
    import module
    import time
    time.sleep(20)
    print("lost")
except KeyboardInterrupt as stop:
    print(type(stop).__name__, sys.modules["module"].done)
"""


@pytest.mark.parametrize(
    ("number", "name"), [(signal.SIGTERM, "Terminated"), (signal.SIGINT, "KeyboardInterrupt")]
)
def test_a_signal_waits_until_an_import_is_over(number, name, tmp_path):
    done = run(number, str(tmp_path), IMPORTING)
    assert (done.returncode, done.stdout) == (0, f"{name} True\n"), done.stderr


def run(number: int, place: str, script: str = SCRIPT) -> subprocess.CompletedProcess:
    command = [sys.executable, "-c", script, str(int(number)), place]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=60, env=dict(os.environ)
    )
