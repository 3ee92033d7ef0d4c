"""Semi-asynchronous rounds: the first share of the workers, and late updates up to a lag (SAFA).

R2SP's paper compares with SAFA as "a semi-synchronous coordination scheme: apart from coordinating
a set of high-quality participants in a synchronous manner, it also properly absorbs the updates
from straggling participants as long as their staleness level is modest" (Zhang et al. 2025, VI-A5;
Wu et al. 2021, "SAFA: a semi-asynchronous protocol for fast federated learning with low overhead",
IEEE Transactions on Computers).

In every round, the first share of the workers push together, and then pull. A worker that is ready
later pushes on its own, as soon as no round is pushing, and then pulls. It never waits for a round.
A worker that has missed more rounds than the lag pushes nothing and pulls the latest model. Every
update counts the same: the mean of a round's updates is added, and a late update as if it were one
of them.

In SAFA itself, the server keeps the latest model of each client and averages all of them, weighted
by the clients' numbers of samples; late models come into that average with the next round, and
clients that were not among the first ones come first in the next round. A client within the lag
continues with its own model there. Here it pulls after each of its pushes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Annotated

from pydantic import Field

from trunkline.agents.planning.option_types import Share
from trunkline.agents.policies.policy import Decision, Event, Start
from trunkline.agents.policies.push_pull import Push, Sides, Waiting
from trunkline.agents.policies.push_pull import State as Known


@dataclass(frozen=True, slots=True)
class State:
    """What is known of workers and servers, and the rounds.

    Attributes:
        pushing: the push of a round that runs; None without one.
        versions: the versions of the model after the latest rounds, one more than the lag.
    """

    known: Known
    pushing: Push | None = None
    versions: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class SemiAsynchronous:
    """SAFA.

    Attributes:
        first: how many workers a round needs; when fewer can be reached, all of these.
        lag: how many rounds an update may have missed.
    """

    sides: Sides
    first: int
    lag: int
    timed = True
    gives = "update"

    @property
    def initial(self) -> State:
        return State(self.sides.initial)

    def step(self, state: State, event: Event) -> tuple[State, tuple[Decision, ...]]:
        updates, known = state.known.updates, self.sides.hear(state.known, event)
        state = self._end_round(replace(state, known=known), known.updates > updates)
        if known.lost or state.pushing is not None:
            return state, ()
        needed = min(self.first, len(known.workers))
        fresh: list[Waiting] = []
        late: list[Waiting] = []
        pulling: list[Waiting] = []
        for each in known.waiting:
            missed = sum(each.version < version for version in state.versions)
            if each.given or missed > self.lag:
                pulling.append(each)
            else:
                (late if missed else fresh).append(each)
        decisions: list[Start] = []
        if pulling:
            known, start = self.sides.pull(known, pulling)
            decisions.append(start)
        for each in late:
            known, start = self.sides.push(known, [each], 1.0 / needed, event.at_s)
            decisions.append(start)
        state = replace(state, known=known)
        if fresh and len(fresh) >= needed:
            known, start = self.sides.push(known, fresh[:needed], 1.0 / needed, event.at_s)
            decisions.append(start)
            state = replace(state, known=known, pushing=known.pushes[-1])
        return state, tuple(decisions)

    def _end_round(self, state: State, is_updated: bool) -> State:
        """The state after the push of a round has ended, if it has."""
        if state.pushing is None or _runs(state.pushing, state.known.pushes):
            return state
        state = replace(state, pushing=None)
        if not is_updated:
            return state
        versions = (*state.versions, state.known.updates)
        return replace(state, versions=versions[-self.lag - 1 :])


def _runs(push: Push, pushes: tuple[Push, ...]) -> bool:
    """Whether a push is still among these, with workers that were not lost."""
    task = push.group, push.since_s
    return any((each.group, each.since_s) == task and each.iterations for each in pushes)


def create(
    sites: tuple[str, ...],
    *,
    servers: tuple[str, ...],
    fraction: Share = 0.75,
    lag: Annotated[int, Field(ge=0)] = 5,
) -> SemiAsynchronous:
    """The `sites` are the workers of the `servers`.

    Options:
        fraction: the share of the workers whose updates a round needs, above 0 and at most 1;
            rounded up to whole workers.
        lag: how many rounds a late update may have missed and still count, 0 or more.
    """
    if not servers:
        raise ValueError("servers: at least one is needed")
    first = math.ceil(Fraction(str(fraction)) * len(sites))
    return SemiAsynchronous(Sides(sites, servers), first, lag)
