"""Partial reduce, first come first served (P-Reduce, Algorithm 2; CREW III-A).

Ready sites queue. As soon as p of them wait, they form a group. Groups run in parallel. Models have
equal weights (CON), or weights by staleness (DYN, `agents.policies.staleness`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Literal

from trunkline.agents.policies import staleness
from trunkline.agents.policies.policy import (
    Decision,
    Event,
    Joined,
    Left,
    Lost,
    Ready,
    Release,
    Start,
    average,
    weighted,
)

Weights = Literal["constant", "dynamic"]


@dataclass(frozen=True, slots=True)
class Version:
    """The version of a site's model.

    Members of a group continue from the newest model of the group. So a model may be ahead of the
    iterations that its site has done.

    Attributes:
        iteration: the last iteration that the site has done.
        ahead: by how many iterations the model is ahead of it.
        after: `ahead` from the next iteration on. Only that iteration shows that the task of the
            present one was completed: after an abandoned task the site is ready again for the same
            iteration.
    """

    iteration: int
    ahead: int = 0
    after: int = 0

    @property
    def number(self) -> int:
        """The iteration of the model."""
        return self.iteration + self.ahead

    def advance(self, iteration: int) -> Version:
        """The version once the site has done this iteration."""
        ahead = self.after if iteration > self.iteration else self.ahead
        return Version(iteration, ahead, ahead)

    def join(self, newest: int) -> Version:
        """The version in a group whose newest model has the iteration `newest`."""
        return replace(self, after=newest - self.iteration)


@dataclass(frozen=True, slots=True)
class State:
    """The sites that still take part, the queue of those that are ready, and their versions."""

    active: frozenset[str]
    queue: tuple[str, ...] = ()
    versions: Mapping[str, Version] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PartialReduce:
    """Groups of p sites. When fewer than p sites still take part, they form a smaller group.

    With a `decay`, models have weights by staleness.
    """

    sites: tuple[str, ...]
    p: int
    decay: Fraction | None = None

    @property
    def initial(self) -> State:
        return State(frozenset(self.sites))

    def step(self, state: State, event: Event) -> tuple[State, tuple[Decision, ...]]:
        match event:
            case Ready(site) if site in state.active and site not in state.queue:
                before = state.versions.get(site, Version(event.iteration))
                versions = {**state.versions, site: before.advance(event.iteration)}
                state = replace(state, queue=(*state.queue, site), versions=versions)
            case Joined(site):
                # The site may have lost its model, so only its iteration counts from now on.
                versions = {s: version for s, version in state.versions.items() if s != site}
                state = replace(state, active=state.active | {site}, versions=versions)
            case Left(site) | Lost(site):
                queue = tuple(other for other in state.queue if other != site)
                state = State(state.active - {site}, queue, state.versions)
        size = min(self.p, len(state.active))
        if not state.queue or len(state.queue) < size:
            return state, ()
        if size == 1:
            return replace(state, queue=()), (Release(state.queue[0]),)
        chosen = state.queue[:size]
        group = tuple(site for site in self.sites if site in chosen)
        newest = max(state.versions[site].number for site in group)
        joined = {site: state.versions[site].join(newest) for site in group}
        left = State(state.active, state.queue[size:], {**state.versions, **joined})
        return left, (self._start(state, group),)

    def _start(self, state: State, group: tuple[str, ...]) -> Start:
        if self.decay is None:
            return average(group)
        numbers = {site: state.versions[site].number for site in group}
        return weighted(staleness.compute_weights(numbers, self.decay))


def create(
    sites: tuple[str, ...], *, p: int = 3, weights: Weights = "constant", decay: float = 0.5
) -> PartialReduce:
    """Groups of `p` of the `sites`.

    Options:
        p: the size of a group, from 2 to the number of sites.
        weights: equal weights (`constant`), or weights by the staleness of models (`dynamic`).
        decay: with dynamic weights, the factor for each iteration that a model is older, between 0
            and 1.
    """
    if not 2 <= p <= len(sites):
        raise ValueError(f"p = {p} is not between 2 and the number of sites, {len(sites)}")
    if not 0 < decay < 1:
        raise ValueError(f"decay = {decay:g} is not between 0 and 1")
    exact = Fraction(decay).limit_denominator(1000)
    return PartialReduce(sites, p, exact if weights == "dynamic" else None)
