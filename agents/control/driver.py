"""Turns events into tasks with plans: one policy and one planner (pure).

The controller and the fluid model of a run both use this driver. So the fluid model supports every
policy, and a task has the same number, group and plan in both. The driver alone gives events to the
policy: it stamps them with the time, and keeps the times at which the policy wants to wake.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from trunkline.agents.control.decision_rules import DecisionRules
from trunkline.agents.control.planner import Build, Planner
from trunkline.agents.events.causes import NoPlan
from trunkline.agents.planning.plan import Plan, PlanError, WrongPlanError
from trunkline.agents.policies.policy import (
    TICK_S,
    Ended,
    Event,
    Exclude,
    Left,
    Lost,
    Policy,
    Proceed,
    Ready,
    SiteEvent,
    Start,
    Tick,
    Wake,
)
from trunkline.agents.wire.agent_settings import ControllerSettings


@dataclass(frozen=True, slots=True)
class NewTask:
    """A task that begins, the `count`th of the run as far as this driver knows.

    Members in `unready` join it as soon as they are ready.
    """

    number: int
    count: int
    start: Start
    plan: Plan
    unready: frozenset[str]

    def describe(self, settings: ControllerSettings, version: int) -> dict[str, Any]:
        """The values of its event `TaskStarted`; `version` is that of the rates of its plan."""
        return {
            "task": self.number,
            "policy": settings.policy_name,
            "plan": settings.plan_name,
            "group": self.start.group,
            "weights": dict(self.start.weights),
            "scale": self.start.scale,
            "bytes": settings.model_bytes,
            "chunk_bytes": settings.chunk_bytes,
            "tensor_bytes": settings.tensor_bytes,
            "forest": self.plan.to_json(),
            "version": version,
            "roles": self.start.roles,
        }


@dataclass(frozen=True, slots=True)
class Postponed:
    """A group that the usable links do not connect. Its members in `ready` wait."""

    start: Start
    cause: NoPlan
    ready: frozenset[str]


@dataclass(frozen=True, slots=True)
class Told:
    """An event that the policy gets next; the other actions up to the next `Told` answer it."""

    event: Event


Action = NewTask | Postponed | Proceed | Exclude | Told


@dataclass(slots=True)
class Driver:
    """Decides which tasks begin and numbers them.

    `ready` are the sites that wait for a task; `started` counts the tasks so far. The next of them
    has the number `next_task`.
    A policy that `is_timed` gets `Ended` and `Tick`. The events that a policy gets are among the
    actions, because nothing else in a log says when and in which order they came.
    """

    policy: Policy
    planner: Planner
    next_task: int = 0
    ready: set[str] = field(default_factory=set)
    started: int = 0
    is_timed: bool = field(init=False)
    _rules: DecisionRules = field(init=False)
    _state: Any = field(init=False)
    _wakes_s: frozenset[float] = frozenset()
    _ticked_s: float = -math.inf
    _waiting: dict[int, set[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._rules = DecisionRules.of(self.planner.settings, self.policy)
        self.is_timed = self._rules.traits.timed
        self._state = self.policy.initial

    @classmethod
    def create(
        cls,
        settings: ControllerSettings,
        policy: Policy,
        build: Build,
        build_default: Build | None = None,
    ) -> Driver:
        """A driver for the controller with these settings."""
        planner = Planner.over(settings, build, build_default)
        return cls(policy, planner, settings.term)

    @property
    def wake_s(self) -> float | None:
        """When to call `tick`, in seconds since the run's start; None if the policy sleeps."""
        return max(min(self._wakes_s), self._ticked_s + TICK_S) if self._wakes_s else None

    def hears_of_end(self, task: int) -> bool:
        """Whether the end of a task is to be given to `step`."""
        return self.is_timed or task in self._waiting

    def awaiting(self, task: int) -> frozenset[str]:
        """The members that will be ready again, without a message of theirs, if it completes."""
        return frozenset(self._waiting.get(task, ()))

    def step(self, event: SiteEvent | Ended, now_s: float) -> Iterator[Action]:
        """Give an event to the policy; yields the actions that follow, in order.

        `now_s` is the time since the run's start. The caller must consume all actions.

        Raises:
            PlanError: the plan builder refuses a group although every link can be used, or it
                fails.
            DecisionError: the policy decides what is not allowed.
        """
        match event:
            case Ready(site):
                self.ready.add(site)
            case Lost(site) | Left(site):
                for waiting in self._waiting.values():
                    waiting.discard(site)
            case Ended(task, completed=completed):
                self.ready |= self._waiting.pop(task, set()) if completed else set()
        if self.is_timed or not isinstance(event, Ended):
            yield from self._give(replace(event, at_s=now_s))
        yield from self.tick(now_s)

    def tick(self, now_s: float) -> Iterator[Action]:
        """Answer all wakes whose time has come with one tick; yields and raises as `step`."""
        if self.wake_s is not None and self.wake_s <= now_s:
            self._wakes_s = frozenset(at_s for at_s in self._wakes_s if at_s > now_s)
            self._ticked_s = now_s
            yield from self._give(Tick(now_s))

    def _give(self, event: Event) -> Iterator[Action]:
        yield Told(event)
        self._state, decisions = self.policy.step(self._state, event)
        for given in decisions:
            match decision := self._rules.check(given, self.ready):
                case Start():
                    yield self._begin(decision)
                case Proceed(site) | Exclude(site):
                    self.ready.discard(site)
                    yield decision
                case Wake(at_s):
                    self._wakes_s |= {at_s}

    def _begin(self, start: Start) -> NewTask | Postponed:
        servers = set(start.group).intersection(self.planner.settings.servers)
        start = replace(start, passive=start.passive | servers) if servers else start
        try:
            plan = self.planner.plan(start, self.next_task)
        except PlanError as error:
            if self.planner.overlay.whole or isinstance(error, WrongPlanError):
                raise
            ready = frozenset(self.ready.intersection(start.group))
            return Postponed(start, NoPlan(str(error), error.sites), ready)
        number, self.next_task = self.next_task, self.next_task + 1
        self.started += 1
        active = frozenset(start.group) - start.passive
        unready = active - self.ready
        self.ready -= active
        if start.then == "wait":
            self._waiting[number] = set(active)
        return NewTask(number, self.started, start, plan, unready)
