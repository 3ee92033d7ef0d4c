"""A policy of a user's own: its steps are looked at while it decides."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from trunkline.agents.policies.policy import Decision, Event, Policy, Release, Start
from trunkline.harness.scenario.user_code_guard import ANYTHING, OwnCodeError, guarded
from trunkline.workloads.option_rules import Rule


class Watched:
    """The policy, whose mistakes are errors that name its file."""

    def __init__(self, policy: Policy, file: str, sites: Collection[str]) -> None:
        def decide(given: Any) -> bool:
            match given:
                case (_, tuple(decisions)):
                    return all(_is_decision(each, sites) for each in decisions)
            return False

        form = "a pair: the state, and a tuple of Start and Release of known sites"
        self.initial = guarded(lambda: policy.initial, file, ANYTHING, OwnCodeError)()
        self._step = guarded(policy.step, file, Rule(decide, form), OwnCodeError)

    def step(self, state: Any, event: Event) -> tuple[Any, tuple[Decision, ...]]:
        """Raises OwnCodeError unless the policy gives a state and decisions."""
        made: tuple[Any, tuple[Decision, ...]] = self._step(state, event)
        return made


def _is_decision(given: Any, sites: Collection[str]) -> bool:
    match given:
        case Start(group, weights, _):
            return bool(group) and set(group) == weights.keys() <= set(sites)
        case Release(site):
            return site in sites
    return False
