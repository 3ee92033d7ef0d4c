"""Bulk-synchronous parallel: every round, all sites synchronize together."""

from __future__ import annotations

from dataclasses import dataclass

from trunkline.agents.policies.policy import (
    Decision,
    Event,
    Joined,
    Left,
    Lost,
    Proceed,
    Ready,
    average,
)
from trunkline.agents.policies.preduce import PartialReduce


@dataclass(frozen=True, slots=True)
class Open:
    """A round begins when its first site is ready; the others join it as soon as they are ready.

    The state is the set of sites that still take part. The policy gets no event for a site that
    joins a round: the controller adds it to the task.
    """

    sites: tuple[str, ...]
    early = True

    @property
    def initial(self) -> frozenset[str]:
        return frozenset(self.sites)

    def step(
        self, state: frozenset[str], event: Event
    ) -> tuple[frozenset[str], tuple[Decision, ...]]:
        match event:
            case Joined(site):
                return state | {site}, ()
            case Left(site) | Lost(site):
                return state - {site}, ()
            case Ready(site) if state == {site}:
                return state, (Proceed(site),)
            case Ready(site) if site in state:
                return state, (average(tuple(each for each in self.sites if each in state)),)
        return state, ()


def create(sites: tuple[str, ...], *, barrier: bool = True) -> PartialReduce | Open:
    """A partial reduce whose group is all sites.

    Options:
        barrier: whether a ready site waits until all sites are ready; without a barrier it sends at
            once (NetStorm, Section VII: each worker asks the scheduler before it pushes).
    """
    return PartialReduce(sites, len(sites)) if barrier else Open(sites)
