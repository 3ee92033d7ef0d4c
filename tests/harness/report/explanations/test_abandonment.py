"""Where the time of abandoned tasks went, from a made-up log with two faults at once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from trunkline.agents.events.causes import NoRepair, SiteLost
from trunkline.agents.events.connection_events import WorkerLost
from trunkline.agents.events.event import Event
from trunkline.agents.events.fault_events import FaultEnded, FaultStarted
from trunkline.agents.events.task_events import (
    TaskAbandoned,
    TaskCompleted,
    TaskDropped,
    TaskFinished,
    TaskHalted,
    TaskStarted,
)
from trunkline.agents.planning.plan import Plan
from trunkline.harness.record.history import History
from trunkline.harness.report.explanations.costs.task_losses import Losses, describe_losses
from trunkline.harness.report.explanations.explanation import Explanation, explain
from trunkline.harness.report.explanations.task_time import Run
from trunkline.harness.report.explanations.told.explanation_text import summarize
from trunkline.harness.report.explanations.told.fault_costs import describe_fault_costs
from trunkline.harness.report.explanations.waits import Stretch, Wait
from trunkline.topologies.links import Link
from trunkline.topologies.model import Site, Topology

MS = 1_000_000
GROUP = "bern", "kyiv", "oslo"
LINKS = tuple(Link(a, b, 10.0) for a in (*GROUP, "paris") for b in (*GROUP, "paris") if a != b)
MESH = Topology("mesh", tuple(Site(name) for name in (*GROUP, "paris")), LINKS)
PLAN, WEIGHTS = Plan(GROUP, GROUP, 0, ()).to_json(), dict.fromkeys(GROUP, 1.0)
STARTED = TaskStarted(1000 * MS, "controller", 7, "", "", GROUP, WEIGHTS, 1.0, 0, 0, PLAN)


def explain_task(*more: Event) -> tuple[Explanation, History]:
    """A task from 1 s on is halted at 1.1 s, as kyiv was killed, and abandoned at 3 s."""
    ways = "bern -> paris", "paris -> bern"
    events = (
        STARTED,
        FaultStarted(1050 * MS, "runner", 0, "outage", "outage paris bern", ways),
        FaultStarted(1060 * MS, "runner", 1, "kill", "kill kyiv", ("kyiv",)),
        WorkerLost(1100 * MS, "controller", "kyiv", "kyiv closed the connection"),
        TaskHalted(1100 * MS, "controller", 7, SiteLost("kyiv"), ("bern", "oslo")),
        TaskAbandoned(3000 * MS, "controller", 7, SiteLost("kyiv")),
        TaskDropped(3100 * MS, "oslo", 7, SiteLost("kyiv")),
        FaultEnded(9500 * MS, "runner", 0),
    )
    return explain_events(*events, *more)


def explain_events(*events: Event) -> tuple[Explanation, History]:
    """The first task of these events, which was to take 0.5 s."""
    history = History.of(sorted(events, key=lambda event: event.t_ns))
    run = Run(history, MESH, 1500, "paris", timeout_ns=1500 * MS)
    return explain(run, history.tasks[0], 0.5, None), history


LOST = WorkerLost(2900 * MS, "controller", "bern", "bern was silent for 1.5 s")


def test_a_wait_before_an_abandoned_task_without_a_fault_is_no_time_of_it() -> None:
    """The task ran for 2 s without a fault behind its end, after a wait of 0.4 s."""
    found, history = explain_events(
        STARTED,
        TaskHalted(1100 * MS, "controller", 7, SiteLost("kyiv"), ("bern", "oslo")),
        TaskAbandoned(3000 * MS, "controller", 7, SiteLost("kyiv")),
    )
    wait = Wait("bern", 0.0, 0.1, 0.4, "late", (), (0, 0), ("bern", 0), fault=3)
    wait = replace(wait, stretches=(Stretch(0.4, "late", None, 3),))
    late = replace(found, wait=wait, lost_s=2.4)
    by_cause = {cause: s for cause, s in Losses.of([late]).by_cause_s.items() if abs(s) > 1e-9}
    assert by_cause == {"other waits": pytest.approx(0.4), "abandoned tasks": pytest.approx(2.0)}
    assert (late.taken_s, late.before_s) == ({}, {3: 0.4})
    (said,) = describe_losses([late], history)
    assert " lost 2.400 s in all: 2.000 s to abandoned tasks without a fault behind it, " in said


def test_the_wait_for_a_member_that_another_fault_cut_off_is_that_faults_part() -> None:
    found, history = explain_task(LOST)
    assert found.taken_s == {0: pytest.approx(1.8), 1: pytest.approx(0.2)}
    assert summarize(found, history).endswith(
        " Task 7 was abandoned: kyiv is lost (fault 1: kill kyiv). Of its time, 1.800 s passed "
        "from the halt until the controller gave the task up: it waited for bern, until that "
        "counted as lost, 1.500 s of it for failover.timeout (fault 0: outage paris bern)."
    )
    first, second = describe_fault_costs([found], history)
    assert first.endswith(" It took 1.800 s of task 7.")
    assert second.endswith(" of the run on). Task 7 was abandoned after 2.000 s.")
    assert (
        next(describe_losses([found], history))
        .partition(" lost ")[2]
        .startswith("2.000 s in all: 2.000 s to faults on their critical paths. ")
    )


def test_a_halt_that_all_members_answered_has_its_time_without_a_fault() -> None:
    found, history = explain_task()
    assert found.taken_s == {1: pytest.approx(2.0)}
    assert summarize(found, history).endswith("kyiv is lost (fault 1: kill kyiv).")


def test_a_member_that_a_fault_kept_in_an_abandoned_task_is_told_at_the_fault() -> None:
    dropped = TaskDropped(9000 * MS, "bern", 7, NoRepair())
    found, history = explain_task(LOST, dropped)
    assert next(describe_fault_costs([found], history)).endswith(
        " of task 7. bern was held in task 7 for 7.950 s, 6.000 s of it after the task had "
        "been abandoned."
    )
    assert [stay.site for stay in found.stays] == ["bern"]  # oslo heard of it at once


def test_a_task_that_members_gave_up_after_its_end_divides_its_loss_once() -> None:
    """It ends at 3 s for oslo, a kill follows at 3.05 s, and bern gives it up at 3.5 s."""
    found, history = explain_events(
        STARTED,
        TaskFinished(3000 * MS, "oslo", 7, "", ()),
        FaultStarted(3050 * MS, "runner", 0, "kill", "kill kyiv", ("kyiv",)),
        WorkerLost(3100 * MS, "controller", "kyiv", "kyiv closed the connection"),
        TaskDropped(3300 * MS, "kyiv", 7, NoRepair()),
        TaskCompleted(3400 * MS, "controller", 7, ("bern", "kyiv")),
        TaskDropped(3500 * MS, "bern", 7, SiteLost("kyiv")),
    )
    before_s = sum(part.seconds for group in found.groups for part in group)
    assert (found.lost_s, before_s, found.own_s) == pytest.approx((2.0, 2.0, -0.5))
    assert found.taken_s == {0: pytest.approx(0.45)}
    (said,) = describe_losses([found], history)
    assert said.partition(" lost ")[2].startswith(
        "2.000 s in all: 0.450 s to faults on their critical paths, 2.050 s to other causes; but "
        "their own bytes took 0.500 s less than expected. "
    )
    assert summarize(found, history).endswith(
        " bern gave up task 7: kyiv is lost (fault 0: kill kyiv). That was 0.200 s after the "
        "end for the others, because of fault 0."
    )
