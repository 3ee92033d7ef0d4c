"""What explanations of tasks must add up to, for all logs that tests have or make."""

from __future__ import annotations

from pathlib import Path

import pytest
from adding_up import list_broken
from finished_runs import make_agents_run
from three_sites import DATA

from trunkline.agents.events import event_reading
from trunkline.harness.record.history import History
from trunkline.harness.report import outputs
from trunkline.harness.report.explanations.explained_tasks import explain_tasks
from trunkline.harness.report.explanations.explanation import Explanation
from trunkline.harness.report.explanations.told.explanation_text import summarize
from trunkline.harness.report.explanations.told.wait_text import describe_wait
from trunkline.harness.report.parts import report_parts
from trunkline.harness.scenario.loading import load

LATE = DATA / "late_repairs" / "repaired_for_another.jsonl"
LOGS = sorted([*(DATA / "two_faults").glob("*.jsonl"), LATE])


def explain_all(log: Path) -> tuple[list[Explanation], History]:
    scenario = load(log.with_suffix(".yaml"))
    history = History.of(event_reading.read(log.read_text().splitlines()))
    tasks = report_parts.make_tables(scenario, history)["tasks"]
    numbers = [task.number for task in history.tasks]
    return explain_tasks(scenario, history, tasks, numbers), history


@pytest.mark.parametrize("log", LOGS, ids=lambda log: log.stem)
def test_steps_parts_and_costs_of_recorded_tasks_add_up(log: Path) -> None:
    found, _ = explain_all(log)
    assert found
    broken = {each.task.number: [*list_broken(each)] for each in found}
    assert not any(broken.values()), broken


def test_steps_parts_and_costs_of_a_made_up_run_add_up(tmp_path) -> None:
    data = outputs.read(make_agents_run(tmp_path / "run"))
    numbers = [task.number for task in data.history.tasks]
    for each in explain_tasks(data.scenario, data.history, data.tables["tasks"], numbers):
        assert [*list_broken(each)] == []


def test_a_repair_for_a_member_alone_takes_nothing_of_the_time_of_others() -> None:
    """Two members end by 4.773 s. Halts from 5.628 s on are for rome, which gives up at 8.345 s."""
    found, history = explain_all(LATE)
    (task,) = (each for each in found if each.task.number == 2)
    assert task.duration_s == pytest.approx(1.322, abs=0.001)
    assert {step.kind for step in task.steps} == {"contribution", "transfer", "installation"}
    assert all(part.fault is None for part in task.parts)
    assert task.taken_s == pytest.approx({0: 1.836, 1: 1.737}, abs=0.001)
    assert summarize(task, history).endswith(
        " That was 3.572 s after the end for the others: 1.836 s because of fault 0, 1.737 s "
        "because of fault 1."
    )


def test_a_wait_for_a_member_of_a_delayed_task_names_the_fault_behind_that_task() -> None:
    found, history = explain_all(DATA / "two_faults" / "delayed_then_killed.jsonl")
    (wait,) = (each.wait for each in found if each.task.number == 1)
    assert wait is not None
    assert wait.behind == 1
    assert " was in task 0, which fault 1 (pause " in describe_wait(1, wait, history)
