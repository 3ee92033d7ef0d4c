"""Checks of users as real programs: how they end, and that nothing of them is left."""

import time
from dataclasses import replace
from pathlib import Path

import pytest
from hand_made import WRITTEN
from three_sites import LOG

from trunkline.harness.runs import user_checks
from trunkline.harness.scenario.loading import resolve
from trunkline.harness.scenario.sections.expectations import Expectation


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    """The folder of a run that has ended, and is not judged yet."""
    (tmp_path / "log").mkdir()
    (tmp_path / "events.jsonl").write_bytes(LOG.read_bytes())
    return tmp_path


def judge(run_dir: Path, *commands: str) -> list[tuple[str, str]]:
    """The outcomes of checks by shell commands; `$0` is the run's folder."""
    expect = tuple(Expectation(check=("sh", "-c", each), folder="/") for each in commands)
    outputs = replace(WRITTEN.outputs, plots=False)
    scenario = replace(WRITTEN, expect=expect, outputs=outputs)
    (run_dir / "resolved.yaml").write_text(resolve(scenario))
    found = user_checks.judge_run(run_dir).checks
    own = [check for check in found if check.name.startswith("expected:")]
    return [(check.outcome, check.detail) for check in own]


def test_a_check_gets_the_folder_with_the_tables_of_the_run(run_dir: Path) -> None:
    (found,) = judge(run_dir, "wc -l < $0/tables/tasks.csv; echo; pwd >&2")
    assert found == ("pass", "/")
    assert (run_dir / "log" / "check-0.out").read_text() == "4\n\n/\n"


def test_checks_end_in_every_way(run_dir: Path) -> None:
    found = judge(run_dir, "echo no; exit 4", "kill -9 $$", "exit 0")
    assert sorted(found) == [
        ("fail", "it exited with code 4: no"),
        ("pass", ""),
        ("unknown", "it was ended by signal 9"),
    ]


def test_a_check_that_does_not_end_is_killed_with_all_that_it_started(run_dir, monkeypatch):
    monkeypatch.setattr(user_checks, "LIMIT_S", 0.2)
    (found,) = judge(run_dir, "sleep 1000 & echo $!; wait")
    said, pid = found[1].split(": ")
    assert (found[0], said) == ("unknown", "it took longer than 0.2 s")
    for _ in range(100):
        if not Path(f"/proc/{pid}").exists():
            return
        time.sleep(0.05)
    state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    assert state == "Z"  # this machine has no process that reaps it


def test_a_program_that_is_not_there_is_no_pass(run_dir: Path) -> None:
    expect = (Expectation(check=("no-such-program",), folder="/"),)
    (run_dir / "resolved.yaml").write_text(resolve(replace(WRITTEN, expect=expect)))
    verdict = user_checks.judge_run(run_dir)
    (check,) = (each for each in verdict.checks if each.name.startswith("expected"))
    assert check.outcome == "unknown"
    assert "could not be started" in check.detail
