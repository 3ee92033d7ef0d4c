"""The events of what sites know about their links (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trunkline.harness.record.events import Event


@dataclass(frozen=True, slots=True)
class LinkRate:
    """The rate of one directed link, as an estimate has it."""

    src: str
    dst: str
    rate_mbps: float


@dataclass(frozen=True, slots=True)
class RatesEstimated(Event):
    """Controller: the rates that plans go by from now on, which are not the true ones."""

    links: tuple[LinkRate, ...]


@dataclass(frozen=True, slots=True)
class PlansUpdated(Event):
    """Controller: from now on plans go by these rates; `version` counts from 1."""

    version: int
    links: tuple[LinkRate, ...]


@dataclass(frozen=True, slots=True)
class TimeServed(Event):
    """Controller: whom these sites ask for the time from now on."""

    servers: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ClockSynchronized(Event):
    """Worker: what it adds to its clock now that `server` has told it the time, and added before.

    The question and its answer were on their way for `delay_ms` together. The time is that of the
    controller of this rank, 1 for the backup.
    """

    server: str
    delay_ms: float
    correction_ns: int
    before_ns: int | None = None
    controller: int = 0


@dataclass(frozen=True, slots=True)
class RateMeasured(Event):
    """Worker: the rate of the link src -> dst by so many chunks that crossed it.

    `bytes` is the chunks'; `least_delay_ms` the smallest delay of any frame in the last two minutes
    or more: one-way, or to the acknowledgement where the sender measures. Clocks that differ are
    part of it.
    """

    src: str
    dst: str
    rate_mbps: float
    chunks: int
    bytes: int
    least_delay_ms: float
