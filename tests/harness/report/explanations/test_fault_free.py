"""Runs of the fluid model that go on as a run would have without its faults."""

from dataclasses import replace
from random import Random

import pytest
import three_sites

from trunkline.agents.events.fault_events import FaultStarted
from trunkline.agents.events.task_events import TaskFinished
from trunkline.harness.checks.verdict import Verdict
from trunkline.harness.fluid.fluid_run import predict_events
from trunkline.harness.record.history import History
from trunkline.harness.report.explanations.costs.fault_free import (
    Excess,
    Lasting,
    _measure_until,
    list_excesses,
    predict_runs,
)
from trunkline.harness.report.explanations.costs.shorter_run import predict_shorter
from trunkline.harness.report.explanations.explanation import Explanation
from trunkline.harness.report.explanations.time_parts import Part
from trunkline.harness.report.parts import report_parts
from trunkline.harness.report.run_data import RunData
from trunkline.harness.scenario.loading import parse

SCENARIO = """
topology: {builder: full_mesh, sites: 5, rates: 20 Mbit/s, delays: 10 ms}
workload: {kind: synthetic, model: 2 MB, compute: [0.2 s, 0.7 s]}
scheme: {policy: preduce, plan: ps, p: 3}
stop: {tasks: 12}
seed: 3
"""


def run(first_s: float = 0.0, late_s: float = 0.0) -> RunData:
    """A run by the model. Its first task takes longer, and every third one after it."""
    scenario = parse(SCENARIO, "run.yaml", ())

    def last(task: int, _: str, took_s: float) -> float:
        return took_s + (late_s * (task % 3 == 0) if task else first_s)

    history = History.of(predict_events(scenario, last=last))
    begun_ns = (history.tasks[0].end_ns or 0) + 1
    fault = FaultStarted(begun_ns, "runner", 0, "pause", "pause n1", ("n1",))
    history = History.of(sorted([*history.events, fault], key=lambda event: event.t_ns))
    tables = report_parts.make_tables(scenario, history)
    return RunData(scenario, Verdict("pass", ()), history, tables, {}, SCENARIO, SCENARIO)


def test_until_the_first_fault_a_run_of_the_model_is_the_real_one() -> None:
    """So the groups that form afterwards are those that would have formed."""
    data = run(first_s=0.9)
    fault_ns = data.history.faults[0].started.t_ns
    plain = replace(data.scenario, timeline=())
    (made,) = predict_runs(data, plain, [], [], 1, fault_ns)
    first, again = data.history.tasks[0], made.tasks[0]
    assert again.started.group == first.started.group
    assert again.end_ns == pytest.approx(first.end_ns, abs=1000)
    groups = [task.started.group for task in made.tasks]
    assert groups == [task.started.group for task in data.history.tasks]


def test_a_prediction_is_less_sure_if_the_times_of_tasks_differ() -> None:
    shorter, unsure = predict_shorter(run(), []), predict_shorter(run(late_s=1.5), [])
    assert shorter is not None and unsure is not None
    assert (shorter.runs, unsure.runs) == (9, 9)
    assert shorter.error_s < 0.8
    assert unsure.error_s > shorter.error_s + 0.5


def test_what_new_connections_took_of_tasks_counts_for_a_part() -> None:
    data = run(late_s=0.5)
    task = data.history.tasks[3]
    assert task.duration_s is not None
    parts = tuple(
        Part("cold start", seconds, "n1 -> n2", fault, text=text)
        for seconds, fault, text in ((0.2, None, ", made at 1 s,"), (0.1, 0, ""), (0.1, None, ""))
    )
    found = Explanation(task, task.duration_s, 1.0, (), parts, None, None)
    fault_ns = data.history.faults[0].started.t_ns
    usual, explained = (list_excesses(data, each, fault_ns)[2] for each in ([], [found]))
    assert usual.least == usual.most
    row = data.tables["tasks"].iloc[3]
    needed_s = row["estimate_s"] / (1448 / 1514)
    assert usual.most - explained.most == pytest.approx(0.1 / needed_s, rel=0.01)
    assert explained.most - explained.least == pytest.approx(0.2 / needed_s, rel=0.01)
    drawn = [Lasting({}, [Excess(0.1, 0.3)], cold, Random(0)).last(9, "n1", 1.0) for cold in (0, 1)]
    assert drawn == pytest.approx([1.1, 1.3])
    assert not list_excesses(data, [], data.history.end_ns)


def test_a_task_that_was_under_way_at_the_first_fault_keeps_what_the_fault_did_not_take() -> None:
    """The fault began after a second, and took half a second of the task."""
    history = three_sites.history()
    (task, *_) = history.tasks
    fault_ns = task.started.t_ns + 10**9
    part = Part("outage", 0.5, "a -> b", fault=0)
    found = replace(Explanation(task, 3.0, 1.0, (), (part,), None, None), lost_s=2.0)
    ends_s = {e.site: (e.t_ns - task.started.t_ns) / 1e9 for e in task.all(TaskFinished)}
    kept = _measure_until(history, [found], fault_ns)
    assert kept == {
        (task.number, site): pytest.approx(max(min(s, 1.0), s - 0.5)) for site, s in ends_s.items()
    }
    assert _measure_until(history, [], fault_ns)[task.number, "oslo"] == ends_s["oslo"]
    assert _measure_until(history, [found], task.started.t_ns) == {}
