"""By how much plans are longer because the controller knew of losses (pure)."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from trunkline.agents.events.causes import LinkBroke, SiteLost
from trunkline.agents.events.connection_events import (
    BackupStoodDown,
    BackupTookOver,
    LossesReported,
    WorkerFound,
    WorkerLost,
)
from trunkline.agents.events.event import Event
from trunkline.agents.events.task_events import TaskStarted
from trunkline.agents.planning.plan import Directed, Plan, PlanError
from trunkline.agents.policies.policy import Start
from trunkline.harness.config.units import count_of, join_words
from trunkline.harness.record.history import History
from trunkline.harness.report.tables.forecasts import make_forecaster
from trunkline.harness.scenario.planning import create_driver
from trunkline.harness.scenario.settings import Scenario

NAMED = 3
"""The most lost sites, or links, that are named."""

LEAST_S = 0.001
"""A plan that takes longer by less than this takes as long."""


@dataclass(frozen=True, slots=True)
class Detour:
    """A task was planned without sites or links, and would take `usual_s` with all of them.

    That may be as long, if its plan uses other links.

    Attributes:
        without: what its plan does without, in words.
        cause: the loss of the first of them.
        links: those that the plan with all of them uses.
        until: until when they counted as lost, in words; empty if until the end of the run.
    """

    usual_s: float
    without: str
    cause: SiteLost | LinkBroke
    links: frozenset[Directed] = frozenset()
    until: str = ""

    def end(self, t_ns: int) -> Detour:
        """The same with the time at which the controller counted none of them as lost any more."""
        until = f" (which counted as lost until {t_ns / 1e9:.3f} s)"
        return replace(self, until=until)


@dataclass(slots=True)
class _Losses:
    """The sites and links that the controller counts as lost."""

    sites: dict[str, None] = field(default_factory=dict)
    reported: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def take(self, event: Event) -> None:
        """Take in the next event."""
        match event:
            case WorkerLost():
                self.sites[event.worker] = None
            case WorkerFound():
                self.sites.pop(event.worker, None)
            case LossesReported():
                self.reported[event.worker] = event.lost
            case BackupTookOver() | BackupStoodDown():
                self.sites.clear()
                self.reported.clear()

    @property
    def links(self) -> list[tuple[str, str]]:
        """The lost links between sites that are not lost, in the order of reports."""
        found: dict[frozenset[str], tuple[str, str]] = {}
        for site, lost in self.reported.items():
            for other in lost:
                if not {site, other} & self.sites.keys():
                    found.setdefault(frozenset((site, other)), (site, other))
        return [*found.values()]

    @property
    def all(self) -> frozenset[str | frozenset[str]]:
        """All lost sites and links."""
        return frozenset([*self.sites, *map(frozenset, self.links)])

    @property
    def cause(self) -> SiteLost | LinkBroke | None:
        """The loss of a site or, if none is lost, of a link."""
        if self.sites:
            return SiteLost(next(iter(self.sites)))
        return LinkBroke(self.links[0]) if self.links else None

    def describe(self) -> str:
        """The sites or links that a plan does without, in words."""
        links = [f"{a} <-> {b}" for a, b in self.links]
        told = []
        for kind, names in (("site", [*self.sites]), ("link", links)):
            more = len(names) - NAMED
            told += names[:NAMED]
            told += [count_of(more, f"other {kind}")] if more > 0 else []
        return f"without {join_words(told)}"


def find_detours(
    scenario: Scenario, history: History, expected_s: Sequence[float]
) -> dict[int, Detour]:
    """The detours of tasks, by number; `expected_s` is what the plan of each was to take.

    Plans that follow measured rates are left out: theirs differ for other reasons.
    """
    reported = any(each.lost for each in history.all(LossesReported))
    if scenario.scheme.rates == "measured" or not (reported or history.all(WorkerLost)):
        return {}
    losses, found, plan_usual = _Losses(), dict[int, Detour](), _make_planner(scenario)
    plans: list[TaskStarted] = []
    planned_s = {
        task.number: usual_s for task, usual_s in zip(history.tasks, expected_s, strict=True)
    }
    lost: dict[int, frozenset[str | frozenset[str]]] = {}
    for event in history.events:
        losses.take(event)
        for number in [number for number, each in lost.items() if not each & losses.all]:
            found[number] = found[number].end(event.t_ns)
            del lost[number]
        if isinstance(event, TaskStarted) and (cause := losses.cause) is not None:
            usual_s, links = plan_usual(event)
            own_s = planned_s.get(event.task, math.nan)
            is_longer = own_s > usual_s + LEAST_S
            if (larger := _find_larger(event, plans, losses.sites)) is not None and not is_longer:
                usual_s, links = own_s, _list_links(larger.forest)
            if is_longer or (own_s >= usual_s and not _list_links(event.forest) <= links):
                found[event.task] = Detour(usual_s, losses.describe(), cause, links)
                lost[event.task] = losses.all
        if isinstance(event, TaskStarted):
            plans.append(event)
    return found


def _find_larger(
    started: TaskStarted, before: Sequence[TaskStarted], lost: Collection[str]
) -> TaskStarted | None:
    """The last task before of the same group and lost sites, if the group would have had these."""
    whole = {*started.group}
    same = (
        each
        for each in reversed(before)
        if whole < {*each.group} and {*each.group} <= whole | {*lost}
    )
    return next(same, None)


def _make_planner(
    scenario: Scenario,
) -> Callable[[TaskStarted], tuple[float, frozenset[Directed]]]:
    """A function that gives the expected time and the links of a task with all sites and links.

    The time is NaN if there is no such plan.
    """
    forecast = make_forecaster(replace(scenario, background=()))
    planner = create_driver(scenario).planner
    plans: dict[Hashable, Mapping[str, Any] | None] = {}

    def plan(started: TaskStarted) -> Mapping[str, Any] | None:
        roles = started.group, started.weights, started.scale, started.roles
        try:
            return planner.plan(Start.of(*roles), started.task).to_json()
        except PlanError:
            return None

    def plan_usual(started: TaskStarted) -> tuple[float, frozenset[Directed]]:
        key = started.group, tuple(started.weights), started.roles
        if key not in plans:
            plans[key] = plan(started)
        if (forest := plans[key]) is None:
            return math.nan, frozenset()
        found = forecast(replace(started, forest=forest))
        return found.estimate_s + found.latency_s, _list_links(forest)

    return plan_usual


def _list_links(forest: Mapping[str, Any]) -> frozenset[Directed]:
    """The links of the overlay that a plan uses."""
    edges = (e for block in Plan.from_json(forest).blocks for e in block.in_edges + block.out_edges)
    return frozenset(hop for edge in edges for hop in pairwise(edge))
