"""What the controller waited for before a task of a policy with turns, from made-up logs."""

import re
from dataclasses import replace

import pytest

from trunkline.agents.events.causes import NoPlan, SiteLost
from trunkline.agents.events.connection_events import WorkerLost
from trunkline.agents.events.event import Event
from trunkline.agents.events.fault_events import FaultEnded, FaultStarted
from trunkline.agents.events.policy_events import PolicyTold
from trunkline.agents.events.round_events import ComputeStarted, Ready
from trunkline.agents.events.task_events import (
    GroupPostponed,
    Roles,
    TaskCompleted,
    TaskFinished,
    TaskHalted,
    TaskStarted,
)
from trunkline.agents.planning.plan import Plan
from trunkline.harness.record.history import History
from trunkline.harness.report.explanations.costs.task_losses import Losses, describe_losses
from trunkline.harness.report.explanations.explanation import Explanation
from trunkline.harness.report.explanations.fault_search import FaultSearch
from trunkline.harness.report.explanations.stretches import Turns
from trunkline.harness.report.explanations.told import wait_text
from trunkline.harness.report.explanations.told.explanation_text import describe
from trunkline.harness.report.explanations.waits import Stretch, Wait, find_waits
from trunkline.topologies.links import Link
from trunkline.topologies.model import Site, Topology

MS = 1_000_000
SITES = "n1", "n2", "n3", "n4"
LINKS = [(a, "n1") for a in SITES[1:]] + [("n1", a) for a in SITES[1:]]
STAR = Topology("star", tuple(map(Site, SITES)), tuple(Link(a, b, 8.0, 10.0) for a, b in LINKS))


def push(task: int, site: str, from_ms: int, to_ms: int | None, told: str) -> list[Event]:
    """A worker, which is ready at 1000 ms + `task`, pushes to the server n1 in its turn."""
    plan = Plan((site,), ("n1",), 0, ()).to_json()
    roles = Roles(("n1",), ("n1",), 1.0, 0.0, "wait")
    started = TaskStarted(
        from_ms * MS, "controller", task, "", "", (site, "n1"), {site: 1.0}, 1.0, 0, 0, plan,
        roles=roles,
    )  # fmt: skip
    about = {"lost": {"site": "n2"}, "ended": {"task": task - 1}, "ready": {"site": site}}
    values = about.get(told, {})
    events = [
        ComputeStarted(500 * MS, site, 1, 0),
        Ready((1000 + task) * MS, site, 1),
        PolicyTold(from_ms * MS, "controller", told, values),
        started,
    ]
    return events if to_ms is None else [*events, TaskCompleted(to_ms * MS, "controller", task)]


def pair(task: int, site: str, from_ms: int, to_ms: int) -> list[Event]:
    """A task of two workers, after the one before it."""
    ready, told, started, ended = push(task, site, from_ms, to_ms, "ended")[1:]
    assert isinstance(started, TaskStarted)
    return [ready, told, replace(started, roles=Roles(("n1",), (), 1.0, 0.0, "proceed")), ended]


def fault(number: int, from_ms: int, to_ms: int) -> list[Event]:
    text = "outage n1 n2"
    return [
        FaultStarted(from_ms * MS, "runner", number, "outage", text, ("n2 -> n1", "n1 -> n2")),
        FaultEnded(to_ms * MS, "runner", number),
    ]


def divide(history: History, number: int, own: int | None = None, **costs: float) -> Wait:
    """The wait before a task, whose own fault is `own`; faults took `costs` of task 1."""
    waits = find_waits(history)
    taken_s = {int(key[1:]): seconds for key, seconds in costs.items()}
    search = FaultSearch(history, STAR, "n1", 500 * MS)
    turns = Turns(history, search, waits, lambda other: taken_s if other == 1 else {})
    wait = replace(waits[number], fault=own)
    task = next(task for task in history.tasks if task.number == number)
    found = turns.divide(task, wait)
    return replace(wait, stretches=found)


def tell(wait: Wait) -> list[tuple[float, int | None, int | None]]:
    """The seconds, the awaited task and the fault of each stretch."""
    return [(round(each.seconds, 3), each.task, each.fault) for each in wait.stretches]


def order(*groups: list[Event]) -> History:
    events = [event for group in groups for event in group]
    return History.of(sorted(events, key=lambda event: event.t_ns))


def explain_spaced() -> tuple[Explanation, History]:
    """Task 3 waits for task 1, which fault 0 held for 2 s, for task 2, and for the spacing."""
    history = order(
        push(0, "n2", 1000, 1400, "ready"), push(1, "n3", 1500, 3900, "tick"), fault(0, 1600, 3500),
        push(2, "n2", 3900, 4300, "ended"), push(3, "n4", 4450, 4850, "tick"),
    )  # fmt: skip
    wait = divide(history, 3, f0=2.0)
    task = history.tasks[3]
    lost_s = wait.decide_s
    return Explanation(task, 0.4, 0.4, (), (), None, wait, lost_s=lost_s), history


def describe_wait(number: int, wait: Wait, history: History) -> str:
    """Without the last sentence, on the task that was awaited longest."""
    said = wait_text.describe_wait(number, wait, history)
    return re.sub(r" Task \d+ was of [^.]*\.\d+ s; `--task \d+` explains it\.$", "", said)


def test_the_task_for_which_the_controller_waited_longest_is_told_with_its_members() -> None:
    found, history = explain_spaced()
    assert found.wait is not None
    said = wait_text.describe_wait(3, found.wait, history)
    assert said.endswith(" Task 1 was of n3, n1, and took 2.400 s; `--task 1` explains it.")
    short = tuple(replace(each, seconds=0.09) for each in found.wait.stretches)
    said = wait_text.describe_wait(3, replace(found.wait, stretches=short), history)
    assert "explains it" not in said


def test_the_site_whose_tasks_complete_groups_waited_for_is_named() -> None:
    found, history = explain_spaced()
    (said,) = describe_losses([found], history)
    assert " Of the waits until another task had ended, 2.400 s were for tasks of n3. " in said


def test_a_wait_for_a_turn_is_divided_among_the_tasks_before_it_and_the_spacing() -> None:
    found, history = explain_spaced()
    assert found.wait is not None
    said = describe_wait(3, found.wait, history)
    assert said == (
        "Before task 3, n4 computed for 0.503 s. "
        "The controller started the task 3.447 s after n4 was ready. "
        "It waited 0.397 s until task 0 had ended, 0.250 s for the time that the policy had set, "
        "2.400 s until task 1 had ended (fault 0: outage n1 n2) and 0.400 s until task 2 had "
        "ended."
    )
    assert sum(each.seconds for each in found.wait.stretches) == pytest.approx(3.447)
    assert found.before_s == pytest.approx({0: 2.4})
    by_cause = Losses.of([found]).by_cause_s
    told = {cause: s for cause, s in by_cause.items() if s > 1e-6}
    assert told == pytest.approx({"waits for tasks": 3.197, "spacing": 0.25})


def test_a_task_whose_wait_lost_most_begins_with_it() -> None:
    found, history = explain_spaced()
    first, *_ = describe(found, history, path=False)
    assert isinstance(first, str) and first.startswith("Before task 3, ")
    assert found.wait is not None
    short = replace(found, wait=replace(found.wait, decide_s=0.1), lost_s=1.0)
    first, *_ = describe(short, history, path=False)
    assert isinstance(first, str) and first.startswith("Task 3 ")


def test_turns_for_which_the_policy_set_a_time_have_gaps() -> None:
    history = order(
        push(0, "n2", 1000, 1400, "ready"), push(1, "n3", 1500, 1700, "tick"),
        push(2, "n2", 1900, 2300, "ended"), push(3, "n4", 2600, 2700, "tick"),
    )  # fmt: skip
    search = FaultSearch(history, STAR, "n1", 500 * MS)
    gaps = Turns(history, search, find_waits(history), lambda _: {}).gaps
    assert gaps == [(1500 * MS, 500 * MS), (2600 * MS, 700 * MS)]


def test_the_text_of_a_fault_that_was_behind_two_parts_of_a_wait_is_told_once() -> None:
    history = order(
        push(0, "n2", 900, 1400, "ready"), push(1, "n3", 1500, 3000, "tick"), fault(0, 1700, 3500),
        push(2, "n4", 3400, 3800, "lost"),
    )  # fmt: skip
    wait = divide(history, 2, own=0, f0=1.3)
    assert [each.fault for each in wait.stretches] == [None, None, 0, 0]
    assert wait.behind_s == pytest.approx({0: 1.9})
    assert wait.faults == {0}
    said = describe_wait(2, wait, history)
    assert said.endswith(
        " 1.500 s until task 1 had ended (fault 0: outage n1 n2) and 0.400 s until n2 counted as "
        "lost (fault 0)."
    )


@pytest.mark.parametrize(
    ("taken_s", "fault"), [({"f0": 0.59}, None), ({"f0": 0.61}, 0), ({"f0": 0.7, "f1": 1.3}, 1)]
)
def test_a_wait_for_a_task_has_the_fault_that_took_most_of_it_if_that_is_a_quarter_or_more(
    taken_s: dict[str, float], fault: int | None
) -> None:
    """Task 1 takes 2.4 s."""
    history = order(push(1, "n3", 1500, 3900, "tick"), push(2, "n4", 3900, 4300, "ended"))
    wait = divide(history, 2, **taken_s)
    assert tell(wait) == [(0.498, None, None), (2.4, 1, fault)]
    assert wait.behind_s == ({} if fault is None else {fault: 2.4})


def test_a_server_that_takes_two_pushes_at_once_was_busy_while_it_took_two() -> None:
    history = order(
        push(0, "n2", 1000, 2000, "ready"), push(1, "n3", 1010, 1500, "ready"),
        push(2, "n4", 1800, 2200, "tick"),
    )  # fmt: skip
    wait = divide(history, 2)
    found = [(each.seconds, each.task) for each in wait.stretches]
    assert found == [
        (pytest.approx(0.008), None),
        (pytest.approx(0.49), 1),
        (pytest.approx(0.3), None),
    ]


def test_a_task_whose_end_was_awaited_beside_others_has_its_fault() -> None:
    """Two pushes may run at once, but task 3 waits for the older one, which the fault held."""
    history = order(
        push(0, "n2", 1000, 1300, "ready"), push(1, "n3", 1100, 3900, "ready"),
        fault(0, 1600, 3500), push(2, "n4", 3900, 4300, "ended"),
    )  # fmt: skip
    wait = divide(history, 2, f0=2.4)
    assert [(each.task, each.fault) for each in wait.stretches] == [
        (None, None), (0, None), (1, 0)
    ]  # fmt: skip
    alone = divide(order(push(1, "n3", 900, 3900, "ready"), push(2, "n4", 3900, 4300, "ended")), 2)
    assert describe_wait(2, alone, history).endswith(
        "The controller waited until task 1 had ended."
    )
    charged = replace(wait, stretches=wait.stretches[2:])
    said = describe_wait(2, charged, history)
    assert said.endswith(" until task 1 had ended (fault 0: outage n1 n2).")


def test_a_wait_for_a_task_that_waited_itself_is_divided_among_the_tasks_before_it() -> None:
    """Task 3 waits for task 2, which could begin only after task 1, which a fault held for 2 s.

    Nothing is known of the time before task 1.
    """

    history = order(
        pair(1, "n2", 1500, 3900), fault(0, 1600, 3500), pair(2, "n3", 3900, 4300),
        pair(3, "n4", 4300, 4700),
    )  # fmt: skip
    wait = divide(history, 3, f0=2.0)
    assert tell(wait) == [(0.497, None, None), (2.4, 1, 0), (0.4, 2, None)]
    assert wait.decide_s == pytest.approx(sum(each.seconds for each in wait.stretches))
    said = describe_wait(3, wait, history)
    assert said.endswith(
        "2.400 s until task 1 had ended (fault 0: outage n1 n2) and 0.400 s until task 2 had ended."
    )


def test_of_many_stretches_the_longest_are_told_and_the_others_summed_up() -> None:
    found, history = explain_spaced()
    assert found.wait is not None
    many = tuple(
        Stretch(0.1 * (n + 1), f"The controller waited until task {n} had ended", n)
        for n in range(7)
    )
    said = describe_wait(3, replace(found.wait, stretches=many), history)
    assert "0.600 s until task 5 had ended, 0.700 s until task 6 had ended" in said
    assert said.endswith(" and 0.300 s for 2 other reasons.")


def test_a_group_that_was_postponed_twice_waited_for_both_faults() -> None:
    """It is tried again 250 ms later; then the second fault is there."""
    cause = NoPlan("no links connect it", ("n2", "n4"))
    pushed = push(2, "n4", 2500, 2900, "ready")
    history = order(
        fault(0, 1000, 1100), fault(1, 1600, 1800), pushed,
        [GroupPostponed(t * MS, "controller", ("n4", "n1"), cause) for t in (1200, 1700)],
    )  # fmt: skip
    wait = divide(history, 2)
    assert tell(wait) == [(0.448, None, 0), (1.05, None, 1)]
    said = describe_wait(2, wait, history)
    assert said.endswith(
        " It waited 0.448 s after it had postponed the group: no links connect it (fault 0: outage "
        "n1 n2) and 1.050 s after it had postponed the group: no links connect it (fault 1: outage "
        "n1 n2)."
    )


def test_a_postponed_server_is_no_reason_for_the_groups_of_others() -> None:
    cause = NoPlan("no links connect it", ("n4",))
    history = order(
        push(1, "n3", 1100, 1500, "ready"), push(2, "n2", 1500, 1900, "ended"),
        [GroupPostponed(1050 * MS, "controller", ("n4", "n1"), cause)],
    )  # fmt: skip
    assert find_waits(history)[2].reason == "The controller waited until task 1 had ended"


def test_a_stretch_without_a_reason_is_the_message_of_the_last_member() -> None:
    found, history = explain_spaced()
    assert found.wait is not None
    wait = replace(
        found.wait, stretches=(Stretch(0.01, ""), Stretch(0.4, "The controller waited until x", 1))
    )
    said = describe_wait(3, wait, history)
    assert said.endswith(
        " It waited 0.010 s for the message of the last member and 0.400 s until x."
    )


def test_a_late_message_is_a_part_of_a_wait_like_others() -> None:
    found, history = explain_spaced()
    assert found.wait is not None
    late = "The controller heard of n3 late: the delay of n3 -> n1 was 500 ms in place of 10 ms"
    ended = Stretch(0.4, "The controller waited until task 2 had ended", 2)
    wait = replace(found.wait, stretches=(Stretch(0.49, late, None, 0), ended))
    assert describe_wait(3, wait, history).endswith(
        " It waited 0.490 s until the controller heard of n3, because the delay of n3 -> n1 was "
        "500 ms in place of 10 ms (fault 0: outage n1 n2) and 0.400 s until task 2 had ended."
    )
    causes_s = Losses.of([replace(found, wait=wait, lost_s=0.89)]).by_cause_s
    assert {cause: s for cause, s in causes_s.items() if abs(s) > 1e-6} == pytest.approx(
        {"late messages": 0.49, "waits for tasks": 0.4}
    )


def test_a_wait_that_is_not_divided_has_the_fault_behind_its_reason() -> None:
    found, history = explain_spaced()
    assert found.wait is not None
    whole = replace(found.wait, stretches=(), fault=0)
    assert whole.behind_s == {0: pytest.approx(3.447)}
    assert describe_wait(3, whole, history).endswith(f" {whole.reason} (fault 0: outage n1 n2).")


def test_a_wait_for_a_task_that_ended_by_a_loss_is_the_faults_since_its_members_were_done() -> None:
    """n3 was done at 1.8 s, in an outage, and the controller took it for lost at 2.9 s."""
    ended = [
        TaskFinished(1800 * MS, "n3", 1, "", ()),
        TaskHalted(2900 * MS, "controller", 1, SiteLost("n3"), ()),
        WorkerLost(2900 * MS, "controller", "n3", "silent for 2 s"),
    ]  # fmt: skip
    cut = [
        FaultStarted(1600 * MS, "runner", 0, "outage", "outage n1 n3", ("n3 -> n1", "n1 -> n3")),
        FaultEnded(3500 * MS, "runner", 0),
    ]
    pushes = push(1, "n3", 1500, 2900, "ready"), push(2, "n4", 2900, 3300, "ended")
    wait = divide(order(*pushes, cut, ended), 2)
    assert tell(wait) == [(0.498, None, None), (0.3, 1, None), (1.1, 1, 0)]
    said = describe_wait(2, wait, order(*pushes, cut, ended))
    assert said.endswith(" and 1.400 s until task 1 had ended (fault 0: outage n1 n3).")
    wait = divide(order(*pushes, ended), 2)  # no fault is behind it
    assert {e.fault for e in wait.stretches} == {None}


@pytest.mark.parametrize(
    ("done_ms", "cut_ms", "fault"),
    [(2500, 1600, 0), (2600, 1600, None), (1800, 2500, 0), (1800, 2600, None)],
)
def test_a_loss_is_the_fault_of_a_wait_for_a_task_if_it_took_a_quarter_of_that(
    done_ms: int, cut_ms: int, fault: int | None
) -> None:
    """Task 1 runs from 1.5 s to 2.9 s. Its member has done its part, and a fault cuts it off."""
    lost = [
        TaskFinished(done_ms * MS, "n3", 1, "", ()),
        FaultStarted(cut_ms * MS, "runner", 0, "outage", "outage n1 n3", ("n3 -> n1", "n1 -> n3")),
        TaskHalted(2900 * MS, "controller", 1, SiteLost("n3"), ()),
        WorkerLost(2900 * MS, "controller", "n3", "silent for 2 s"),
    ]
    wait = divide(order(pair(1, "n3", 1500, 2900), pair(2, "n4", 2900, 3300), lost), 2)
    assert tell(wait) == [(0.498, None, None), (1.4, 1, fault)]
