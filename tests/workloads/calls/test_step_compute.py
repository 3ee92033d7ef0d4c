"""Steps of optimizers that take the time of the scenario, in forks of a program as started."""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from trunkline.workloads.calls import step_compute
from trunkline.workloads.reporting import compute

CALLS = str(Path(step_compute.__file__).parent)
START = """
import os, sys, time, torch
w = torch.nn.Parameter(torch.zeros(3))
def step(optimizer):
    w.grad = torch.ones(3)
    optimizer.step()
inner, outer = torch.optim.AdamW([w]), torch.optim.SGD([w])
for name in sys.argv[1:]:
    if os.fork() == 0:  # torch takes seconds to import
        os.environ["TRUNKLINE_REPORTS"] = name + ".reports"
        exec(open(name + ".py").read())
        os._exit(0)
    assert os.wait()[1] == 0, name
"""
TIMES = "0.02\n0.03\n"

BY_TURNS = """
begun = time.monotonic()
for _ in range(3):
    step(inner)
took = time.monotonic() - begun
assert 0.07 <= took < 5, took
for _ in range(2):
    step(outer)  # as DiLoCo by hand
"""
INSIDE = """
os.environ["TRUNKLINE_OPTIMIZERS"] = "AdamW SGD"
outer.register_step_post_hook(lambda *_: step(inner))  # the outer one takes the first step
step(outer), step(outer)
"""
NAMED = """
os.environ["TRUNKLINE_OPTIMIZERS"] = "SGD"
step(outer), step(inner)
"""
FAILED = """
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
PROGRAMS = {"by_turns": BY_TURNS, "inside": INSIDE, "named": NAMED, "failed": FAILED}


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, list[str]]:
    """The events that each program reports: how each began and ended, and its iteration."""
    folder = tmp_path_factory.mktemp("steps")
    (folder / "program.py").write_text(START)
    (folder / "steps").write_text(TIMES)
    for name, program in PROGRAMS.items():
        (folder / f"{name}.py").write_text(program)
        (folder / f"{name}.reports").touch()
    environment = {
        "PYTHONPATH": CALLS,
        "TRUNKLINE_REPORTS": str(folder / "none"),
        step_compute.FILE: str(folder / "steps"),
    }
    done = subprocess.run(
        [sys.executable, str(folder / "program.py"), *PROGRAMS],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return {name: read(folder / f"{name}.reports") for name in PROGRAMS}


def read(reports: Path) -> list[str]:
    lines = map(json.loads, reports.read_text().splitlines())
    return [f"{line['event']} {line['iteration']}" for line in lines]


def steps(count: int) -> list[str]:
    return [f"{what} {n}" for n in range(count) for what in ("compute_started", "compute_finished")]


def test_steps_of_the_first_optimizer_take_their_times_by_turns(reported) -> None:
    assert reported["by_turns"] == steps(3)


def test_a_step_inside_another_one_takes_no_time(reported) -> None:
    assert reported["inside"] == steps(2)


def test_classes_of_optimizers_may_be_named(reported) -> None:
    assert reported["named"] == steps(1)


def test_a_step_that_failed_is_no_outer_one_for_ever(reported) -> None:
    assert reported["failed"] == steps(2)


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
