"""Partial reduce, first come first served (P-Reduce, Algorithm 2; CREW III-A).

Ready sites queue; as soon as p of them wait, they form a group. Groups run in parallel. Models
weigh the same (CON), or by how stale they are (DYN, `agents.policies.staleness`).
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
    """Which iteration a site's model is of: `ahead` of those that the site itself has done.

    A group's members go on from the newest model among them. That holds as soon as the site is
    `after` the iteration that it was in the group with; an abandoned task changes nothing.
    """

    iteration: int
    ahead: int = 0
    after: int = 0

    @property
    def number(self) -> int:
        """The model's iteration."""
        return self.iteration + self.ahead

    def advance(self, iteration: int) -> Version:
        """The version of the site's model now that it has done so many iterations."""
        ahead = self.after if iteration > self.iteration else self.ahead
        return Version(iteration, ahead, ahead)

    def join(self, newest: int) -> Version:
        """The version of a member of a group whose newest model is of that iteration."""
        return replace(self, after=newest - self.iteration)


@dataclass(frozen=True, slots=True)
class State:
    """The sites that still take part, the queue of those that are ready, and their versions."""

    active: frozenset[str]
    queue: tuple[str, ...] = ()
    versions: Mapping[str, Version] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PartialReduce:
    """Groups of p; of fewer when fewer than p sites still take part, so that none is stranded.

    With a `decay`, members weigh by their staleness.
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
                # its model may be another than before: nothing is known but its iteration
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
        p: the size of a group, 2 to the number of sites.
        weights: all alike (`constant`), or by the model's staleness (`dynamic`).
        decay: with dynamic weights, how much a model that is one iteration older weighs, between 0
            and 1.
    """
    if not 2 <= p <= len(sites):
        raise ValueError(f"p = {p} is not between 2 and the number of sites, {len(sites)}")
    if not 0 < decay < 1:
        raise ValueError(f"decay = {decay:g} is not between 0 and 1")
    exact = Fraction(decay).limit_denominator(1000)
    return PartialReduce(sites, p, exact if weights == "dynamic" else None)
