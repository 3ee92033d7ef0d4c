"""Which tasks of a run are explained, and that one stands for those that ended like it."""

from __future__ import annotations

from dataclasses import replace

import three_sites

from trunkline.agents.events.causes import SiteLost
from trunkline.agents.events.task_events import TaskAbandoned
from trunkline.harness.record.history import Task
from trunkline.harness.report.explanations.abandonment import Failure
from trunkline.harness.report.explanations.explanation import Explanation
from trunkline.harness.report.explanations.time_parts import Part
from trunkline.harness.report.explanations.told.choice import choose
from trunkline.harness.report.explanations.told.explanations_section import explain_lost_time
from trunkline.harness.report.pages.markup import join

(TASK, *_) = three_sites.history().tasks


def make_slow(number: int, lost_s: float) -> Explanation:
    """A completed task that took much longer than expected."""
    task = replace(TASK, started=replace(TASK.started, task=number))
    parts = (Part("outage", lost_s, "a -> b"),)
    return replace(Explanation(task, 1 + lost_s, 1.0, (), parts, parts[0], None), lost_s=lost_s)


def make_abandoned(number: int, lost_s: float, site: str = "rome") -> Explanation:
    """A task that was abandoned because a site was lost."""
    ended = TaskAbandoned(9, "controller", number, SiteLost(site))
    task = Task({TaskAbandoned: (ended,)}, replace(TASK.started, task=number))
    failures = (Failure((), f"{site} is lost", 0),)
    return Explanation(task, lost_s, 1.0, (), (), None, None, failures, lost_s)


def list_numbers(found: list[Explanation], most: int) -> list[list[int]]:
    """The numbers of the chosen tasks, each with those that ended for the same reason."""
    return [
        [each.task.number for each in (chosen.explained, *chosen.alike)]
        for chosen in choose(found, most)
    ]


def test_the_worst_come_first_then_those_that_failed_and_one_stands_for_its_like() -> None:
    found = [
        make_slow(22, 3.0),
        make_abandoned(16, 2.3),
        make_abandoned(17, 2.2),
        make_slow(20, 2.1),
        make_abandoned(18, 1.6),
        make_abandoned(30, 0.3, site="oslo"),
    ]
    assert list_numbers(found, 5) == [[22], [16, 17, 18], [30], [20]]
    assert list_numbers(found, 2) == [[22], [16, 17, 18]]
    _, chosen, *_ = choose(found, 5)
    assert chosen.describe_alike() == (
        "Tasks 17 (2.200 s) and 18 (1.600 s) were abandoned for the same reason."
    )
    many = choose([make_abandoned(n, 9.0 - n) for n in range(9)], 3)
    assert [each.describe_alike() for each in many] == [
        "Tasks 1 (8.000 s), 2 (7.000 s), 3 (6.000 s), 4 (5.000 s), 5 (4.000 s) and 3 others were "
        "abandoned for the same reason."
    ]
    assert choose(found[:1], 3)[0].describe_alike() == ""


def test_of_tasks_that_lost_nothing_considerable_only_the_first_is_explained() -> None:
    assert list_numbers([make_slow(n, 0.01) for n in range(4)], 3) == [[0]]


def test_the_page_explains_the_same_tasks_in_this_order() -> None:
    found = [make_slow(22, 3.0), make_abandoned(16, 2.3), make_abandoned(17, 2.2)]
    page = join(explain_lost_time(found, three_sites.history()))
    assert page.index("Task 22 (") < page.index("Task 16 (")
    assert " was abandoned for the same reason.</p></div>" in page
    assert "Task 17 (o" not in page
