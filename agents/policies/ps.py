"""Data-parallel SGD with parameter servers: BSP, ASP, SSP, HETE, BK (P-Reduce, 2.2, 2.3, 5.1).

Workers push the updates of their iterations to the servers, and pull the model
(`agents.policies.push_pull`). The modes differ in who waits, and in the weight of an update:

- `bsp`: all workers push together, then all pull (P-Reduce, 2.2).
- `bk`: as bsp, but a round's push needs only the first n - b workers; the updates of the others are
  dropped (backup workers; Chen et al. 2016, "Revisiting distributed synchronous SGD").
- `asp`: each worker pushes and pulls on its own (P-Reduce, 2.2).
- `ssp`: as asp, but a worker that is too far ahead of the slowest one waits before its pull (Ho et
  al. 2013, "More effective distributed ML via a stale synchronous parallel parameter server").
- `hete`: as asp, but an update that is stale by s counts 1/s (Jiang et al. 2017, "Heterogeneity-
  aware distributed parameter servers").
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from trunkline.agents.planning.option_types import Count, Momentum
from trunkline.agents.policies.policy import Decision, Event, Start
from trunkline.agents.policies.push_pull import Sides, State, Waiting, Weight

Mode = Literal["bsp", "asp", "ssp", "hete", "bk"]


@dataclass(frozen=True, slots=True)
class Rounds:
    """In every round the first workers that are ready push together; then all that wait pull.

    A round begins when the push before it has completed. A worker takes part in it if its model is
    the one with which the round began. If it is ready too late, its update is dropped and it only
    pulls. No pull starts during a push: it would give a model that is old soon.

    Attributes:
        first: how many workers a push needs; when fewer can be reached, all of these.
    """

    sides: Sides
    first: int
    momentum: float
    timed = True
    gives = "update"

    @property
    def initial(self) -> State:
        return self.sides.initial

    def step(self, state: State, event: Event) -> tuple[State, tuple[Decision, ...]]:
        state = self.sides.hear(state, event)
        if state.lost or state.is_pushing:
            return state, ()
        decisions: list[Decision] = []
        pulling = [w for w in state.waiting if w.given or w.version < state.updates]
        if pulling:
            state, start = self.sides.pull(state, pulling)
            decisions.append(start)
        needed = min(self.first, len(state.workers))
        if state.waiting and len(state.waiting) >= needed:
            chosen = state.waiting[:needed]
            state, start = self.sides.push(
                state, chosen, 1.0 / needed, event.at_s, momentum=self.momentum
            )
            decisions.append(start)
        return state, tuple(decisions)


@dataclass(frozen=True, slots=True)
class Alone:
    """Every worker pushes and pulls on its own.

    Attributes:
        share: the weight of an update.
        bound: how many iterations a worker may be ahead of the slowest one; None for any number.
        is_weighted: whether the weight is divided by the staleness of the update.
    """

    sides: Sides
    share: float
    momentum: float
    bound: int | None = None
    is_weighted: bool = False
    timed = True
    gives = "update"

    @property
    def initial(self) -> State:
        return self.sides.initial

    def step(self, state: State, event: Event) -> tuple[State, tuple[Decision, ...]]:
        state = self.sides.hear(state, event)
        if state.lost:
            return state, ()
        decisions: list[Start] = []
        for waiting in state.waiting:
            if not waiting.given:
                scale = self.share / self._staleness(state, waiting)
                state, start = self.sides.push(
                    state, [waiting], scale, event.at_s, momentum=self.momentum
                )
                decisions.append(start)
            elif self._may_go_on(state, waiting):
                state, start = self.sides.pull(state, [waiting])
                decisions.append(start)
        return state, tuple(decisions)

    def _staleness(self, state: State, waiting: Waiting) -> int:
        """How many updates have completed since the worker's pull started, but at least 1."""
        return max(1, state.updates - waiting.version) if self.is_weighted else 1

    def _may_go_on(self, state: State, waiting: Waiting) -> bool:
        if self.bound is None:
            return True
        slowest = min(state.clocks.get(site, 0) for site in state.workers)
        return waiting.iteration + 1 - slowest <= self.bound


def create(
    sites: tuple[str, ...],
    *,
    servers: tuple[str, ...],
    mode: Mode = "bsp",
    backups: Count = 1,
    bound: Annotated[int, Field(ge=0)] = 5,
    share: Weight | None = None,
    momentum: Momentum = 0.0,
) -> Rounds | Alone:
    """The `sites` are the workers of the `servers`.

    Options:
        mode: who waits: all workers for each other (`bsp`), no worker (`asp`), only workers that
            are too far ahead (`ssp`), no worker, and stale updates count less (`hete`), or all
            workers for the first ones of a round (`bk`).
        backups: in mode bk, how many updates of a round are dropped, from 1 to the number of
            workers less 1.
        bound: in mode ssp, how many iterations the slowest worker may lack when another one begins
            an iteration, 0 or more.
        share: in modes asp, ssp and hete, the weight of a worker's update, above 0, and within what
            float32 can hold (1.2e-38 to 3.4e38); default: 1 /
            workers, so that as many updates as there are workers weigh as much as a round of bsp,
            or in mode hete 1, because the staleness divides the weight already. P-Reduce says
            nothing about it.
        momentum: the part of the servers' last step that is in their next one, from 0 to less than
            1. Workers may have a momentum of their own in their updates.
    """
    if not servers:
        raise ValueError("servers: at least one is needed")
    sides = Sides(sites, servers)
    if mode == "bsp":
        return Rounds(sides, len(sites), momentum)
    if mode == "bk":
        if not 1 <= backups < len(sites):
            most = len(sites) - 1
            raise ValueError(f"backups: {backups}: expected 1 to {most}, one less than the workers")
        return Rounds(sides, len(sites) - backups, momentum)
    weight = (1.0 if mode == "hete" else 1.0 / len(sites)) if share is None else share
    return Alone(sides, weight, momentum, bound if mode == "ssp" else None, mode == "hete")
