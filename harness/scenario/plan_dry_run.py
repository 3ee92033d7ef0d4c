"""Builds a scenario's plan once for a sample group, so that a refusal is found before a run (pure).

What a plan refuses often depends on the group and the overlay (a tree of more roots than sites),
which no type of an option can say.
"""

from __future__ import annotations

from trunkline.agents.control.driver import NewTask
from trunkline.agents.planning.plan import PlanError
from trunkline.agents.policies.policy import Ready
from trunkline.harness.scenario import planning
from trunkline.harness.scenario.settings import Scenario
from trunkline.harness.scenario.user_code import UserCodeError


def find_refusal(scenario: Scenario) -> ValueError | None:
    """Why the plan cannot serve the first group that the policy makes; None if it can."""
    try:
        first_group(scenario)
    except (PlanError, UserCodeError) as error:
        return error
    return None


def first_group(scenario: Scenario) -> tuple[str, ...] | None:
    """The first group when all sites are ready one after the other; None if there is none.

    Raises PlanError where the plan refuses that group, UserCodeError where a user's policy fails.
    """
    driver, _ = planning.create_driver(scenario)
    for site in scenario.topology.site_names:
        for action in driver.step(Ready(site, 0)):
            if isinstance(action, NewTask):
                return action.start.group
    return None
