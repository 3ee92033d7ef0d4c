"""How lateness passes from site to site, from made-up logs of pushes and pulls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from tests.harness.report.explanations.test_pulls import MS, order, pause, pull, push
from trunkline.agents.events.event import Event
from trunkline.agents.events.fault_events import AgentChanged
from trunkline.agents.events.round_events import ComputeStarted, RoundAlone
from trunkline.agents.events.task_events import TaskFinished, TaskStarted
from trunkline.harness.record.history import History
from trunkline.harness.record.stops import list_stops
from trunkline.harness.report.explanations.costs.lateness import Sources, find_lateness
from trunkline.harness.report.explanations.costs.stretches import set_late
from trunkline.harness.report.explanations.waits import Stretch, find_waits

COMPUTE_S = 0.4


def late(history: History, **longer: Mapping[int, float]) -> dict[int, dict[int, float]]:
    """What faults took of each wait, in seconds; they made task N longer by `tN`."""
    sources = Sources(
        list_stops(history),
        lambda task: None,
        lambda turn: None,
        lambda site, iteration: COMPUTE_S,
        lambda number: longer.get(f"t{number}", {}),
        lambda number: {},
    )
    found = find_lateness(history, find_waits(history), sources)
    return {number: {f: round(s, 3) for f, s in each.items()} for number, each in found.items()}


def slow_round(number: int, since_ms: int, to_ms: int, awaited: int) -> list[Event]:
    """The slow worker computes, pushes for 0.4 s, and pulls for 0.4 s."""
    return [
        *push(number, "slow", since_ms, to_ms, to_ms + 400),
        *pull(number + 1, "slow", to_ms + 400, to_ms + 800, "ended", awaited),
    ]


def test_a_site_stays_late_until_another_one_waits_for_it() -> None:
    """A pause of a second makes the slow worker late; its next but one push is awaited."""
    history = order(
        slow_round(1, 0, 1400, 1), pause(100, 1400), slow_round(3, 2200, 2600, 3),
        push(5, "fast", 2000, 2100, 2500), pull(6, "fast", 3000, 3400, "ended", 3),
    )  # fmt: skip
    # without the pause, the pull would have begun when its own push ended, at 2.5 s
    assert late(history)[6] == {0: 0.5}


def test_a_site_that_is_as_late_as_the_other_one_has_waited_no_longer_for_it() -> None:
    history = order(
        slow_round(1, 0, 1400, 1), pause(100, 1400), slow_round(3, 2200, 2600, 3),
        push(5, "fast", 1600, 2100, 2500), pull(6, "fast", 3000, 3400, "ended", 3),
    )  # fmt: skip
    plain = late(history)[6]
    own_pull = order(
        [*history.events], pull(7, "fast", 1100, 1600, "ended", 8)
    )  # the fast worker was late by the same second
    assert plain == {0: 0.5}
    assert late(own_pull, t7={0: 1.0})[6] == {}


def test_time_in_which_a_site_would_have_waited_anyway_makes_up_for_the_earlier_fault() -> None:
    history = order(
        push(1, "slow", 0, 400, 1400), push(2, "fast", 0, 400, 600),
        pull(3, "fast", 1400, 1800, "ended", 1),
    )  # fmt: skip
    assert late(history, t1={0: 0.7, 1: 0.5})[3] == {0: 0.3, 1: 0.5}
    assert late(history, t1={0: 0.7, 1: 0.1})[3] == {0: 0.7, 1: 0.1}
    assert late(history, t1={1: 0.9})[3] == {1: 0.8}


def test_what_a_killed_site_is_behind_counts_for_those_that_wait_for_it() -> None:
    kill = [
        ComputeStarted(0, "slow", 0, 0),
        AgentChanged(200 * MS, "runner", "slow", "kill", 0),
        AgentChanged(900 * MS, "runner", "slow", "restart", 0),
    ]
    history = order(
        kill, push(1, "slow", 1000, 1400, 1800), push(2, "fast", 0, 400, 1000),
        pull(3, "fast", 1800, 2200, "ended", 1),
    )  # fmt: skip
    assert late(history)[3] == {0: 0.8}
    alone = order([*history.events], [RoundAlone(1100 * MS, "fast", 1)])
    assert late(alone)[3] == {0: 0.8}


def test_a_push_that_had_its_turn_later_anyway_is_late_by_less() -> None:
    """The policy starts pushes a second apart: the third one was due at 2 s, and began at 2.4 s."""
    history = order(
        push(1, "fast", 0, 0, 400), push(2, "slow", 0, 1000, 2400),
        push(3, "fast", 1500, 2400, 2800),
    )  # fmt: skip
    waits = find_waits(history)
    span = 1500 * MS, 2400 * MS
    made = replace(waits[3], span=span, decide_s=0.9, waited_s={"fast": 0.0})
    waits[3] = replace(made, awaited=2, reason="ended")
    tasks = {task.number: task for task in history.tasks}
    due_ns: list[int | None] = [2000 * MS, None]
    found = []
    for each_ns in due_ns:
        sources = Sources(
            [],
            lambda task: tasks.get(task.number - 1),
            lambda turn, each_ns=each_ns: each_ns if turn.number == 2 else None,  # type: ignore[misc]
            lambda site, iteration: COMPUTE_S,
            lambda number: {0: 1.2} if number == 2 else {},
            lambda number: {},
        )
        found.append(find_lateness(history, waits, sources)[3])
    assert found == [{0: pytest.approx(0.4)}, {0: pytest.approx(0.9)}]


@pytest.mark.parametrize(
    ("had", "late_s", "found"),
    [
        ([(1.0, None, 0.0)], {2: 0.4}, [(1.0, 2, 0.4)]),
        ([(1.0, 2, 0.3)], {2: 0.4}, [(1.0, 2, 0.4)]),
        ([(1.0, 2, 0.8)], {2: 0.4}, [(1.0, 2, 0.4)]),
        ([(1.0, 2, 0.8)], {}, [(1.0, None, 0.0)]),
        ([(1.0, 2, 0.8)], {2: 0.8, 1: 0.2}, [(0.2, 1, 0.2), (0.8, 2, 0.8)]),
        ([(0.5, None, 0.0), (0.3, None, 0.0)], {1: 0.6}, [(0.5, 1, 0.3), (0.3, 1, 0.3)]),
    ],
)
def test_stretches_have_what_faults_took_of_a_wait_in_all(
    had: list[tuple[float, int | None, float]],
    late_s: dict[int, float],
    found: list[tuple[float, int | None, float]],
) -> None:
    stretches = [Stretch(seconds, "why", None, fault, late) for seconds, fault, late in had]
    assert [
        (round(each.seconds, 6), each.fault, round(each.late_s, 6))
        for each in set_late(stretches, late_s)
    ] == found


def test_a_member_that_left_a_task_before_the_fault_held_it_is_not_late() -> None:
    """The fast worker leaves the task at 1 s; the slow one, which the fault held, at 3 s."""
    both = [
        replace(event, group=("slow", "fast", "s")) if isinstance(event, TaskStarted) else event
        for event in pull(1, "slow", 400, 3000, "ended", 9)
    ]
    left: list[Event] = [TaskFinished(1000 * MS, "fast", 1, "", ())]
    history = order(
        both, left, push(2, "fast", 1000, 1400, 1500), push(3, "slow", 3000, 3400, 3500),
        pull(4, "fast", 3500, 3600, "ended", 3),
    )  # fmt: skip
    # the fast worker was not late, so all of its wait for the slow one is the fault's
    assert late(history, t1={0: 2.0})[4] == {0: 2.0}
