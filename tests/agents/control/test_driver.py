"""What the driver does with a group for which there is no plan."""

from dataclasses import dataclass
from types import SimpleNamespace

import pytest
from wan import Wan, mesh

from trunkline.agents.control.driver import Driver, Postponed
from trunkline.agents.events.causes import NoPlan
from trunkline.agents.planning.plan import Block, Plan, PlanError, WrongPlanError, check
from trunkline.agents.policies.policy import Ready, average
from trunkline.agents.policies.preduce import PartialReduce

PAIR = ("a", "b")
FOUR = ("a", "b", "c", "d")


def driver(error: PlanError, *, whole: bool) -> Driver:
    def plan(start, task):
        raise error

    settings = SimpleNamespace(policy_name="preduce", sites=PAIR, servers=())
    overlay = SimpleNamespace(whole=whole)
    return Driver(
        PartialReduce(PAIR, 2), SimpleNamespace(settings=settings, overlay=overlay, plan=plan)
    )


def begin(driver: Driver) -> list:
    return [*driver.step(Ready("a", 0), 0.0), *driver.step(Ready("b", 0), 0.0)]


def test_a_group_without_a_plan_waits_if_a_link_or_site_is_missing():
    *_, last = begin(driver(PlanError("there is no link a -> b", PAIR), whole=False))
    assert isinstance(last, Postponed)
    assert last.cause == NoPlan("there is no link a -> b", PAIR)


@pytest.mark.parametrize(
    ("error", "whole"),
    [(PlanError("no tree"), True), (WrongPlanError("mine.py: line 3: KeyError"), False)],
)
def test_what_no_other_network_would_mend_ends_the_run(error, whole):
    with pytest.raises(PlanError, match=str(error)):
        begin(driver(error, whole=whole))


def test_only_a_plan_over_a_missing_link_may_be_right_later():
    def plan(*out_edges: tuple[str, str]) -> Plan:
        return Plan(PAIR, PAIR, 1, (Block(((0, 1),), "b", (PAIR,), out_edges),))

    with pytest.raises(PlanError) as missing:
        check(plan(("b", "a")), {PAIR})
    assert type(missing.value) is PlanError
    with pytest.raises(WrongPlanError, match="a misses chunks"):
        check(plan(), {PAIR, PAIR[::-1]})


@dataclass(frozen=True)
class InPairs:
    """Once all four sites are ready, two pairs synchronize at once; the state is who is ready."""

    initial: frozenset = frozenset()

    def step(self, state, event):
        ready = state | {event.site} if isinstance(event, Ready) else state
        if len(ready) < len(FOUR):
            return ready, ()
        return frozenset(), (average(FOUR[:2]), average(FOUR[2:]))


@pytest.mark.parametrize(("tasks", "begun"), [(1, 1), (2, 2), (3, 3)])
def test_no_task_of_a_decision_begins_after_the_last_one(tasks, begun):
    wan = Wan(mesh(FOUR), "a2a", InPairs(), tasks=tasks)
    wan.run()
    assert len(wan.of("task_started")) == begun
