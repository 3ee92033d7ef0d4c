"""Partial reduce, first come first served (P-Reduce, Algorithm 2; CREW III-A).

Ready sites queue. As soon as p of them wait, they form a group. Groups run in parallel. Models have
equal weights (CON), or weights by staleness (DYN, `agents.policies.staleness`). Where groups would
freeze, the group filter chooses other sites or waits for them (`agents.policies.frozen_groups`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Annotated, Literal

from pydantic import Field

from trunkline.agents.policies import frozen_groups, staleness
from trunkline.agents.policies.policy import (
    Decision,
    Event,
    Joined,
    Left,
    Lost,
    Proceed,
    Ready,
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
    """The sites that still take part, the queue of those that are ready, and their versions.

    With a group filter, `history` has the latest groups.
    """

    active: frozenset[str]
    queue: tuple[str, ...] = ()
    versions: Mapping[str, Version] = field(default_factory=dict)
    history: frozen_groups.History = ()


@dataclass(frozen=True, slots=True)
class PartialReduce:
    """Groups of p sites. When fewer than p sites still take part, they form a smaller group.

    With a `decay`, models have weights by staleness, and `missing` gets the weights of versions
    that no member has. With `last`, the group filter keeps the last that many groups connected.
    """

    sites: tuple[str, ...]
    p: int
    decay: Fraction | None = None
    last: int | None = None
    missing: staleness.Missing = "closest"
    filter: frozen_groups.Filter = "prevent"

    @property
    def keeps_initial(self) -> bool:
        """Whether groups mix in the model with which their members began."""
        return self.decay is not None and self.missing == "initial"

    @property
    def initial(self) -> State:
        return State(frozenset(self.sites))

    def step(self, state: State, event: Event) -> tuple[State, tuple[Decision, ...]]:
        match event:
            case Ready(site) if site in state.active and site not in state.queue:
                state = self._enqueue(state, site, event.iteration)
            case Joined(site):
                # The site may have lost its model, so only its iteration counts from now on.
                versions = {s: version for s, version in state.versions.items() if s != site}
                state = replace(state, active=state.active | {site}, versions=versions)
            case Left(site) | Lost(site):
                state = replace(
                    state,
                    active=state.active - {site},
                    queue=tuple(other for other in state.queue if other != site),
                    history=frozen_groups.forget(state.history, site),
                )
        decisions: list[Decision] = []
        # With the group filter, one event may end the wait of several groups.
        while chosen := self._choose(state):
            state, decision = self._form(state, chosen)
            decisions.append(decision)
        return state, tuple(decisions)

    def _enqueue(self, state: State, site: str, iteration: int) -> State:
        before = state.versions.get(site)
        again = before is not None and iteration <= before.iteration
        version = (before or Version(iteration)).advance(iteration)
        return replace(
            state,
            queue=(*state.queue, site),
            versions={**state.versions, site: version},
            history=frozen_groups.forget_latest(state.history, site) if again else state.history,
        )

    def _choose(self, state: State) -> tuple[str, ...] | None:
        """The next group in the order of the queue; None if none is ready."""
        size = min(self.p, len(state.active))
        if self.last is not None:
            return frozen_groups.choose(
                state.queue, state.active, state.history, size, self.last, self.filter
            )
        return state.queue[:size] if len(state.queue) >= size else None

    def _form(self, state: State, chosen: tuple[str, ...]) -> tuple[State, Decision]:
        """Start a group, or release a site that is alone."""
        queue = tuple(site for site in state.queue if site not in chosen)
        if len(chosen) == 1:
            return replace(state, queue=queue), Proceed(chosen[0])
        group = tuple(site for site in self.sites if site in chosen)
        newest = max(state.versions[site].number for site in group)
        joined = {site: state.versions[site].join(newest) for site in group}
        history = state.history
        if self.last is not None:
            history = frozen_groups.remember(history, group, self.last, self.filter)
        after = State(state.active, queue, {**state.versions, **joined}, history)
        return after, self._start(state, group)

    def _start(self, state: State, group: tuple[str, ...]) -> Start:
        if self.decay is None:
            return average(group)
        numbers = {site: state.versions[site].number for site in group}
        weights = staleness.compute_weights(numbers, self.decay, self.missing)
        start, initial = weighted(weights), 1 - sum(weights.values())
        return replace(start, keep=float(initial), kept="initial") if initial else start


def create(
    sites: tuple[str, ...],
    *,
    p: int = 3,
    weights: Weights = "constant",
    decay: Annotated[float, Field(gt=0, lt=1)] = 0.5,
    missing: staleness.Missing = "closest",
    group_filter: bool = False,
    history: int | None = None,
    filter: frozen_groups.Filter = "prevent",  # noqa: A002 (the key of a scenario)
) -> PartialReduce:
    """Groups of `p` of the `sites`.

    Options:
        p: the size of a group, from 2 to the number of sites.
        weights: equal weights (`constant`), or weights by the staleness of models (`dynamic`).
        decay: with dynamic weights, the factor for each iteration that a model is older, between 0
            and 1.
        missing: with dynamic weights, what gets the weight of an iteration that no model of the
            group has: the `closest` model, the newer one of two, or the `initial` model of every
            site, which is P-Reduce's default.
        group_filter: whether groups are chosen so that they cannot freeze. If the first `p` ready
            sites would leave the last groups unconnected, others are chosen or waited for.
        history: with the group filter, how many consecutive groups connect all sites; default: as
            few as possible, (sites - 1) / (p - 1), rounded up.
        filter: with the group filter, whether it prevents that this many groups do not connect all
            sites (`prevent`), or notices it, and then lets groups join two parts (`repair`), as in
            the paper.
    """
    if not 2 <= p <= len(sites):
        raise ValueError(f"p: {p}: expected 2 to {len(sites)}, the number of sites")
    least = frozen_groups.compute_least_history(len(sites), p)
    if history is not None and history < least:
        raise ValueError(
            f"history: {history}: expected {least} or more, because fewer groups "
            f"of {p} cannot connect {len(sites)} sites"
        )
    exact = Fraction(decay).limit_denominator(1000)
    return PartialReduce(
        sites,
        p,
        exact if weights == "dynamic" else None,
        (history or least) if group_filter else None,
        missing,
        filter,
    )
