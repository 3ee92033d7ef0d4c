"""The models of all sites during a run, computed again from its events (pure).

With a workload whose contributions have a closed form, every contribution, result and version of a
model follows from the seed and from the order of the events. The float32 operations are those of
the sites (`agents.site.site_model`, `agents.site.task_execution`), so the bytes are the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from trunkline.agents.events.event import Event
from trunkline.agents.events.fault_events import AgentChanged
from trunkline.agents.events.round_events import ComputeFinished, Ready, RoundAlone, WorkerFinished
from trunkline.agents.events.task_events import (
    Contributed,
    ContributionTaken,
    ModelMerged,
    ServerBegan,
    TaskAbandoned,
    TaskDropped,
    TaskFinished,
    TaskRearranged,
)
from trunkline.agents.planning import site_plan
from trunkline.agents.planning.plan import Chunks, Plan
from trunkline.harness.record.history import History, Task
from trunkline.workloads.base import ELEMENT_BYTES, Order, Term, Vector

Ranges = tuple[tuple[int, int], ...]
"""(first, after the last) of ranges of a model's elements."""

Described = tuple[str, tuple[float, ...]]
"""A vector's digest and fingerprint."""

Seeds = tuple[int, ...]
"""The sum of what these iterations of a site contribute; zeros if there is none."""

Key = tuple[int, str]
"""A task's number and a site."""


@dataclass(frozen=True, slots=True)
class Source:
    """What a scenario says of its models.

    Attributes:
        elements: the length of a model; sites begin with zeros.
        pattern: what a site contributes in an iteration.
        describe: the digest and the fingerprint of a vector.
        is_exact: whether sums of patterns with these weights are the same in any order.
        workers: the sites that have patterns.
        gives_updates: whether workers contribute the change of an iteration, not their model.
        accumulates: whether a worker adds a change that no task took to its next one.
    """

    elements: int
    pattern: Callable[[str, int], Vector]
    describe: Callable[[Vector], Described]
    is_exact: Callable[[tuple[float, ...]], bool]
    workers: tuple[str, ...]
    gives_updates: bool = False
    accumulates: bool = False


@dataclass(frozen=True, slots=True)
class Merged:
    """What a merge must be: the model before, the fingerprint of the step, and the new model."""

    base: Described
    step: tuple[float, ...]
    model: Described


@dataclass(frozen=True, slots=True)
class Replay:
    """What the vectors of a run must be, by task and site; those that are not known are absent."""

    contributions: Mapping[Key, Described]
    results: Mapping[Key, Described]
    merges: Mapping[Key, Merged]


@dataclass(slots=True)
class _Site:
    """One life of a site.

    Attributes:
        model: its model; None if it is not known.
        updates: the iterations whose update no task has taken; several possibilities if it is not
            known whether a task has taken it.
        iteration: the latest iteration that is in its model or its update.
        computed: an iteration that is in neither yet.
        last_step: what the last merge has added.
        given: the iteration and the update that each task has, until its end.
    """

    model: Vector | Seeds | None = ()
    updates: tuple[Seeds, ...] = ((),)
    iteration: int = 0
    computed: int | None = None
    last_step: Vector | None = None
    given: dict[int, tuple[int, Seeds]] = field(default_factory=dict)


@dataclass(slots=True)
class _Open:
    """A task that runs: what its members gave, its receivers without a result, its results."""

    task: Task
    given: dict[str, Vector | Seeds | None] = field(default_factory=dict)
    results: dict[tuple[Chunks, int], Vector | None] = field(default_factory=dict)
    missing: set[str] = field(default_factory=set)


def replay(history: History, source: Source) -> Replay:
    """Compute the vectors of a whole run again."""
    found = _Replayer(source, {task.number: _begin(task) for task in history.tasks})
    for event in history.events:
        found.take(event)
    return Replay(found.contributions, found.results, found.merges)


def find_orders(task: Task, terms: Mapping[str, Term], elements: int) -> list[tuple[Ranges, Order]]:
    """Ranges of elements, each with the order in which its contributions were added.

    Floating-point addition is not associative: only the same order gives the same bytes. `terms`
    are the contributions by site, `elements` is the model's length. The result is empty if the
    order is not known: a chunk moved to a block that adds in another order.
    """
    orders: dict[int, site_plan.Order] = {}
    for plan in find_plans(task):
        for block in plan.blocks:
            order = site_plan.summation_order(plan, block)
            for chunk in block.indexes():
                if orders.setdefault(chunk, order) != order:
                    return []
    ranges: dict[site_plan.Order, list[tuple[int, int]]] = {}
    for chunk, order in orders.items():
        span = task.cut.span(chunk)
        ends = (span.start // ELEMENT_BYTES, span.stop // ELEMENT_BYTES)
        ranges.setdefault(order, []).append(ends)
    return [(tuple(spans), _replace_sites(order, terms)) for order, spans in ranges.items()]


def find_plans(task: Task, until_ns: float = math.inf) -> list[Plan]:
    """The plan that made the result, and those whose blocks took over from some of its blocks.

    Only plans up to a time count. A task that is planned anew begins again. With a holder, the new
    plan only passes on a result that is already summed.
    """
    plans = [task.plan]
    for event in task.changes:
        if event.t_ns > until_ns:
            break
        if isinstance(event, TaskRearranged):
            plans.append(task.plan_of(event))
        elif event.holder is None:
            plans = [task.plan_of(event)]
    return plans


def _begin(task: Task) -> _Open:
    return _Open(task, missing=set(task.started.receivers))


@dataclass(slots=True)
class _Replayer:
    source: Source
    tasks: dict[int, _Open]
    sites: dict[str, _Site] = field(default_factory=dict)
    servers: set[str] = field(default_factory=set)
    contributions: dict[Key, Described] = field(default_factory=dict)
    results: dict[Key, Described] = field(default_factory=dict)
    merges: dict[Key, Merged] = field(default_factory=dict)

    def take(self, event: Event) -> None:
        site = self.sites.setdefault(event.site, _Site())
        match event:
            case AgentChanged(who=who, do="kill"):
                self.sites[who] = _Site()
                for number, open_ in self.tasks.items():
                    if who in open_.given:
                        self._close(number, who)
            case ServerBegan(digest=digest):
                self.servers.add(event.site)
                is_zero = self.source.describe(self._zeros())[0] == digest
                self.sites[event.site] = _Site(() if is_zero else None)
            case ComputeFinished(iteration=iteration):
                site.computed = iteration
            case Ready() | RoundAlone() | WorkerFinished() if site.computed is not None:
                self._commit(site, site.computed)
            case Contributed(task=number) if number in self.tasks:
                self._contribute(event, site, self.tasks[number])
            case TaskFinished(task=number) if number in self.tasks:
                self._finish(event, site, self.tasks[number])
            case ModelMerged():
                pass  # it has been computed with the result
            case TaskDropped(task=number) if number in self.tasks:
                self._drop(event, site, self.tasks[number].task)
                self._close(number, event.site)
            case ContributionTaken(task=number):
                site.given.pop(number, None)

    def _commit(self, site: _Site, iteration: int) -> None:
        site.iteration, site.computed = iteration, None
        if not self.source.gives_updates:
            site.model = (iteration,)
        elif self.source.accumulates:
            site.updates = tuple((*update, iteration) for update in site.updates)
        else:
            site.updates = ((iteration,),)

    def _contribute(self, event: Contributed, site: _Site, open_: _Open) -> None:
        gives = event.site in open_.task.started.weights
        value: Vector | Seeds | None = site.model
        if gives and self.source.gives_updates and event.site not in self.servers:
            value = update = self._choose(event, site.updates)
            site.given[event.task] = site.iteration, update
            site.updates = ((),)
        open_.given[event.site] = value
        if (vector := self._make(event.site, value)) is not None:
            self.contributions[event.task, event.site] = self.source.describe(vector)

    def _choose(self, event: Contributed, updates: tuple[Seeds, ...]) -> Seeds:
        """The possible update that the site has given; the first one if it has given another."""
        for update in updates[1:]:
            vector = self._make(event.site, update)
            if vector is not None and self.source.describe(vector)[0] == event.digest:
                return update
        return updates[0]

    def _drop(self, event: TaskDropped, site: _Site, task: Task) -> None:
        """Put an update back; a site that left without a controller may count it as taken."""
        iteration, update = site.given.pop(event.task, (-1, ()))
        back = site.updates
        if iteration >= 0 and self.source.accumulates:
            back = tuple((*update, *later) for later in site.updates)
        elif iteration == site.iteration:
            back = (update,)
        if event.site not in task.started.receivers and not task.all(TaskAbandoned):
            back = tuple(dict.fromkeys((*back, *site.updates)))
        site.updates = back

    def _finish(self, event: TaskFinished, site: _Site, open_: _Open) -> None:
        result = self._sum(event, open_)
        site.given.pop(event.task, None)
        self._close(event.task, event.site)
        if result is not None:
            self.results[event.task, event.site] = self.source.describe(result)
        if event.site not in self.servers and not open_.task.merges:
            site.model = result
            return
        self._merge(event, site, open_.task, result)

    def _merge(self, event: TaskFinished, site: _Site, task: Task, result: Vector | None) -> None:
        """As `SiteModel.merge`."""
        roles = task.started.roles
        of_initial = roles is not None and roles.kept == "initial"
        base = self._zeros() if of_initial else self._make(event.site, site.model)
        if result is None or base is None:
            site.model = site.last_step = None
            return
        step = result
        if roles is not None and roles.momentum and site.last_step is not None:
            step = np.float32(roles.momentum) * site.last_step + result
        keep = 0.0 if roles is None else roles.keep
        model = np.float32(keep) * base + step if keep else step
        site.last_step, site.model = step, model
        describe = self.source.describe
        self.merges[event.task, event.site] = Merged(
            describe(base), describe(step)[1], describe(model)
        )

    def _close(self, number: int, site: str) -> None:
        """Forget the vectors of a task once no receiver waits for its result."""
        open_ = self.tasks[number]
        open_.missing.discard(site)
        if not open_.missing:
            open_.given.clear()
            open_.results.clear()

    def _sum(self, event: TaskFinished, open_: _Open) -> Vector | None:
        """The result of a task at one receiver; None if it is not known."""
        task = open_.task
        plans = find_plans(task, event.t_ns)
        held = task.plan.chunks_of(event.site)
        key = held, len(plans)
        if key not in open_.results:
            open_.results[key] = self._add_blocks(task, plans, held, open_.given)
        return open_.results[key]

    def _add_blocks(
        self,
        task: Task,
        plans: list[Plan],
        held: Chunks,
        given: Mapping[str, Vector | Seeds | None],
    ) -> Vector | None:
        weights = task.started.weights
        if not weights.keys() <= given.keys():
            return None
        terms: dict[str, Vector] = {}
        for site, weight in weights.items():
            vector = self._make(site, given[site])
            if vector is None or vector.size * ELEMENT_BYTES != task.started.bytes:
                return None
            terms[site] = vector if weight == 1.0 else np.float32(weight) * vector
        whole = all(isinstance(given[site], tuple) for site in weights)
        any_order = whole and self.source.is_exact(tuple(weights.values()))
        orders: dict[int, site_plan.Order] = {}
        wanted = {index for start, stop in held for index in range(start, stop)}
        for plan in plans:
            for block in plan.blocks:
                order: site_plan.Order = plan.contributors_of(block)
                if not any_order:
                    order = site_plan.summation_order(plan, block)
                for chunk in wanted.intersection(block.indexes()):
                    if orders.setdefault(chunk, order) != order:
                        return None
        known = all(set(plan.contributors) <= terms.keys() for plan in plans)
        if orders.keys() != wanted or not known:
            return None
        result = self._zeros()
        scale = np.float32(task.started.scale)
        for chunk, order in orders.items():
            span = task.cut.span(chunk)
            own = slice(span.start // ELEMENT_BYTES, span.stop // ELEMENT_BYTES)
            result[own] = _add(order, terms, own) * scale
        return result

    def _make(self, site: str, value: Vector | Seeds | None) -> Vector | None:
        if not isinstance(value, tuple):
            return value
        if value and site not in self.source.workers:
            return None
        total = self._zeros()
        for iteration in value:
            total += self.source.pattern(site, iteration)
        return total

    def _zeros(self) -> Vector:
        return np.zeros(self.source.elements, np.float32)


def _replace_sites(order: site_plan.Order, terms: Mapping[str, Term]) -> Order:
    return tuple(terms[e] if isinstance(e, str) else _replace_sites(e, terms) for e in order)


def _add(order: site_plan.Order, terms: Mapping[str, Vector], own: slice) -> Vector:
    total: Vector | None = None
    for each in order:
        term = terms[each][own] if isinstance(each, str) else _add(each, terms, own)
        total = term if total is None else total + term
    assert total is not None
    return total
