"""Steps of optimizers that take the time of the scenario, in processes as programs start them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from trunkline.workloads.calls import step_compute
from trunkline.workloads.reporting import compute

CALLS = str(Path(step_compute.__file__).parent)
START = """
import time, torch
w = torch.nn.Parameter(torch.zeros(3))
def step(optimizer):
    w.grad = torch.ones(3)
    optimizer.step()
inner, outer = torch.optim.AdamW([w]), torch.optim.SGD([w])
"""


def run(folder: Path, program: str, times: str = "0.02\n0.03\n", **variables: str) -> list[str]:
    """The events that a program reports: how each began and ended, and its iteration."""
    (folder / "program.py").write_text(START + program)
    (folder / "steps").write_text(times)
    (folder / "reports").touch()
    environment = {
        "PYTHONPATH": CALLS,
        "TRUNKLINE_REPORTS": str(folder / "reports"),
        step_compute.FILE: str(folder / "steps"),
        **variables,
    }
    command = [sys.executable, str(folder / "program.py")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    lines = map(json.loads, (folder / "reports").read_text().splitlines())
    return [f"{line['event']} {line['iteration']}" for line in lines]


def steps(count: int) -> list[str]:
    return [f"{what} {n}" for n in range(count) for what in ("compute_started", "compute_finished")]


def test_steps_of_the_first_optimizer_take_their_times_by_turns(tmp_path: Path) -> None:
    program = """
begun = time.monotonic()
for _ in range(3):
    step(inner)
took = time.monotonic() - begun
assert 0.07 <= took < 5, took
for _ in range(2):
    step(outer)  # as DiLoCo by hand
"""
    assert run(tmp_path, program) == steps(3)


def test_a_step_inside_another_one_takes_no_time(tmp_path: Path) -> None:
    program = """
outer.register_step_post_hook(lambda *_: step(inner))  # the outer one takes the first step
step(outer), step(outer)
"""
    assert run(tmp_path, program, TRUNKLINE_OPTIMIZERS="AdamW SGD") == steps(2)


def test_classes_of_optimizers_may_be_named(tmp_path: Path) -> None:
    assert run(tmp_path, "step(outer), step(inner)", TRUNKLINE_OPTIMIZERS="SGD") == steps(1)


def test_a_step_that_failed_is_no_outer_one_for_ever(tmp_path: Path) -> None:
    program = """
class Failing(torch.optim.SGD):
    def step(self, closure=None):
        raise RuntimeError
failing = Failing([w])
for _ in range(2):
    try:
        step(failing)
    except RuntimeError:
        pass
"""
    assert run(tmp_path, program) == steps(2)


def test_a_program_may_say_when_it_computes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compute()  # outside of a run it does nothing
    (tmp_path / "steps").write_text("0.0\n")
    (tmp_path / "reports").touch()
    monkeypatch.setenv("TRUNKLINE_COMPUTE", str(tmp_path / "steps"))
    monkeypatch.setenv("TRUNKLINE_REPORTS", str(tmp_path / "reports"))
    compute()
    said = map(json.loads, (tmp_path / "reports").read_text().splitlines())
    assert [line["event"] for line in said][-1] == "compute_finished"
