"""Builds a scenario's plan once for a sample group, to find a refusal before the run (pure).

Refusals often depend on the group and on the overlay, such as more roots than sites. The type of an
option cannot express that.
"""

from __future__ import annotations

from trunkline.agents.control.driver import NewTask
from trunkline.agents.planning.plan import PlanError
from trunkline.agents.policies.policy import Ready
from trunkline.harness.scenario import planning
from trunkline.harness.scenario.settings import Scenario
from trunkline.harness.scenario.user_code import UserCodeError


def find_refusal(scenario: Scenario) -> ValueError | None:
    """The error of the plan for the first group that the policy forms; None if it succeeds."""
    try:
        first_group(scenario)
    except (PlanError, UserCodeError) as error:
        return error
    return None


def first_group(scenario: Scenario) -> tuple[str, ...] | None:
    """The first group if all sites become ready one after the other; None if no group forms.

    Raises:
        PlanError: the plan refuses the group.
        UserCodeError: a user's policy fails.
    """
    driver, _ = planning.create_driver(scenario)
    for site in scenario.topology.site_names:
        for action in driver.step(Ready(site, 0), 0.0):
            if isinstance(action, NewTask):
                return action.start.group
    return None
