"""Bulk-synchronous parallel: every round, all sites synchronize together."""

from __future__ import annotations

from dataclasses import dataclass

from trunkline.agents.policies.policy import (
    Decision,
    Event,
    Joined,
    Left,
    Lost,
    Ready,
    Release,
    average,
)
from trunkline.agents.policies.preduce import PartialReduce


@dataclass(frozen=True, slots=True)
class Open:
    """A round begins when its first site is ready; the others take part as soon as they are.

    Its state are the sites that still take part. Who is ready for a round that has begun is no
    event for a policy.
    """

    sites: tuple[str, ...]

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
                return state, (Release(site),)
            case Ready(site) if site in state:
                return state, (average(tuple(each for each in self.sites if each in state)),)
        return state, ()


def create(sites: tuple[str, ...], *, barrier: bool = True) -> PartialReduce | Open:
    """A partial reduce whose group is everybody.

    Options:
        barrier: whether a site that is ready waits until all are; without it sends at once
            (NetStorm, Section VII: each worker asks the scheduler before it pushes).
    """
    return PartialReduce(sites, len(sites)) if barrier else Open(sites)
