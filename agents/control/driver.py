"""Turns events into tasks with plans: one policy and one planner (pure).

The controller and the fluid model of a run both use this driver. So the fluid model supports every
policy, and a task has the same number, group and plan in both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from trunkline.agents.control.planner import Build, Planner
from trunkline.agents.planning.plan import Plan, PlanError
from trunkline.agents.policies.policy import Event, Policy, Ready, Release, Start
from trunkline.agents.wire.agent_settings import (
    TASKS_PER_CONTROLLER,
    ControllerSettings,
    remember,
)


@dataclass(frozen=True, slots=True)
class NewTask:
    """A task that begins. Members in `unready` join it as soon as they are ready."""

    number: int
    start: Start
    plan: Plan
    unready: frozenset[str]


@dataclass(frozen=True, slots=True)
class Postponed:
    """A group that the usable links do not connect. Its members in `ready` wait."""

    start: Start
    reason: str
    ready: frozenset[str]


Action = NewTask | Postponed | Release


@dataclass(slots=True)
class Driver:
    """Decides which tasks begin and numbers them.

    `ready` are the sites that wait for a task; `started` counts the tasks so far. `last_tasks` maps
    each controller's rank to its latest task number; numbers up to that are not used again.
    """

    policy: Policy
    planner: Planner
    rank: int = 0
    ready: set[str] = field(default_factory=set)
    started: int = 0
    last_tasks: dict[int, int] = field(default_factory=dict)
    _state: Any = field(init=False)
    _next: int = field(init=False)

    def __post_init__(self) -> None:
        self._state = self.policy.initial
        self._next = self.rank * TASKS_PER_CONTROLLER

    @classmethod
    def create(cls, settings: ControllerSettings, policy: Policy, build: Build) -> Driver:
        """A driver for the controller with these settings."""
        driver = cls(policy, Planner.over(settings, build), settings.rank)
        driver.skip(settings.last_tasks)
        return driver

    def skip(self, last_tasks: Iterable[int]) -> None:
        """Continue to count tasks after these latest numbers, one per earlier controller.

        An earlier term of this controller may have started tasks that no report mentions: at most
        one per site. Their numbers are left out.
        """
        for last in last_tasks:
            remember(self.last_tasks, last)
            rank, number = divmod(last, TASKS_PER_CONTROLLER)
            self.started = max(self.started, number + 1)
            if rank == self.rank:
                self._next = max(self._next, last + 1 + len(self.planner.settings.sites))

    def step(self, event: Event) -> Iterator[Action]:
        """Give an event to the policy; yields the actions that follow, in order.

        The caller must consume all of them. Raises PlanError if the plan builder refuses a group
        although every link can be used.
        """
        if isinstance(event, Ready):
            self.ready.add(event.site)
        self._state, decisions = self.policy.step(self._state, event)
        for decision in decisions:
            if isinstance(decision, Start):
                yield self._begin(decision)
            else:
                self.ready.discard(decision.site)
                yield decision

    def _begin(self, start: Start) -> NewTask | Postponed:
        try:
            plan = self.planner.plan(start.group, self._next)
        except PlanError as error:
            if self.planner.overlay.whole:
                raise
            return Postponed(start, str(error), frozenset(self.ready.intersection(start.group)))
        number, self._next = self._next, self._next + 1
        self.started += 1
        remember(self.last_tasks, number)
        unready = frozenset(start.group) - self.ready
        self.ready.difference_update(start.group)
        return NewTask(number, start, plan, unready)
