"""Replays a controller's planner from the event log of a run (pure).

A plan follows from the links that can be used, their known rates, the default split, the seed and
the task's number. The log has every change of them, in the controller's order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from trunkline.agents.control.planner import Planner
from trunkline.agents.events.awareness_events import PlansUpdated
from trunkline.agents.events.connection_events import LossesReported, WorkerFound, WorkerLost
from trunkline.agents.events.event import Event
from trunkline.agents.events.policy_events import PolicyBegan
from trunkline.agents.events.task_events import (
    GroupPostponed,
    TaskAbandoned,
    TaskCompleted,
    TaskHalted,
    TaskRearranged,
    TaskReplanned,
    TaskStarted,
)
from trunkline.agents.planning.plan import Block, Plan, PlanError
from trunkline.agents.planning.repair import (
    UsableOverlay,
    move_hits,
    plan_gift,
    replace_blocks,
    sum_loads,
)
from trunkline.agents.policies.policy import Start


@dataclass(slots=True)
class PlanReplay:
    """The planner of one term of a controller, as the events so far have left it."""

    planner: Planner
    _begun: bool = False
    _plans: dict[int, Plan] = field(default_factory=dict)
    _blocks: dict[int, dict[int, Block]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.overlay.present = set(self.planner.settings.sites)

    @property
    def overlay(self) -> UsableOverlay:
        """The links and sites that the controller thinks usable."""
        return self.planner.overlay

    def take(self, event: Event) -> None:
        """Bring the planner up to date with the next event of this controller."""
        match event:
            case WorkerLost(worker=worker):
                self.overlay.present.discard(worker)
            case WorkerFound(worker=worker):
                self.overlay.present.add(worker)
            case LossesReported(worker=worker, lost=lost):
                self.overlay.lost[worker] = frozenset(lost)
            case PlansUpdated(version=version, links=links):
                rates = self.planner.rates
                rates.rates_mbps = {(link.src, link.dst): link.rate_mbps for link in links}
                rates.version = version
            case PolicyBegan():
                self._begun = True
            case _:
                return
        if self._begun:
            self.planner.refresh_default()

    def note(self, event: Event) -> None:
        """Keep the blocks that running tasks have after an event that says so."""
        match event:
            case TaskStarted(task=task, forest=forest):
                self._replace_blocks(task, forest, 0)
            case TaskReplanned(task=task, forest=forest, first=first):
                self._replace_blocks(task, forest, first)
            case TaskHalted(task=task):
                self._blocks[task] = {}
            case TaskRearranged(task=task, forest=forest, first=first, withdrawn=withdrawn):
                blocks, added = self._blocks.get(task, {}), Plan.from_json(forest).blocks
                self._blocks[task] = replace_blocks(blocks, withdrawn, added, first)
            case TaskCompleted(task=task) | TaskAbandoned(task=task):
                self._blocks.pop(task, None)

    def _replace_blocks(self, task: int, forest: Mapping[str, Any], first: int) -> None:
        self._plans[task] = Plan.from_json(forest)
        self._blocks[task] = dict(enumerate(self._plans[task].blocks, first))

    def explain(self, event: TaskStarted | TaskReplanned, task: TaskStarted) -> str | None:
        """Why the plan of an event is not that of the replay; None if it is.

        `task` is how the event's task started.
        """
        found = Plan.from_json(event.forest)
        start = Start.of(task.group, task.weights, task.scale, task.roles)
        try:
            match event:
                case TaskStarted(version=version):
                    if version != self.planner.rates.version:
                        known = self.planner.rates.version
                        return f"it has the rates of version {version}, the controller had {known}"
                    wanted = self.planner.plan(start, task.task)
                case TaskReplanned(holder=None):
                    takers = tuple(site for site in start.takers if site in found.receivers)
                    wanted = self.planner.plan(replace(start, receivers=takers), task.task)
                case TaskReplanned(holder=str(holder)):
                    count = found.chunk_count
                    wanted = plan_gift(holder, found.receivers, count, self.overlay)
        except PlanError as error:
            return f"the scenario has no plan for it: {error}"
        if found == wanted:
            return None
        return (
            "its plan is not the one that the scenario gives (does it depend on its request alone?)"
        )

    def explain_blocks(self, event: TaskRearranged) -> str | None:
        """Why blocks cannot have moved as they did; None if they moved by CREW's equation (3)."""
        plan, blocks = self._plans.get(event.task), self._blocks.get(event.task, {})
        if plan is None or not blocks.keys() >= set(event.withdrawn):
            return "the controller does not know the blocks that it withdraws"
        cut = self.planner.settings.cut
        old = [blocks[number] for number in event.withdrawn]
        wanted = move_hits(plan, old, sum_loads(self._blocks.values(), cut), self.overlay, cut)
        found = Plan.from_json(event.forest).blocks
        return None if list(found) == wanted else "its blocks moved to other sites than by (3)"

    def explain_postponed(self, event: GroupPostponed) -> str | None:
        """Why a group need not have waited, or not for this cause; None if it had to."""
        try:
            self.planner.plan(Start(event.group, dict.fromkeys(event.group, 1.0), 1.0), 0)
        except PlanError as error:
            if set(error.sites) == set(event.cause.sites):
                return None
            named = ", ".join(error.sites) or "no site"
            return f"the links that can be used do not connect {named}, not as its cause says"
        return "the links that can be used connect it"
