"""Which fault held a group or its last member up in earlier tasks, by recorded and made-up logs."""

from __future__ import annotations

import pandas as pd
import pytest
from three_sites import DATA

from tests.harness.report.explanations.test_pulls import MS, say
from trunkline.agents.events import event_reading
from trunkline.agents.events.causes import SiteLost
from trunkline.agents.events.event import Event
from trunkline.agents.events.fault_events import AgentChanged, FaultStarted
from trunkline.agents.events.round_events import ComputeFinished, ComputeStarted, Ready
from trunkline.agents.events.task_events import (
    Contributed,
    TaskAbandoned,
    TaskCompleted,
    TaskDropped,
    TaskFinished,
    TaskHalted,
    TaskStarted,
)
from trunkline.agents.planning.plan import Plan
from trunkline.harness.record.history import History
from trunkline.harness.report.explanations.explained_tasks import explain_tasks
from trunkline.harness.report.explanations.explanation import Explanation
from trunkline.harness.report.explanations.waits import Stretch
from trunkline.harness.report.parts import report_parts
from trunkline.harness.scenario.loading import load, parse

MESH = """
topology: {builder: full_mesh, sites: [a, b, c], rates: 20 Mbit/s, delays: 5 ms}
workload: {kind: synthetic, model: 1 MB, compute: 0.4 s}
scheme: {policy: preduce, plan: ring, p: 2}
stop: {tasks: 4}
"""
DELAYED = DATA / "two_faults" / "delayed_then_killed.jsonl"
WAITED_S = 5.249
"""How long the first member of its task 1 waited for the last one, which had been in task 0."""


def start(number: int, at_ms: int, *group: str) -> TaskStarted:
    plan, weights = Plan(group, group, 0, ()).to_json(), dict.fromkeys(group, 1.0)
    names = "", "", group, weights, 1.0, 0, 0, plan
    return TaskStarted(at_ms * MS, "controller", number, *names)


def compute(site: str, since_ms: int, ready_ms: int) -> list[Event]:
    return [
        ComputeStarted(since_ms * MS, site, 1, 0),
        ComputeFinished(ready_ms * MS, site, 1),
        Ready(ready_ms * MS, site, 1),
    ]


def abandon(kill_ms: int, left_ms: int) -> list[Event]:
    """Task 0 of b and c runs from 0.5 s to 3 s, when it is abandoned because c was killed."""
    return [
        start(0, 500, "b", "c"),
        FaultStarted(kill_ms * MS, "runner", 0, "kill", "kill c", ("c",)),
        AgentChanged(kill_ms * MS, "runner", "c", "kill", 0),
        TaskFinished(left_ms * MS, "b", 0, "", ()),
        TaskHalted(2900 * MS, "controller", 0, SiteLost("c"), ("b",)),
        TaskAbandoned(3000 * MS, "controller", 0, SiteLost("c")),
    ]


def explain_second(*events: Event, planned_s: float = 0.2) -> Explanation:
    """Task 1 of a made-up log, the first task of which was to take `planned_s`."""
    history = History.of(sorted(events, key=lambda event: event.t_ns))
    others = [0.2] * (len(history.tasks) - 1)
    expected = pd.DataFrame({"estimate_s": [planned_s, *others], "latency_s": 0.0})
    ended = TaskAbandoned(history.end_ns + MS, "controller", 1, SiteLost("c"))
    history = History.of([*history.events, ended])
    (found,) = explain_tasks(parse(MESH, "s.yaml"), history, expected, [1])
    return found


@pytest.mark.parametrize(
    ("kill_ms", "left_ms", "a_ms", "behind"),
    [
        (600, 1000, 100, 0),  # b left the task 0.3 s later than it should, in a wait of 1.1 s
        (600, 1000, 1100, None),  # nobody waited for b while it was in the task
        (1200, 1000, 100, None),  # the fault that took the task's time began after b had left
        (600, 900, 100, None),  # b was late by 0.2 s, less than a quarter of the wait
    ],
)
def test_a_fault_held_the_last_member_up_if_that_left_a_task_late_because_of_it(
    kill_ms: int, left_ms: int, a_ms: int, behind: int | None
) -> None:
    ready = *compute("a", 0, a_ms), *compute("b", left_ms, 1200), start(1, 1210, "a", "b")
    found = explain_second(*abandon(kill_ms, left_ms), *ready)
    assert found.wait is not None
    assert (found.wait.last, found.wait.behind) == ("b", behind)


@pytest.mark.parametrize("was_dropped", [False, True])
def test_a_member_was_last_in_the_task_that_it_left_last(was_dropped: bool) -> None:
    """By the end of that task, or because it dropped it: then the earlier task matters no more."""
    left = [
        TaskFinished(1000 * MS, "b", 0, "", ()),
        TaskDropped(1100 * MS, "b", 2, SiteLost("c"), ""),
    ]
    held = [event for event in abandon(600, 1000) if not isinstance(event, TaskFinished)]
    short = [start(2, 1050, "b", "c"), TaskAbandoned(1100 * MS, "controller", 2, SiteLost("c"))]
    ready = [*compute("a", 0, 100), *compute("b", 1100, 1200), start(1, 1210, "a", "b")]
    later = [*left[: 1 + was_dropped], TaskFinished(1400 * MS, "b", 1, "", ())]
    found = explain_second(*held, *short * was_dropped, *later, *ready)
    assert found.wait is not None
    assert (found.wait.last, found.wait.behind) == ("b", None if was_dropped else 0)


@pytest.mark.parametrize("planned_s", [0.2, 9.0])
def test_a_wait_for_the_end_of_an_abandoned_task_has_the_fault_behind_that_end(
    planned_s: float,
) -> None:
    """All of that task was lost, however long it was to take."""
    ready = [*compute("a", 0, 100), *compute("b", 900, 1000)]
    told = say(3010, "ended", task=0), start(1, 3010, "a", "b")
    found = explain_second(*abandon(600, 900), *ready, *told, planned_s=planned_s)
    assert found.wait is not None
    assert found.wait.stretches == (
        Stretch(2.01, "The controller waited until task 0 had ended", 0, 0),
    )
    assert found.before_s == {0: 2.01}


@pytest.mark.parametrize(("planned_s", "fault"), [(0.2, 0), (2.5, None)])
def test_a_wait_for_the_end_of_a_task_that_was_as_long_as_expected_has_no_fault(
    planned_s: float, fault: int | None
) -> None:
    """Task 0 lasts from 0.5 s to 3 s, and c is paused meanwhile."""
    pause = [
        FaultStarted(600 * MS, "runner", 0, "pause", "pause c", ("c",)),
        AgentChanged(600 * MS, "runner", "c", "pause", 0),
        AgentChanged(2900 * MS, "runner", "c", "resume", 0),
    ]
    first = [
        start(0, 500, "b", "c"),
        Contributed(500 * MS, "b", 0, 0, "", (), 1.0),
        Contributed(2950 * MS, "c", 0, 0, "", (), 1.0),
        TaskFinished(2960 * MS, "c", 0, "", ()),
        TaskCompleted(3000 * MS, "controller", 0),
    ]
    ready = [*compute("a", 0, 100), *compute("b", 900, 1000)]
    told = say(3010, "ended", task=0), start(1, 3010, "a", "b")
    found = explain_second(*first, *pause, *ready, *told, planned_s=planned_s)
    assert found.wait is not None
    assert [(each.task, each.fault) for each in found.wait.stretches] == [(0, fault)]
    assert found.before_s == ({} if fault is None else {fault: 2.01})


@pytest.mark.parametrize(("share", "behind"), [(0.26, 1), (0.24, None)])
def test_a_fault_held_a_member_up_by_no_more_than_its_task_was_late(
    share: float, behind: int | None
) -> None:
    """That has to be a quarter of the 5.2 s for which others waited, also if the fault took more.

    A task that was to take longer was late by less.
    """
    scenario = load(DELAYED.with_suffix(".yaml"))
    history = History.of(event_reading.read(DELAYED.read_text().splitlines()))
    begun, left = history.tasks[0].started, history.tasks[0].all(TaskFinished)
    (left_ns,) = (event.t_ns for event in left if event.site == "rome")
    planned_s = (left_ns - begun.t_ns) / 1e9 - share * WAITED_S
    tasks = report_parts.make_tables(scenario, history)["tasks"]
    tasks.loc[0, ["estimate_s", "latency_s"]] = planned_s, 0.0
    first, second = explain_tasks(scenario, history, tasks, [0, 1])
    assert first.taken_s[1] > 0.3 * WAITED_S
    assert second.wait is not None
    assert (second.wait.last, second.wait.after) == ("rome", 0)
    assert second.wait.wait_s == pytest.approx(WAITED_S, abs=0.001)
    assert second.wait.behind == behind
