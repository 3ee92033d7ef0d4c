"""What an agent may do after what."""

from __future__ import annotations

from typing import Any

import pytest

from trunkline.agents.events import connection_events, round_events, run_events, task_events
from trunkline.agents.events.event import Event
from trunkline.agents.events.lifecycle import (
    SITE,
    ControllerLife,
    Doing,
    LifecycleError,
    Part,
    SiteLife,
    follow,
)
from trunkline.agents.events.task_events import Roles

Said = tuple[type[Event], int | None]

JOINS: list[Said] = [
    (round_events.ComputeStarted, None),
    (round_events.ComputeFinished, None),
    (round_events.Ready, None),
    (task_events.Contributed, 7),
]
PUSH = Part(receives=False, leaves=True)
BESIDE = Part(passive=True)
LAST = Part(waits=True)


def live(said: list[Said], **parts: Part) -> SiteLife:
    """The life of a site after these events; `t7` is its part in task 7."""
    life = SiteLife(parts={int(name[1:]): part for name, part in parts.items()})
    for kind, task in said:
        step = life.take(kind, task)
        assert step.is_right, f"{kind.__name__} while {step.before}"
    return life


def test_a_round_leads_back_to_where_it_began() -> None:
    over: list[Said] = [(task_events.TaskFinished, 7)]
    life = live([*JOINS, *over, (round_events.RoundFinished, None)])
    assert life.doing is Doing.IDLE
    assert live([*JOINS, (task_events.TaskDropped, 7)]).doing is Doing.COMPUTED


def test_who_waits_after_a_task_need_not_be_ready_again_unless_it_found_a_controller() -> None:
    ended: Said = (task_events.ContributionTaken, 7)
    assert live([*JOINS, ended], t7=LAST).doing is Doing.WAITING
    found: list[Said] = [
        (connection_events.ControllerLost, None),
        (connection_events.ControllerFound, None),
    ]
    assert live([*JOINS, *found, ended], t7=LAST).doing is Doing.COMPUTED
    assert live([*found, *JOINS, ended], t7=LAST).doing is Doing.WAITING


def test_a_contributor_that_gets_no_result_goes_on_before_its_task_ends() -> None:
    life = live([*JOINS, (round_events.RoundFinished, None)], t7=PUSH)
    assert (life.doing, life.left) == (Doing.IDLE, {7})
    step = life.take(task_events.ContributionTaken, 7)
    assert (step.aside, step.inside, life.doing, life.left) == (True, True, Doing.IDLE, set())
    assert not live(JOINS, t7=LAST).take(round_events.RoundFinished).is_right


def test_a_passive_member_goes_on_with_whatever_it_does() -> None:
    life = live([*JOINS[:2], (task_events.Contributed, 8)], t8=BESIDE)
    assert (life.doing, life.passive) == (Doing.COMPUTED, {8})
    step = life.take(task_events.TaskFinished, 8)
    assert (step.aside, step.inside, life.passive) == (True, True, set())
    assert not life.take(task_events.TaskFinished, 8).inside


def test_a_site_that_is_killed_forgets_its_tasks_and_begins_anew() -> None:
    life = live([(task_events.Contributed, 8), (connection_events.ControllerLost, None)], t8=BESIDE)
    assert life.change("kill").after is Doing.DEAD
    assert life.passive == set()
    assert life.change("restart").is_right
    assert (life.doing, life.connected) == (Doing.RESTARTED, True)
    assert not life.change("restart").is_right


def test_a_pause_changes_nothing_of_what_an_agent_does() -> None:
    life = live(JOINS)
    life.change("pause")
    assert (life.doing, life.paused) == (Doing.IN_TASK, True)
    life.change("resume")
    assert (life.doing, life.paused) == (Doing.IN_TASK, False)


@pytest.mark.parametrize("kind", sorted(SITE, key=lambda kind: kind.__name__))
def test_a_step_is_right_from_the_states_of_its_row_only(kind: type[Event]) -> None:
    allowed, after = SITE[kind]
    right = {doing for doing in Doing if SiteLife(doing).take(kind, 7).is_right}
    assert right == set(allowed or Doing)
    assert SiteLife(Doing.COMPUTING).take(kind, 7).after is after


def test_the_backup_acts_in_turns_and_starts_no_task_after_it_has_stopped_the_run() -> None:
    life = ControllerLife.backup()
    assert not life.take(task_events.TaskStarted, 0).is_right
    life = ControllerLife.backup()
    said = (
        connection_events.BackupTookOver,
        task_events.TaskStarted,
        run_events.Stopping,
        connection_events.BackupStoodDown,
        connection_events.BackupTookOver,
    )
    assert all(life.take(kind).is_right for kind in said)
    assert not life.take(connection_events.BackupTookOver).is_right
    assert life.change("kill").after is Doing.DEAD
    assert life.change("restart").after is Doing.STANDING_BY
    first = ControllerLife()
    first.take(run_events.Stopping)
    assert not first.take(task_events.TaskStarted, 1).is_right


def test_an_agent_logs_no_step_that_its_table_does_not_allow() -> None:
    logged: list[Any] = []
    life = SiteLife()
    log = follow(life, lambda kind, *values, **fields: logged.append((kind, values, fields)))
    log(round_events.ComputeStarted, 0)
    log(task_events.TaskJoined, task=3)
    assert [kind for kind, _, _ in logged] == [round_events.ComputeStarted, task_events.TaskJoined]
    expected = "ready while 'computing'; expected 'computed'"
    with pytest.raises(LifecycleError, match=expected):
        log(round_events.Ready, iteration=0)
    assert len(logged) == 2


def test_a_part_follows_from_the_roles_of_a_task() -> None:
    roles = Roles(("a",), ("s",), 0.0, 0.0, "proceed")
    assert Part.of("b", False, None) == Part(receives=False)
    assert Part.of("s", False, roles) == Part(passive=True, receives=False, leaves=True)
    assert Part.of("a", True, roles) == Part(receives=True)
    assert Part.of("b", False, roles) == Part(receives=False, leaves=True)
    waits = Roles(("a",), ("s",), 0.0, 0.0, "wait")
    assert Part.of("b", False, waits) == Part(receives=False, waits=True)
