"""Policies as pure state machines: `(state, event) -> (state, decisions)`.

The controller process is a thin shell around one. So a policy is tested without sockets and
replayed from an event log.
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
    """A site synchronizes no more: it has done its rounds."""

    site: str


@dataclass(frozen=True, slots=True)
class Lost:
    """A site cannot be reached; if it was ready it is so no more."""

    site: str


@dataclass(frozen=True, slots=True)
class Joined:
    """A site that was lost can be reached again; it will say when it is ready."""

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
    """Nobody is left to synchronize this ready site with: it goes on alone."""

    site: str


Decision = Start | Release


@runtime_checkable
class Policy(Protocol):
    """`initial` is the first state; `step` never changes the state it is given."""

    @property
    def initial(self) -> Any: ...

    def step(self, state: Any, event: Event) -> tuple[Any, tuple[Decision, ...]]: ...


WHOLE_TOTAL = 2**16
"""Up to this total, weights become whole numbers: sums of whole numbers up to 255 stay exact."""


def average(group: tuple[str, ...]) -> Start:
    """The plain mean: every weight 1, so that sums of small integers stay exact."""
    return Start(group, dict.fromkeys(group, 1.0), 1.0 / len(group))


def weighted(weights: Mapping[str, Fraction]) -> Start:
    """The mean with these weights, which sum to 1, of the sites that have them.

    They become whole numbers with one scale where these are small, so that sums of small integers
    stay exact in any order, and float32 numbers otherwise.
    """
    whole = math.lcm(*(weight.denominator for weight in weights.values()))
    if whole > WHOLE_TOTAL:
        return Start(tuple(weights), {site: float(each) for site, each in weights.items()}, 1.0)
    return Start(
        tuple(weights), {site: float(each * whole) for site, each in weights.items()}, 1.0 / whole
    )
