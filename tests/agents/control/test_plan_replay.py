"""The replay of plans knows what a controller knows, and says what differs."""

import itertools
from dataclasses import replace

import pytest

from trunkline.agents.control.plan_replay import PlanReplay
from trunkline.agents.control.planner import Planner
from trunkline.agents.events.awareness_events import PlansUpdated, list_rates
from trunkline.agents.events.causes import NoPlan, SiteLost
from trunkline.agents.events.connection_events import LossesReported, WorkerFound, WorkerLost
from trunkline.agents.events.event import CONTROLLER
from trunkline.agents.events.policy_events import PolicyBegan
from trunkline.agents.events.task_events import (
    GroupPostponed,
    TaskRearranged,
    TaskReplanned,
    TaskStarted,
)
from trunkline.agents.planning.plan import Block, Plan, PlanRequest, WrongPlanError, star
from trunkline.agents.planning.repair import move_block, plan_gift
from trunkline.agents.plans import mst
from trunkline.agents.policies.policy import Start
from trunkline.agents.wire.agent_settings import ControllerSettings

SITES = ("n1", "n2", "n3")
PAIRS = tuple(itertools.permutations(SITES, 2))
RATES = {pair: 50.0 if set(pair) == {"n1", "n2"} else 10.0 for pair in PAIRS}
SETTINGS = ControllerSettings(
    sites=SITES,
    rates_mbps=RATES,
    delays_ms=dict.fromkeys(PAIRS, 5.0),
    model_bytes=40,
    chunk_bytes=4,
    seed=1,
    policy_name="bsp",
    plan_name="mst",
    task_s=10.0,
)
START = Start(SITES, dict.fromkeys(SITES, 1.0), 1.0)
THAT_IS_LOST = LossesReported(2, CONTROLLER, "n1", ("n2",))


def begin() -> PlanReplay:
    replay = PlanReplay(Planner.over(SETTINGS, mst.build))
    replay.take(PolicyBegan(1, CONTROLLER, 0))
    return replay


def planner() -> Planner:
    made = Planner.over(SETTINGS, mst.build)
    made.overlay.present.update(SITES)
    return made


def started(plan: Plan, version: int = 1) -> TaskStarted:
    names, members = ("bsp", "mst"), (SITES, START.weights, START.scale)
    return TaskStarted(
        9, CONTROLLER, 0, *names, *members, 40, 4, forest=plan.to_json(), version=version
    )


def around_a_lost_link() -> Plan:
    made = planner()
    made.overlay.lost["n1"] = frozenset({"n2"})
    return made.plan(START, 0)


def test_a_plan_of_all_links_is_wrong_after_a_loss_and_right_before():
    task = started(planner().plan(START, 0))
    replay = begin()
    assert replay.explain(task, task) is None
    replay.take(THAT_IS_LOST)
    assert "not the one" in (replay.explain(task, task) or "")
    around = started(around_a_lost_link())
    assert replay.explain(around, around) is None
    replay.take(LossesReported(3, CONTROLLER, "n1", ()))
    assert replay.explain(task, task) is None


def test_a_group_without_its_lost_member_has_no_plan_until_the_member_is_found():
    task = started(planner().plan(START, 0))
    replay = begin()
    replay.take(WorkerLost(2, CONTROLLER, "n3", "killed"))
    assert "no plan" in (replay.explain(task, task) or "")
    waits = GroupPostponed(3, CONTROLLER, SITES, NoPlan("it is lost", ("n1", "n3")))
    assert replay.explain_postponed(waits) is None
    other = replace(waits, cause=NoPlan("it is lost", ("n2",)))
    assert "connect n3, n1" in (replay.explain_postponed(other) or "")
    replay.take(WorkerFound(4, CONTROLLER, "n3"))
    assert replay.explain(task, task) is None
    assert "connect it" in (replay.explain_postponed(waits) or "")


def test_plans_follow_the_rates_of_their_version():
    made = planner()
    made.rates.rates_mbps = RATES | {("n1", "n2"): 0.1, ("n2", "n1"): 0.1}
    task = started(made.plan(START, 0), version=2)
    replay = begin()
    assert "version 2" in (replay.explain(task, task) or "")
    replay.take(PlansUpdated(5, CONTROLLER, 2, list_rates(made.rates.rates_mbps)))
    assert replay.explain(task, task) is None


@pytest.mark.parametrize("holder", [None, "n2"])
def test_a_new_plan_is_made_for_the_links_that_are_left(holder):
    made = planner()
    task = started(made.plan(START, 0))
    made.overlay.lost["n1"] = frozenset({"n2"})
    plan = made.plan(START, 0) if holder is None else plan_gift(holder, ["n1"], 10, made.overlay)
    anew = TaskReplanned(9, CONTROLLER, 0, 1, holder, plan.to_json(), "n1 and n2 lost each other")
    replay = begin()
    assert "not the one" in (replay.explain(anew, task) or "")
    replay.take(THAT_IS_LOST)
    assert replay.explain(anew, task) is None


@pytest.mark.parametrize(("hub", "right"), [("n3", True), ("n2", False)])
def test_a_block_moves_to_the_site_that_equation_3_gives(hub, right):
    block = Block(((0, 10),), "n1", *star("n1", SITES, {pair: pair for pair in PAIRS}))
    plan = Plan(SITES, SITES, 10, (block,))
    moved = replace(plan, blocks=(move_block(plan, block, hub),))
    event = TaskRearranged(9, CONTROLLER, 0, (0,), 1, moved.to_json(), SiteLost("n4"))
    replay = begin()
    assert "does not know" in (replay.explain_blocks(event) or "")
    replay.note(started(plan))
    replay.take(THAT_IS_LOST)
    assert (replay.explain_blocks(event) is None) == right
    replay.note(event)
    assert "does not know" in (replay.explain_blocks(event) or "")


def test_a_wrong_plan_is_named_with_its_task_and_group() -> None:
    def build(request: PlanRequest) -> Plan:
        return replace(mst.build(request), blocks=())

    wrong = planner()
    wrong.build = build
    with pytest.raises(WrongPlanError) as refused:
        wrong.plan(START, 3)
    said = str(refused.value)
    assert said.startswith("n1 misses chunks ")
    assert said.endswith("(plan mst, task 3 of n1, n2, n3)")
