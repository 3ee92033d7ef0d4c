"""Policies as pure state machines: `(state, event) -> (state, decisions)`.

The controller process calls one. A policy can be tested without sockets and replayed from an event
log.

Every event has the time `at_s`, in seconds since the run's start, by the clock of the event log.
The driver fills it in. A policy that has `timed = True` knows more of time: it also gets `Ended`
and `Tick`, and may decide `Wake`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class Ready:
    """A site has finished its local work of an iteration and wants to synchronize."""

    site: str
    iteration: int
    at_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Left:
    """A site has done its rounds and synchronizes no more."""

    site: str
    at_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Lost:
    """A site cannot be reached. If it was ready, it no longer is."""

    site: str
    at_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Joined:
    """A lost site can be reached again. A `Ready` follows when it is ready."""

    site: str
    at_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Ended:
    """A task has ended that this controller started or took over; only for timed policies.

    Members go on as soon as they have the result. So a fast one may be ready again before this.

    Attributes:
        task: the task's number.
        group: the members of the task.
        completed: whether the members have the result; else each of them keeps its own model.
        report: what was measured, by name. `duration_s` is the time from the task's start to its
            end; of a task taken over, from its deadline as its members report it.
    """

    task: int
    group: tuple[str, ...]
    completed: bool
    at_s: float = 0.0
    report: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Tick:
    """The time of one or more `Wake`s has come; only for timed policies."""

    at_s: float = 0.0


SiteEvent = Ready | Left | Lost | Joined
Event = SiteEvent | Ended | Tick


@dataclass(frozen=True, slots=True)
class Start:
    """Synchronize `group`; the result is `scale * sum(weights[site] * contribution[site])`."""

    group: tuple[str, ...]
    weights: Mapping[str, float]
    scale: float


@dataclass(frozen=True, slots=True)
class Release:
    """A ready site goes on alone: no other site is left to synchronize with."""

    site: str


@dataclass(frozen=True, slots=True)
class Wake:
    """A `Tick` is to come at `at_s`, in seconds since the run's start; only from timed policies.

    The tick is never early. It answers every wake whose time has come. If that time has passed
    already, the tick comes at once, but at least `TICK_S` after the tick before. A controller that
    takes over begins with the policy's `initial`: the wakes of its predecessor are forgotten.
    """

    at_s: float


Decision = Start | Release | Wake

TICK_S = 0.001
"""The least time between two ticks. So a policy cannot keep time from passing."""


@runtime_checkable
class Policy(Protocol):
    """A policy. `initial` is the first state; `step` returns a new state and changes none.

    A policy may have `timed`, whether it knows time; without it, it does not.
    """

    @property
    def initial(self) -> Any: ...

    def step(self, state: Any, event: Event) -> tuple[Any, tuple[Decision, ...]]: ...


def is_timed(policy: Policy) -> bool:
    """Whether the policy gets `Ended` and `Tick`, and may decide `Wake`."""
    return bool(getattr(policy, "timed", False))


WHOLE_TOTAL = 2**16
"""The largest total of whole weights: float32 is exact up to 2**24, and synthetic elements are at
most 255."""


def average(group: tuple[str, ...]) -> Start:
    """Start the plain mean of a group. Weights are 1, so that sums of small integers stay exact."""
    return Start(group, dict.fromkeys(group, 1.0), 1.0 / len(group))


def weighted(weights: Mapping[str, Fraction]) -> Start:
    """Start the mean of the sites in `weights`; the weights sum to 1.

    If their common denominator is small, the weights become whole numbers with one scale, so that
    sums of small integers are exact in any order. Otherwise they become floating-point numbers.
    """
    whole = math.lcm(*(weight.denominator for weight in weights.values()))
    if whole > WHOLE_TOTAL:
        return Start(tuple(weights), {site: float(each) for site, each in weights.items()}, 1.0)
    return Start(
        tuple(weights), {site: float(each * whole) for site, each in weights.items()}, 1.0 / whole
    )
