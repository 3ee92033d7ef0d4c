"""A run folder's tables, figures and verdict are made from its log and its scenario alone."""

import json
from pathlib import Path

import pytest
from three_sites import LOG, SCENARIO, altered, history

from trunkline.harness.checks import judging
from trunkline.harness.checks.rules import Rules
from trunkline.harness.record.history import Task
from trunkline.harness.record.run_folder import StoreError
from trunkline.harness.report import outputs
from trunkline.harness.scenario.loading import load
from trunkline.harness.scenario.settings import Scenario
from trunkline.workloads import synthetic
from trunkline.workloads.base import Term, digest

FILES = [
    "events.jsonl",
    "plots/accuracy.pdf",
    "plots/accuracy.png",
    "plots/accuracy.svg",
    "plots/gantt.pdf",
    "plots/gantt.png",
    "plots/gantt.svg",
    "plots/links.pdf",
    "plots/links.png",
    "plots/links.svg",
    "plots/tasks.pdf",
    "plots/tasks.png",
    "plots/tasks.svg",
    "report.html",
    "resolved.yaml",
    "tables/accuracy.csv",
    "tables/faults.csv",
    "tables/links.csv",
    "tables/members.csv",
    "tables/run.csv",
    "tables/tasks.csv",
    "tables/workers.csv",
    "verdict.json",
]


def run_folder(path: Path, log: str, *, plots: bool = False) -> Path:
    """Figures take seconds, so only those tests that look at them have them made."""
    option = "" if plots else "outputs: {plots: false}\n"
    (path / "resolved.yaml").write_text(SCENARIO.read_text() + option)
    (path / "events.jsonl").write_text(log)
    return path


def contents(path: Path) -> dict[str, bytes]:
    files = (file for file in path.rglob("*") if file.is_file())
    return {str(file.relative_to(path)): file.read_bytes() for file in files}


def test_a_report_is_built_from_the_log_and_the_scenario_and_again_the_same(tmp_path: Path) -> None:
    verdict = outputs.build(run_folder(tmp_path, LOG.read_text(), plots=True))
    assert (verdict.outcome, verdict.problems) == ("pass", ())
    first = contents(tmp_path)
    assert sorted(first) == FILES
    assert json.loads(first["verdict.json"]) == verdict.to_json()
    for name in FILES:
        if name not in ("events.jsonl", "resolved.yaml"):
            (tmp_path / name).unlink()
    outputs.build(tmp_path)
    assert contents(tmp_path) == first


def test_a_report_can_do_without_figures(tmp_path: Path) -> None:
    folder = run_folder(tmp_path, LOG.read_text())
    outputs.build(folder)
    assert sorted(contents(folder)) == [name for name in FILES if not name.startswith("plots")]


def test_the_tasks_stand_beside_what_the_fluid_model_says_of_their_plans(tmp_path: Path) -> None:
    outputs.build(run_folder(tmp_path, LOG.read_text()))
    assert (tmp_path / "tables/tasks.csv").read_text().splitlines() == [
        "task,plan,policy,group,bytes,bytes_sent,bytes_discarded,start_s,end_s,"
        "duration_s,estimate_s,latency_s,bound_s,outcome,warm_up",
        "0,h.py,preduce,oslo rome,1000000,2000000,0,0.210000,1.480000,1.270000,1.306975,0.020000,"
        "0.522790,completed,False",
        "1,h.py,preduce,rome kyiv,1000000,3000000,0,1.510000,2.290000,0.780000,0.784185,0.030000,"
        "0.522790,completed,False",
        "2,h.py,preduce,oslo rome,1000000,250000,0,2.400000,4.400000,2.000000,1.306975,0.020000,"
        "0.522790,abandoned,False",
    ]


def test_a_log_that_is_cut_off_fails_the_run_and_says_where(tmp_path: Path) -> None:
    verdict = outputs.build(run_folder(tmp_path, LOG.read_text()[:-50]))
    assert verdict.outcome == "fail"
    assert verdict.problems[0].startswith("the log is readable: events.jsonl:96: cut off at")
    assert json.loads((tmp_path / "verdict.json").read_text()) == verdict.to_json()


def test_what_stands_before_a_line_that_is_wrong_is_what_there_is_of_a_run(tmp_path: Path) -> None:
    whole = LOG.read_text()
    outputs.build(run_folder(tmp_path, whole))
    tasks = (tmp_path / "tables/tasks.csv").read_text()
    outputs.build(run_folder(tmp_path, whole + "garbage"))
    assert (tmp_path / "tables/tasks.csv").read_text() == tasks
    outputs.build(run_folder(tmp_path, "garbage\n" + whole))
    assert len((tmp_path / "tables/tasks.csv").read_text().splitlines()) == 1


def test_what_stands_before_a_wrong_plan_is_what_there_is_of_a_run(tmp_path: Path) -> None:
    lines = [json.loads(line) for line in LOG.read_text().splitlines()]
    for line in lines:
        if line["event"] == "task_started" and line["task"] == 1:
            line["forest"]["contributors"] = []
    verdict = outputs.build(run_folder(tmp_path, "\n".join(map(json.dumps, lines))))
    assert verdict.outcome == "fail"
    assert verdict.problems[0].startswith("every plan is valid: task 1: its plan at 1.510 s is")
    assert len((tmp_path / "tables/tasks.csv").read_text().splitlines()) == 2


def test_a_log_whose_session_was_killed_need_not_be_in_order(tmp_path: Path) -> None:
    lines = [line for line in LOG.read_text().splitlines() if "run_finished" not in line]
    there = outputs.build(run_folder(tmp_path, "\n".join(lines)))
    tasks = (tmp_path / "tables/tasks.csv").read_text()
    lines[2], lines[-1] = lines[-1], lines[2]
    assert outputs.build(run_folder(tmp_path, "\n".join(lines))) == there
    assert (tmp_path / "tables/tasks.csv").read_text() == tasks
    assert "the log is readable" not in there.problems[0]


def test_a_folder_without_a_log_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"events\.jsonl: is missing"):
        outputs.build(tmp_path)


def synthetic_scenario(tmp_path: Path) -> Scenario:
    path = tmp_path / "scenario.yaml"
    text = SCENARIO.read_text().replace("kind: three.py", "kind: synthetic, model: 1 MB")
    text = text.replace("plan: h.py", "plan: ps").replace("evaluation: {every: 1.45 s}\n", "")
    path.write_text(text.replace("accuracy: 80 %, ", "").partition("code:")[0])
    return load(path)


def exact(task: Task, names: tuple[str, ...]) -> str:
    terms = [Term(names.index(event.site), event.iteration, 1.0) for event in task.inputs]
    return digest(synthetic.expected(1, [(((0, 250_000),), tuple(terms))], 0.5, 250_000))


def test_synthetic_results_are_recomputed_to_the_byte(tmp_path: Path) -> None:
    scenario = synthetic_scenario(tmp_path)
    names = scenario.topology.site_names
    right = [
        altered("task_finished", {"digest": exact(task, names)}, task=task.number)
        for task in history().tasks[:2]
    ]
    rules = Rules.of(scenario)
    found = {check.name: check for check in judging.judge(history(*right), rules).checks}
    check = found["every result is exact to the byte"]
    assert (check.outcome, check.counts) == ("pass", "2 results judged")

    wrong = altered("contributed", {"iteration": 1}, task=1, site="kyiv")
    found = {check.name: check for check in judging.judge(history(*right, wrong), rules).checks}
    assert found["every result is exact to the byte"].outcome == "fail"


def test_a_run_that_never_began_fails_and_has_empty_tables(tmp_path: Path) -> None:
    verdict = outputs.build(run_folder(tmp_path, "", plots=True))
    assert verdict.outcome == "fail"
    assert verdict.problems[0].startswith("the log is complete: run_started is in the log 0 times;")
    assert (tmp_path / "tables/tasks.csv").read_text().count("\n") == 1
    assert (tmp_path / "plots/links.png").exists()
