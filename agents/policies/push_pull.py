"""Pushes and pulls of workers at parameter servers: what policies over servers share (pure).

A worker computes an iteration, pushes its update to all servers, and pulls their model. A push is a
task that adds a weighted sum of updates to the model of every server; the workers then wait. A pull
is a task that replaces the models of workers by the model of the servers, each of which contributes
its shard; the workers then continue. While a server is lost, no task can start.

A push that completes is one update of the model. The version of a model is the number of updates
that it has; the initial model has version 0. A pull gives at least the version at its start. A site
that comes back counts as having the initial model, and a controller that takes over counts from 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field, replace
from typing import Annotated, TypeVar

from pydantic import Field

from trunkline.agents.policies import task_ends
from trunkline.agents.policies.policy import (
    FLOAT32_LARGEST,
    FLOAT32_SMALLEST,
    Ended,
    Event,
    Joined,
    Left,
    Lost,
    Ready,
    Start,
)

Value = TypeVar("Value")

Weight = Annotated[float, Field(ge=FLOAT32_SMALLEST, le=FLOAT32_LARGEST)]
"""An option: the weight of an update, which tensors of float32 can be multiplied by."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A worker that waits: for its push, or if its update is `given`, for its pull.

    Its update was computed from this `version` of the model.
    """

    site: str
    iteration: int
    given: bool
    version: int


@dataclass(frozen=True, slots=True)
class Push:
    """A push that runs: its group, when it started, and the iterations of workers that are in it.

    Workers that were lost since are not among them.
    """

    group: tuple[str, ...]
    since_s: float
    iterations: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Pull:
    """A worker's latest pull: its iteration, and the versions of its model before and after.

    A worker whose pull was given up is ready again with the same iteration, and the older model.
    """

    iteration: int
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class State:
    """What is known of the workers.

    Attributes:
        workers: those that can be reached and have not done their rounds.
        lost: the servers that cannot be reached.
        waiting: the workers that wait, in the order in which they began to.
        pushes: the pushes that run.
        updates: how many pushes have completed.
        pulls: the latest pull of each worker.
        clocks: how many iterations each worker has pushed.
    """

    workers: frozenset[str]
    lost: frozenset[str] = frozenset()
    waiting: tuple[Waiting, ...] = ()
    pushes: tuple[Push, ...] = ()
    updates: int = 0
    pulls: Mapping[str, Pull] = field(default_factory=dict)
    clocks: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_pushing(self) -> bool:
        """Whether a worker is in a push."""
        return any(push.iterations for push in self.pushes)

    def wait(self, site: str, iteration: int, given: bool) -> Waiting:
        """This worker, which begins to wait now."""
        pull = self.pulls.get(site)
        if pull is None:
            return Waiting(site, iteration, given, 0)
        version = pull.after if iteration > pull.iteration else pull.before
        return Waiting(site, iteration, given, version)


@dataclass(frozen=True, slots=True)
class Sides:
    """The two sides of every push and pull: the workers and the servers of a run."""

    workers: tuple[str, ...]
    servers: tuple[str, ...]

    @property
    def initial(self) -> State:
        return State(frozenset(self.workers))

    def hear(self, state: State, event: Event) -> State:
        """The state after an event, before the policy decides."""
        match event:
            case Ready(site, iteration, given=given) if site in state.workers:
                # A push that was given up is over when the last of its workers is ready again.
                pushes = tuple(push for push in state.pushes if set(push.iterations) != {site})
                state = _without(replace(state, pushes=pushes), {site})
                waiting = (*state.waiting, state.wait(site, iteration, given))
                clocks = {**state.clocks, site: iteration + given}
                return replace(state, waiting=waiting, clocks=clocks)
            case Lost(site) | Joined(site) if site in self.servers:
                lost = state.lost | {site} if isinstance(event, Lost) else state.lost - {site}
                return replace(state, lost=lost)
            case Joined(site):
                pulls = _except(state.pulls, {site})
                return replace(state, workers=state.workers | {site}, pulls=pulls)
            case Left(site) | Lost(site):
                return replace(_without(state, {site}), workers=state.workers - {site})
            case Ended():
                return _end_push(state, event)
        return state

    def push(
        self,
        state: State,
        waiting: Iterable[Waiting],
        scale: float,
        at_s: float,
        momentum: float = 0.0,
        keep: float = 1.0,
    ) -> tuple[State, Start]:
        """Add `scale` times the sum of what these workers give to the model of every server.

        Of its own model, a server keeps the share `keep`.
        """
        iterations = {each.site: each.iteration for each in waiting}
        active = tuple(site for site in self.workers if site in iterations)
        start = Start(
            (*active, *self.servers),
            dict.fromkeys(active, 1.0),
            scale,
            receivers=self.servers,
            passive=frozenset(self.servers),
            keep=keep,
            momentum=momentum,
            then="wait",
        )
        state = _without(state, iterations.keys())
        push = Push(start.group, at_s, iterations)
        return replace(state, pushes=(*state.pushes, push)), start

    def pull(self, state: State, waiting: Iterable[Waiting]) -> tuple[State, Start]:
        """Give these workers the model of the servers; they continue."""
        before = {each.site: each for each in waiting}
        active = tuple(site for site in self.workers if site in before)
        start = Start(
            (*active, *self.servers),
            dict.fromkeys(self.servers, 1.0),
            1.0,
            receivers=active,
            passive=frozenset(self.servers),
        )
        pulls = {
            site: Pull(each.iteration, each.version, state.updates) for site, each in before.items()
        }
        state = _without(state, before.keys())
        return replace(state, pulls={**state.pulls, **pulls}), start


def _end_push(state: State, ended: Ended) -> State:
    """The workers of a push that has completed wait for their pulls."""
    latest = reversed(state.pushes)
    push = next((p for p in latest if task_ends.is_of(ended, p.group, p.since_s)), None)
    if push is None or (push.iterations and not ended.completed):
        return state  # the workers of a push that was given up are ready again
    state = replace(state, pushes=tuple(other for other in state.pushes if other is not push))
    if not ended.completed:
        return state
    order = [site for site in push.group if site in push.iterations]
    pulling = tuple(state.wait(site, push.iterations[site], True) for site in order)
    return replace(
        state,
        waiting=(*state.waiting, *pulling),
        updates=state.updates + 1,
        clocks={**state.clocks, **{each.site: each.iteration + 1 for each in pulling}},
    )


def _without(state: State, sites: Set[str]) -> State:
    """The state in which these workers neither wait nor push."""
    waiting = tuple(each for each in state.waiting if each.site not in sites)
    pushes = tuple(
        push
        if push.iterations.keys().isdisjoint(sites)
        else replace(push, iterations=_except(push.iterations, sites))
        for push in state.pushes
    )
    return replace(state, waiting=waiting, pushes=pushes)


def _except(values: Mapping[str, Value], sites: Set[str]) -> dict[str, Value]:
    return {other: value for other, value in values.items() if other not in sites}
