"""Asynchronous decentralized SGD: averages with random neighbours (AD-PSGD; P-Reduce, 5.1, 5.2.2).

Lian et al. 2018, "Asynchronous decentralized parallel stochastic gradient descent": a worker that
has done an iteration averages its model with that of a random neighbour, which need not be
ready, and continues. Here all other workers are neighbours. An averaging is atomic: no worker is in
two. A neighbour that computes installs the average before its own next step, so its gradient may
be of an older model.

A worker draws its neighbour when it is ready, and anew if that one can no longer be reached. If one
of the two is in an averaging, both wait in the order in which workers became ready: no later pair
overtakes on either of them. An averaging holds both of its workers from its start. So the first
pair in the order waits for running averagings only, and nothing can deadlock.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from trunkline.agents.policies import task_ends
from trunkline.agents.policies.policy import (
    Decision,
    Ended,
    Event,
    Joined,
    Left,
    Lost,
    Proceed,
    Ready,
    average,
)


@dataclass(frozen=True, slots=True)
class Pair:
    """A ready worker and the neighbour that it has drawn; None until it has drawn one."""

    site: str
    iteration: int
    neighbour: str | None = None


@dataclass(frozen=True, slots=True)
class Averaging:
    """An averaging that runs: its pair, its group, and when it started."""

    pair: Pair
    group: tuple[str, ...]
    since_s: float


@dataclass(frozen=True, slots=True)
class State:
    """The workers that take part, the pairs that wait, in order, and the averagings that run."""

    workers: frozenset[str]
    waiting: tuple[Pair, ...] = ()
    running: tuple[Averaging, ...] = ()


@dataclass(frozen=True, slots=True)
class RandomPairs:
    """Averages of two. The last worker continues alone.

    An averaging runs until it ends, or until its ready worker is lost or is ready again for the
    same iteration: then it was given up, or never began.
    """

    sites: tuple[str, ...]
    rng: random.Random
    timed = True
    promises = ()

    @property
    def initial(self) -> State:
        return State(frozenset(self.sites))

    def step(self, state: State, event: Event) -> tuple[State, tuple[Decision, ...]]:
        state = self._hear(state, event)
        decisions: list[Decision] = []
        waiting: list[Pair] = []
        running = list(state.running)
        engaged = {site for each in running for site in each.group}
        for pair in state.waiting:
            pair = self._draw(pair, state.workers)
            if pair.neighbour is None:
                decisions.append(Proceed(pair.site))
                continue
            if not engaged & {pair.site, pair.neighbour}:
                group = tuple(s for s in self.sites if s in (pair.site, pair.neighbour))
                passive = frozenset({pair.neighbour})
                decisions.append(replace(average(group), passive=passive))
                running.append(Averaging(pair, group, event.at_s))
            else:
                waiting.append(pair)
            engaged |= {pair.site, pair.neighbour}
        return State(state.workers, tuple(waiting), tuple(running)), tuple(decisions)

    def _hear(self, state: State, event: Event) -> State:
        match event:
            case Ready(site, iteration) if site in state.workers:
                waiting = tuple(pair for pair in state.waiting if pair.site != site)
                running = tuple(
                    each
                    for each in state.running
                    if each.pair.site != site or each.pair.iteration < iteration
                )
                return State(state.workers, (*waiting, Pair(site, iteration)), running)
            case Joined(site):
                return replace(state, workers=state.workers | {site})
            case Left(site) | Lost(site):
                running = state.running
                if isinstance(event, Lost):
                    running = tuple(each for each in running if each.pair.site != site)
                waiting = tuple(pair for pair in state.waiting if pair.site != site)
                return State(state.workers - {site}, waiting, running)
            case Ended():
                over = (
                    each
                    for each in state.running
                    if task_ends.is_of(event, each.group, each.since_s)
                )
                first = next(over, None)
                return replace(state, running=tuple(e for e in state.running if e is not first))
        return state

    def _draw(self, pair: Pair, workers: frozenset[str]) -> Pair:
        """The pair with a neighbour that can be reached, if there is one."""
        if pair.neighbour in workers:
            return pair
        others = [site for site in self.sites if site in workers and site != pair.site]
        return replace(pair, neighbour=self.rng.choice(others) if others else None)


def create(sites: tuple[str, ...], *, rng: random.Random) -> RandomPairs:
    """Averages of the models of random pairs of the `sites`."""
    return RandomPairs(sites, rng)
