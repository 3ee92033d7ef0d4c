"""Eager-Reduce: a round begins as soon as most workers are ready (P-Reduce, 2.3 and 5.1).

Li et al. 2020, "Taming unbalanced training workloads in deep learning with partial collective
operations" (eager-SGD, majority allreduce): all workers take part in every round, also those that
are not ready. These contribute the updates that no round has taken yet, or nothing. So an update
may count rounds later, and one result may have several updates of a worker.

Iteration k of a worker belongs to round k. A worker that becomes ready when its round is over goes
on at once, and its update waits for the next round.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from trunkline.agents.planning.option_types import Count, Momentum
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
    Start,
)


@dataclass(frozen=True, slots=True)
class Running:
    """The reduce that runs: its group, when it started, and the workers that were ready for it."""

    group: tuple[str, ...]
    since_s: float
    active: frozenset[str]


@dataclass(frozen=True, slots=True)
class State:
    """The workers that take part, the round, the iterations of those that wait, and the reduce."""

    workers: frozenset[str]
    round: int = 0
    waiting: dict[str, int] = field(default_factory=dict)
    running: Running | None = None


@dataclass(frozen=True, slots=True)
class EagerReduce:
    """One reduce per round, with all workers, one after the other.

    A reduce that is given up ends its round; the updates wait for the next one. The last worker
    continues alone. After a takeover, the round is the latest one for which a worker is ready.

    Attributes:
        quorum: how many ready workers begin a round; None for the majority of those that can be
            reached. When fewer can be reached, all of these.
        momentum: the part of a worker's last step that is in its next one.
    """

    sites: tuple[str, ...]
    quorum: int | None
    momentum: float
    timed = True
    gives = "update"
    accumulates = True
    promises = ()

    @property
    def initial(self) -> State:
        return State(frozenset(self.sites))

    def step(self, state: State, event: Event) -> tuple[State, tuple[Decision, ...]]:
        state = self._hear(state, event)
        decisions: list[Decision] = []
        quorum = min(self.quorum or len(state.workers) // 2 + 1, len(state.workers))
        ready = {site for site, iteration in state.waiting.items() if iteration == state.round}
        if state.running is None and len(state.workers) > 1 and len(ready) >= quorum:
            group = tuple(site for site in self.sites if site in state.workers)
            decisions.append(self._reduce(group, ready))
            waiting = {site: k for site, k in state.waiting.items() if site not in ready}
            running = Running(group, event.at_s, frozenset(ready))
            state = State(state.workers, state.round + 1, waiting, running)
        late = [
            site
            for site in self.sites
            if site in state.waiting
            and (state.waiting[site] < state.round or state.workers == {site})
        ]
        waiting = {site: k for site, k in state.waiting.items() if site not in late}
        return replace(state, waiting=waiting), (*decisions, *map(Proceed, late))

    def _hear(self, state: State, event: Event) -> State:
        match event:
            case Ready(site, iteration) if site in state.workers:
                if iteration < state.round:  # if it was ready for the reduce, that was given up
                    state = _release(state, site)
                waiting = {**state.waiting, site: iteration}
                return replace(state, waiting=waiting, round=max(state.round, iteration))
            case Joined(site):
                return replace(state, workers=state.workers | {site})
            case Left(site) | Lost(site):
                waiting = {other: k for other, k in state.waiting.items() if other != site}
                if isinstance(event, Lost):
                    state = _release(state, site)
                return replace(state, workers=state.workers - {site}, waiting=waiting)
            case Ended() if state.running is not None:
                if task_ends.is_of(event, state.running.group, state.running.since_s):
                    return replace(state, running=None)
        return state

    def _reduce(self, group: tuple[str, ...], ready: set[str]) -> Start:
        return Start(
            group,
            dict.fromkeys(group, 1.0),
            1.0 / len(group),
            passive=frozenset(group) - ready,
            keep=1.0,
            momentum=self.momentum,
        )


def _release(state: State, site: str) -> State:
    """The state once this worker is not in the reduce. With its last ready worker, it is over."""
    if state.running is None:
        return state
    active = state.running.active - {site}
    return replace(state, running=replace(state.running, active=active) if active else None)


def create(
    sites: tuple[str, ...], *, quorum: Count | None = None, momentum: Momentum = 0.0
) -> EagerReduce:
    """Reduces of all `sites`, each with those that are ready and what the others have.

    Options:
        quorum: how many ready workers begin a round, from 1 to the number of sites; default: more
            than half of those that can be reached.
        momentum: the part of a worker's last step that is in its next one, from 0 to less than 1.
            Workers may have a momentum of their own in their updates.
    """
    if quorum is not None and not 1 <= quorum <= len(sites):
        raise ValueError(f"quorum: {quorum}: expected 1 to {len(sites)}, the number of sites")
    return EagerReduce(sites, quorum, momentum)
