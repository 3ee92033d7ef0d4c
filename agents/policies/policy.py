"""Policies as pure state machines: `(state, event) -> (state, decisions)`.

The controller process calls one. A policy can be tested without sockets and replayed from an event
log.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class Ready:
    """A site has finished its local work of an iteration and wants to synchronize."""

    site: str
    iteration: int


@dataclass(frozen=True, slots=True)
class Left:
    """A site has done its rounds and synchronizes no more."""

    site: str


@dataclass(frozen=True, slots=True)
class Lost:
    """A site cannot be reached. If it was ready, it no longer is."""

    site: str


@dataclass(frozen=True, slots=True)
class Joined:
    """A lost site can be reached again. A `Ready` follows when it is ready."""

    site: str


Event = Ready | Left | Lost | Joined


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


Decision = Start | Release


@runtime_checkable
class Policy(Protocol):
    """A policy. `initial` is the first state; `step` returns a new state and changes none."""

    @property
    def initial(self) -> Any: ...

    def step(self, state: Any, event: Event) -> tuple[Any, tuple[Decision, ...]]: ...


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
