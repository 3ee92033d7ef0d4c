"""Tasks that were planned without sites or links, from made-up logs."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from three_sites import TOPOLOGY, added, history

from trunkline.agents.control.planner import Planner
from trunkline.agents.events.causes import LinkBroke, SiteLost
from trunkline.agents.events.connection_events import (
    BackupTookOver,
    LossesReported,
    WorkerFound,
    WorkerLost,
)
from trunkline.agents.events.event import Event
from trunkline.agents.events.task_events import TaskStarted
from trunkline.agents.planning.plan import Plan
from trunkline.agents.policies.policy import Start
from trunkline.harness.record.history import History
from trunkline.harness.report.explanations.detours import Detour, find_detours
from trunkline.harness.report.explanations.explanation import explain
from trunkline.harness.report.explanations.task_time import Run
from trunkline.harness.report.explanations.told.explanation_text import describe_part, summarize
from trunkline.harness.report.tables.forecasts import make_forecaster
from trunkline.harness.scenario.loading import parse
from trunkline.harness.scenario.planning import create_driver
from trunkline.harness.scenario.settings import Scenario

MS = 1_000_000
CREW = """
topology: {builder: full_mesh, sites: 5, rates: 20 Mbit/s, delays: 5 ms}
workload: {kind: synthetic, model: 1 MB, compute: 1 s}
scheme: {policy: preduce, plan: crew, p: 3, chunk: 16 KiB}
stop: {tasks: 4}
"""
SCENARIO = parse(CREW, "s.yaml", seed=1)
GROUP = "n1", "n2", "n3"
N4_IS_LOST = WorkerLost(1000 * MS, "controller", "n4", "n4 was silent for 2 s")


def plan(planner: Planner, number: int, at_ms: int, group: tuple[str, ...] = GROUP) -> TaskStarted:
    """A task as this planner plans it."""
    start = Start(group, dict.fromkeys(group, 1.0), 1 / len(group))
    forest, sizes = planner.plan(start, number).to_json(), (1_000_000, 16_384)
    members = group, start.weights, start.scale
    return TaskStarted(at_ms * MS, "controller", number, "", "crew", *members, *sizes, forest)


def find(*events: Event, scenario: Scenario = SCENARIO) -> dict[int, Detour]:
    """The detours of a log, by number of the task."""
    log = History.of([*sorted(events, key=lambda event: event.t_ns), N4_IS_LOST])
    forecasts = map(make_forecaster(scenario), (task.started for task in log.tasks))
    return find_detours(scenario, log, [each.estimate_s + each.latency_s for each in forecasts])


def test_a_task_without_a_lost_site_would_have_taken_what_it_takes_with_all() -> None:
    planner = create_driver(SCENARIO).planner
    usual = plan(planner, 0, 500)
    planner.overlay.present.discard("n4")
    without = [plan(planner, number, at_ms) for number, at_ms in ((1, 2000), (2, 4000), (3, 6000))]
    found_again = WorkerFound(3000 * MS, "controller", "n4")
    took_over = BackupTookOver(5000 * MS, "backup")
    found = find(usual, N4_IS_LOST, without[0], found_again, without[1], took_over, without[2])
    assert [*found] == [1]
    forecast = make_forecaster(SCENARIO)(usual)
    usual_s = pytest.approx(forecast.estimate_s + forecast.latency_s)
    links = {(a, b) for block in Plan.from_json(usual.forest).blocks for a, b in block.in_edges}
    assert links < found[1].links
    until = " (which counted as lost until 3.000 s)"
    assert found[1] == Detour(usual_s, "without n4", SiteLost("n4"), found[1].links, until)
    measured = replace(SCENARIO, scheme=replace(SCENARIO.scheme, rates="measured"))
    assert find_detours(measured, History.of([N4_IS_LOST, without[0]]), [9.0]) == {}


def test_links_that_only_the_plan_without_a_lost_member_uses_are_those_of_the_loss() -> None:
    """A ring of four sites, and then one of three, which takes no longer than it would."""
    ring = parse(CREW.replace("crew", "ring"), "s.yaml", seed=1)
    planner = create_driver(ring).planner
    before = plan(planner, 0, 500, (*GROUP, "n4"))
    planner.overlay.present.discard("n4")
    smaller = plan(planner, 1, 2000)
    links = {
        (a, b)
        for block in Plan.from_json(before.forest).blocks
        for edge in block.in_edges + block.out_edges
        for a, b in pairwise(edge)
    }
    found = find(before, N4_IS_LOST, smaller, scenario=ring)[1]
    assert (found.cause, found.links) == (SiteLost("n4"), links)
    assert find(N4_IS_LOST, smaller, scenario=ring) == {}
    again = replace(smaller, task=2, t_ns=3000 * MS)
    assert [*find(before, N4_IS_LOST, smaller, again, scenario=ring)] == [1, 2]
    back = WorkerFound(2500 * MS, "controller", "n4")
    assert [*find(before, N4_IS_LOST, smaller, back, again, scenario=ring)] == [1]


def test_a_task_without_links_that_sites_reported_as_lost_names_them() -> None:
    planner = create_driver(SCENARIO).planner
    planner.overlay.lost["n1"] = frozenset({"n3", "n4", "n5"})
    reported = LossesReported(1000 * MS, "controller", "n1", ("n3", "n4", "n5"))
    task = plan(planner, 1, 2000)
    detour = find(reported, task)[1]
    said = "without n1 <-> n3, n1 <-> n4 and n1 <-> n5"
    assert (detour.without, detour.cause) == (said, LinkBroke(("n1", "n3")))
    other = LossesReported(1100 * MS, "controller", "n4", ("n3",))
    said = "without n1 <-> n3, n1 <-> n4, n1 <-> n5 and 1 other link"
    assert find(reported, other, task)[1].without == said
    # What a lost site reports, or what is reported of it, says nothing more.
    assert find(reported, N4_IS_LOST, task)[1].without == "without n4, n1 <-> n3 and n1 <-> n5"


def test_what_a_plan_without_a_site_takes_longer_is_charged_to_the_fault_behind_the_loss() -> None:
    said = {"verb": "kill", "text": "kill kyiv", "targets": ["kyiv"]}
    fault = added(50, "runner", "fault_started", fault=7, **said)
    lost = added(100, "controller", "worker_lost", worker="kyiv", reason="kyiv was silent")
    log = history(fault, lost)
    run, task = Run(log, TOPOLOGY, 1500, "oslo", timeout_ns=500 * MS), log.tasks[0]
    plain = explain(run, task, 2.0, None)
    planned_s = sum(part.seconds for part in plain.parts if part.cause in ("rate", "propagation"))
    detour = Detour(planned_s - 0.25, "without kyiv", SiteLost("kyiv"))
    found = explain(run, task, 2.0, None, detour)
    (longer,) = (part for part in found.parts if part.cause == "longer plan")
    assert (longer.fault, longer.seconds) == (7, pytest.approx(0.25))
    assert describe_part(longer, log).startswith("the plan without kyiv takes longer, over ")
    assert sum(part.seconds for part in found.parts) == pytest.approx(task.duration_s)
    assert (found.expected_s, found.own_s) == (detour.usual_s, pytest.approx(0.0))
    assert found.taken_s == {7: pytest.approx(0.25)}
    due = f"({detour.usual_s:.3f} s with all sites and links; its plan without kyiv was to take"
    assert f" than expected {due} 2.000 s). " in summarize(found, log)
    assert f"expected ({2:.3f} s). " in summarize(plain, log)
