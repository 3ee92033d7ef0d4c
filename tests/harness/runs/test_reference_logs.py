"""Six short runs give the event logs that they give on every other machine."""

from __future__ import annotations

import json
import os

import pytest

from trunkline.harness.commands.verbs import doctor
from trunkline.harness.processes.needs import Finding
from trunkline.harness.runs import reference_logs
from trunkline.harness.runs.reference_logs import NAMES, find_difference, hash_lines

FAR = {"gloo", "training"}
"""The logs that `test_run_session.py` compares, of runs at another place on a busy machine."""


@pytest.mark.parametrize("name", sorted(set(NAMES) - FAR))
def test_the_event_log_is_that_of_every_machine(name, tmp_path, embedded, monkeypatch):
    # Python keeps the names of these files, so the programs have another memory layout.
    for number in range(650 * (1 + NAMES.index(name))):
        (tmp_path / f"{number}.py").touch()
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    finding = reference_logs.check(name, tmp_path)
    assert finding.state != "problem", finding.found
    if finding.state == "warning":
        pytest.skip(finding.found)
    (log,) = tmp_path.glob(f"{name}/2*/events.jsonl")
    verdict = json.loads((log.parent / "verdict.json").read_text())
    assert verdict["verdict"] == "pass", verdict["checks"]
    if name == "awareness":
        check_detours([json.loads(line) for line in log.read_text().splitlines()])
        assert (log.parent / "tables/paths.csv").exists()


def check_detours(events: list[dict]) -> None:
    """NetStorm goes around what is busy while rates change."""
    started = [event for event in events if event["event"] == "task_started"]
    assert {event["version"] for event in started} > {1}
    assert len({event["t_ns"] for event in started}) == len(started)  # also where all were ready
    assert any(len(event["path"]) > 2 for event in events if event["event"] == "routed")


def test_the_first_event_that_differs_is_shown():
    known = hash_lines(["a", "b", "c"])
    assert find_difference(["a", "b", "c"], known) is None
    assert find_difference(["a", "x", "y"], known) == "event 2 of 3 differs: x"
    assert find_difference(["a", "b"], known) == "event 3 of 3 differs: the log ends"
    assert find_difference(["a", "b", "c", "d"], known) == "event 4 of 3 differs: d"


@pytest.mark.parametrize(
    ("python", "state", "words"),
    [
        ("3.11.7", "problem", "event 1 of 2 differs: a"),
        ("3.9", "warning", "event 1 of 2 differs: a; with Python 3.11.7 (made with 3.9) it may"),
    ],
)
def test_a_difference_is_a_problem_only_with_the_versions_of_the_known_log(
    monkeypatch, tmp_path, python, state, words
):
    known = tmp_path / "versions.json"
    known.write_text(json.dumps({"Python": python, "numpy": "2.4.6"}))
    monkeypatch.setattr(reference_logs, "VERSIONS", known)
    here = {"Python": "3.11.7", "numpy": "2.4.6"}
    monkeypatch.setattr(reference_logs, "_list_versions", lambda: here)
    monkeypatch.setattr(reference_logs, "read_hashes", lambda _: hash_lines(["x", "y"]))
    monkeypatch.setattr(reference_logs, "carry_out", lambda *_: ("pass", ["a", "y"]))
    finding = reference_logs.check("agents", tmp_path)
    assert (finding.state, finding.found) == (state, words)


def test_every_scenario_of_the_folder_is_compared():
    assert tuple(sorted(file.stem for file in reference_logs.FOLDER.glob("*.yaml"))) == NAMES


@pytest.mark.parametrize(
    ("names", "last"),
    [
        (["log agents"], "1 of the logs differ: runs work, but are not those of other machines"),
        (["boot", "log agents"], "2 of the checks found a problem: runs in the embedded kernel"),
    ],
)
def test_a_log_that_differs_does_not_mean_that_runs_do_not_work(capsys, names, last):
    assert doctor.show([Finding(name, "problem", "found") for name in names]) == 1
    assert capsys.readouterr().out.splitlines()[-1].startswith(last)
