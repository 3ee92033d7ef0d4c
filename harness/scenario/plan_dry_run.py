"""Builds a scenario's plan once for a sample group, to find a refusal before the run (pure).

Refusals often depend on the group and on the overlay, such as more roots than sites. The type of an
option cannot express that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Literal, NamedTuple

from trunkline.agents.control.decision_rules import DecisionError
from trunkline.agents.control.driver import Action, NewTask
from trunkline.agents.planning.plan import PlanError, WrongPlanError
from trunkline.agents.policies.policy import Ready
from trunkline.harness.config.units import TIME_S, short
from trunkline.harness.faults.cutting import can_cut_off
from trunkline.harness.faults.fault_writing import write
from trunkline.harness.scenario import planning
from trunkline.harness.scenario.sections import limits
from trunkline.harness.scenario.settings import Scenario
from trunkline.harness.scenario.user_code import SUFFIX
from trunkline.harness.scenario.user_results import UserCodeError

TICKS = 100
"""How many ticks a policy gets to form its first group."""

CALLS = 3
"""How often a user's plan is built again, to see whether it is the same."""

IMPURE = (
    "two calls of build with equal requests gave different plans: expected one that depends on its "
    "request alone, with random numbers of request.rng"
)

WITHOUT_SOLVER: Mapping[str, Mapping[str, Any]] = {
    "crew": {"split": "even"},
    "opr": {"split": "even"},
}
"""Options with which a plan refuses the same groups, but solves no linear program: shares of these
plans always have a solution, and importing the solver takes as long as everything else."""


class Refusal(NamedTuple):
    """Why there is no plan for the first group, and which key names the code that failed."""

    key: Literal["policy", "plan"]
    text: str


def find_refusal(scenario: Scenario) -> Refusal | None:
    """The error of policy or plan for the policy's first group; None if there is none."""
    plan = scenario.scheme.plan
    options = {**plan.options, **WITHOUT_SOLVER.get(plan.kind, {})}
    scheme = replace(scenario.scheme, plan=replace(plan, options=options))
    changed = replace(scenario, scheme=scheme)
    try:
        first = first_task(changed)
        if plan.kind.endswith(SUFFIX) and any(first_task(changed) != first for _ in range(CALLS)):
            return Refusal("plan", IMPURE)
    except PlanError as error:
        return Refusal("plan", str(error))
    except (DecisionError, UserCodeError) as error:
        return Refusal("policy", str(error))
    return None


def list_notes(scenario: Scenario) -> tuple[str, ...]:
    """All notes: on the scenario's files and faults, on a user's plan, on memory."""
    return (
        *scenario.notes,
        *_note_rounds(scenario),
        *_note_losses(scenario),
        *_note_memory(scenario),
    )


def _note_rounds(scenario: Scenario) -> Iterator[str]:
    """A note if the run stops by rounds, and a fault may make a site do them without the others."""
    rounds = scenario.stop.rounds
    if rounds is None or scenario.runs_programs:
        return
    for entry in scenario.timeline:
        if can_cut_off(entry.fault, scenario.topology, scenario.controller_site):
            yield (
                f"stop.rounds, {rounds}: {write(entry.fault)}, at {short(entry.at_s, TIME_S)}, may "
                "cut a site off from the controller; the site may do its last rounds alone and "
                "then take part in no more tasks: stop by tasks or time instead"
            )
            return


def _note_memory(scenario: Scenario) -> Iterator[str]:
    if shortage := limits.find_shortage(scenario):
        yield f"it can be predicted, but not run: {shortage}"


def _note_losses(scenario: Scenario) -> Iterator[str]:
    """A note if a user's plan is wrong for the first group without one of its members."""
    kind = scenario.scheme.plan.kind
    if scenario.runs_programs or not kind.endswith(SUFFIX):
        return
    task = first_task(scenario)
    if task is None or task.start.receivers is not None or len(task.start.group) < 3:
        return
    planner = planning.create_driver(scenario).planner
    for lost in task.start.group:
        weights = {site: each for site, each in task.start.weights.items() if site != lost}
        group = tuple(site for site in task.start.group if site != lost)
        try:
            planner.plan(replace(task.start, group=group, weights=weights), task.number)
        except WrongPlanError as error:
            yield (
                f"{kind}: without {lost}, its plan is wrong: {error}; a run that loses a site "
                "would fail"
            )
            return
        except PlanError:
            continue  # no plan for this group: it is tried again when the site is back


def first_task(scenario: Scenario) -> NewTask | None:
    """The first task if all sites become ready one after the other; None if no group forms.

    A policy that knows time may wake a few times before it forms a group.

    Raises:
        PlanError: the plan refuses the group.
        DecisionError: the policy decides what is not allowed.
        UserCodeError: a user's policy fails.
    """
    driver = planning.create_driver(scenario)
    for site in scenario.workers:
        if task := _find_task(driver.step(Ready(site, 0), 0.0)):
            return task
    for _ in range(TICKS):
        if driver.wake_s is None:
            break
        if task := _find_task(driver.tick(driver.wake_s)):
            return task
    return None


def _find_task(actions: Iterable[Action]) -> NewTask | None:
    return next((each for each in actions if isinstance(each, NewTask)), None)
