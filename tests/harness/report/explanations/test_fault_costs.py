"""What each fault cost the tasks of a run, in sentences."""

from __future__ import annotations

from dataclasses import replace

from finished_runs import make_agents_run

from trunkline.harness.report import outputs
from trunkline.harness.report.explanations.explanation import Explanation, Failure
from trunkline.harness.report.explanations.fault_costs import describe_fault_costs
from trunkline.harness.report.explanations.task_time import Part


def test_a_fault_names_the_tasks_that_it_cost_time_and_those_that_failed(tmp_path) -> None:
    data = outputs.read(make_agents_run(tmp_path / "run"))
    history = data.history
    task = history.completed[0]
    numbered = [
        replace(task, started=replace(task.started, task=number, t_ns=number))
        for number in range(9)
    ]
    slow = [
        replace(
            Explanation(each, 2.0, 1.0, (), (Part("outage", 0.5, "a -> b", fault=0),), None, None),
            lost_s=1.0,
        )
        for each in numbered
    ]
    given_up = replace(slow[0], failures=(Failure(("rome",), "oslo is lost", 0),))
    untouched = replace(slow[1], parts=(Part("outage", 0.001, "a -> b", fault=0),))

    def describe(*found: Explanation) -> str:
        (said,) = describe_fault_costs(found, history)  # the heal costs nothing
        assert said.startswith("Fault 0 (outage oslo rome for 100 ms), from 0.200 s to 0.300 s, ")
        return said.partition("0.300 s, ")[2]

    nothing = "cost no task any time that the log shows."
    assert describe() == describe(untouched) == nothing
    assert describe(slow[2], slow[1]) == (
        "cost tasks 1.000 s: tasks 1 (0.500 s) and 2 (0.500 s) took longer or began later."
    )
    assert describe(given_up, slow[3]) == (
        "cost tasks 1.500 s: task 0 (1.000 s) was given up by some members, and task 3 (0.500 s) "
        "took longer or began later."
    )
    # Faults cost a task no more than it lost.
    assert describe(replace(slow[2], lost_s=0.2)).startswith(
        "cost tasks 0.200 s: task 2 (0.200 s) took "
    )
    assert describe(*slow) == (
        "cost tasks 4.500 s: tasks 0 (0.500 s), 1 (0.500 s), 2 (0.500 s), 3 (0.500 s), 4 (0.500 s) "
        "and 4 others (2.000 s) took longer or began later."
    )
