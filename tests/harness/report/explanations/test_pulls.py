"""What workers waited for between a push and the pull after it, from made-up logs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from trunkline.agents.events.event import Event
from trunkline.agents.events.fault_events import AgentChanged, FaultEnded, FaultStarted
from trunkline.agents.events.policy_events import PolicyTold
from trunkline.agents.events.round_events import ComputeFinished, ComputeStarted, Ready
from trunkline.agents.events.task_events import Roles, TaskCompleted, TaskFinished, TaskStarted
from trunkline.agents.planning.plan import Plan
from trunkline.harness.record.history import History
from trunkline.harness.report.explanations.fault_search import FaultSearch
from trunkline.harness.report.explanations.stretches import Turns
from trunkline.harness.report.explanations.told.wait_text import describe_wait
from trunkline.harness.report.explanations.waits import Wait, find_waits
from trunkline.topologies.links import Link
from trunkline.topologies.model import Site, Topology

MS = 1_000_000
SITES = "s", "fast", "slow"
LINKS = tuple(Link(a, b, 8.0, 10.0) for a in SITES for b in SITES if a != b)
MESH = Topology("mesh", tuple(map(Site, SITES)), LINKS)


def task(number: int, site: str, from_ms: int, to_ms: int, told: Event, pulls: bool) -> list[Event]:
    """A push of a worker to the server s, or its pull."""
    plan = Plan(("s",) if pulls else (site,), (site,) if pulls else ("s",), 0, ()).to_json()
    taker, then = (site, "proceed") if pulls else ("s", "wait")
    started = TaskStarted(
        from_ms * MS, "controller", number, "", "", (site, "s"), {}, 1.0, 0, 0, plan,
        roles=Roles((taker,), ("s",), 1.0, 0.0, "proceed" if then == "proceed" else "wait"),
    )  # fmt: skip
    finished = [TaskFinished(to_ms * MS, site, number, "", ())] if pulls else []
    return [told, started, *finished, TaskCompleted(to_ms * MS, "controller", number)]


def push(number: int, site: str, since_ms: int, from_ms: int, to_ms: int) -> list[Event]:
    """A worker computes since a time, is ready when its push begins, and pushes."""
    return [
        ComputeStarted(since_ms * MS, site, number, 0),
        ComputeFinished(from_ms * MS, site, number),
        Ready(from_ms * MS, site, number),
        *task(number, site, from_ms, to_ms, say(from_ms, "ready", site=site), pulls=False),
    ]


def pull(number: int, site: str, from_ms: int, to_ms: int, told: str, about: object) -> list[Event]:
    about = {"task": about} if told == "ended" else {"site": about}
    return task(number, site, from_ms, to_ms, say(from_ms, told, **about), pulls=True)


def say(at_ms: int, told: str, **values: object) -> Event:
    return PolicyTold(at_ms * MS, "controller", told, values)


def order(*groups: list[Event]) -> History:
    events = [event for group in groups for event in group]
    return History.of(sorted(events, key=lambda event: event.t_ns))


def divide(history: History, number: int, fault: int | None = None, **costs: float) -> Wait:
    """The wait before a task, whose own fault is `fault`; fault 0 took `tN` of task N."""
    waits = find_waits(history)
    taken_s = {int(key[1:]): {0: seconds} for key, seconds in costs.items()}
    search = FaultSearch(history, MESH, "s", 500 * MS)
    turns = Turns(history, search, waits, lambda other: taken_s.get(other, {}))
    wait = replace(waits[number], fault=fault)
    found = next(task for task in history.tasks if task.number == number)
    return replace(wait, stretches=turns.divide(found, wait))


def told(wait: Wait) -> list[tuple[float, int | None, int | None]]:
    return [(round(each.seconds, 3), each.task, each.fault) for each in wait.stretches]


def pause(from_ms: int, to_ms: int) -> list[Event]:
    return [
        FaultStarted(from_ms * MS, "runner", 0, "pause", "pause slow", ("slow",)),
        AgentChanged(from_ms * MS, "runner", "slow", "pause", 0),
        AgentChanged(to_ms * MS, "runner", "slow", "resume", 0),
        FaultEnded(to_ms * MS, "runner", 0),
    ]


def test_a_worker_whose_pull_begins_when_its_push_has_ended_waits_for_nothing() -> None:
    history = order(push(1, "fast", 0, 100, 500), pull(2, "fast", 500, 900, "ended", 1))
    wait = divide(history, 2)
    assert (wait.push, wait.decide_s, wait.reason, wait.stretches) == (1, 0.0, "", ())
    assert describe_wait(2, wait, history) == (
        "Before task 2, a pull, fast waited since its push, task 1, had ended at 0.500 s of the "
        "run. The controller started the task as soon as task 1 had ended."
    )


@pytest.mark.parametrize(("installed_ms", "is_late"), [(950, True), (951, False)])
def test_a_controller_that_heard_late_of_the_end_of_a_push_is_told(
    installed_ms: int, is_late: bool
) -> None:
    installed = TaskFinished(installed_ms * MS, "s", 0, "", ())
    history = order(
        push(0, "fast", 0, 500, 1000), [installed], pull(1, "fast", 1000, 2000, "ended", 0)
    )
    said = describe_wait(1, divide(history, 1), history)
    late = (
        "had ended at 0.950 s of the run; the controller heard of it 0.050 s later. The controller "
        "started the task as soon as it had heard of that."
    )
    usual = (
        "had ended at 1.000 s of the run. The controller started the task as soon as task 0 had "
        "ended."
    )
    before = "Before task 1, a pull, fast waited since its push, task 0, "
    assert said == before + (late if is_late else usual)


def test_a_pull_that_waits_for_the_push_of_another_worker_waits_until_that_one_is_ready() -> None:
    history = order(
        push(1, "fast", 0, 100, 500), push(2, "slow", 0, 900, 1300),
        pull(3, "fast", 1300, 1700, "ended", 2),
    )  # fmt: skip
    wait = divide(history, 3)
    assert told(wait) == [(0.4, None, None), (0.4, 2, None)]
    said = describe_wait(3, wait, history)
    assert "It waited 0.400 s until slow was ready for task 2 and 0.400 s until task 2 had" in said


def test_before_the_other_worker_computed_it_was_in_its_own_pull_which_a_fault_held() -> None:
    history = order(
        push(1, "slow", 0, 100, 500), pull(2, "slow", 500, 2900, "ended", 1),
        push(3, "fast", 0, 1000, 1400), push(4, "slow", 2900, 3000, 3400),
        pull(5, "fast", 3400, 3800, "ended", 4),
        [FaultStarted(600 * MS, "runner", 0, "outage", "outage s slow", ("s -> slow",))],
    )  # fmt: skip
    wait = divide(history, 5, t2=2.0)
    assert told(wait) == [(1.5, 2, 0), (0.1, None, None), (0.4, 4, None)]
    assert wait.behind_s == pytest.approx({0: 1.5})
    assert sum(each.seconds for each in wait.stretches) == pytest.approx(wait.decide_s)


def test_a_pause_while_the_other_worker_computed_is_behind_the_wait_for_it() -> None:
    history = order(
        push(1, "fast", 0, 100, 500), push(2, "slow", 0, 2100, 2500), pause(600, 2000),
        pull(3, "fast", 2500, 2900, "ended", 2),
    )  # fmt: skip
    assert told(divide(history, 3)) == [(1.6, None, 0), (0.4, 2, None)]


def test_a_wait_until_a_worker_counts_as_lost_has_the_fault_that_stopped_it() -> None:
    history = order(
        push(1, "slow", 0, 800, 1200), pull(2, "slow", 1200, 1600, "ended", 1),
        push(3, "fast", 1000, 2100, 2500), [ComputeStarted(2000 * MS, "slow", 3, 0)],
        pause(2050, 6000), pull(4, "fast", 4000, 4400, "lost", "slow"),
    )  # fmt: skip
    wait = divide(history, 4, fault=0)
    assert told(wait) == [(1.5, None, 0)]
    assert describe_wait(4, wait, history).endswith(
        " The controller waited until slow counted as lost (fault 0: pause slow)."
    )


def tick(
    number: int, site: str, since_ms: int, ready_ms: int, from_ms: int, to_ms: int
) -> list[Event]:
    """A worker that is ready pushes when the time has come that the policy had set."""
    return [
        ComputeStarted(since_ms * MS, site, number, 0),
        ComputeFinished(ready_ms * MS, site, number),
        Ready(ready_ms * MS, site, number),
        *task(number, site, from_ms, to_ms, say(from_ms, "tick"), pulls=False),
    ]


def test_the_time_that_a_policy_sets_begins_with_the_turn_before_which_a_pause_had_delayed() -> (
    None
):
    """Two pushes may run at once; each waits for the turn before, and the first one was paused."""
    history = order(
        push(1, "fast", 0, 100, 600), push(2, "other", 0, 300, 700),
        push(3, "slow", 700, 3000, 3400), pause(800, 2900),
        tick(4, "fast", 800, 1000, 3200, 3600), tick(5, "other", 900, 1000, 3400, 3800),
    )  # fmt: skip
    assert told(divide(history, 4)) == [(2.0, None, 0), (0.2, None, None)]
    assert told(divide(history, 5)) == [
        (2.0, None, 0), (0.2, None, None), (0.2, 3, None)
    ]  # fmt: skip
