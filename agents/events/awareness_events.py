"""The events of what is known of links and clocks (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from trunkline.agents.events.event import By, Count, Event


class LinkRate(NamedTuple):
    """The estimated rate of one directed link."""

    src: str
    dst: str
    rate_mbps: float


def list_rates(rates_mbps: Mapping[tuple[str, str], float]) -> tuple[LinkRate, ...]:
    """The rates of links by (src, dst), as events have them."""
    return tuple(LinkRate(*link, rate) for link, rate in rates_mbps.items())


@dataclass(frozen=True, slots=True)
class RatesEstimated(Event, by=By.CONTROLLER):
    """Plans follow these rates, which are not the true ones, from now on."""

    links: tuple[LinkRate, ...]


@dataclass(frozen=True, slots=True)
class PlansUpdated(Event, by=By.CONTROLLER):
    """Plans follow these rates from now on; `version` counts from 1."""

    version: Count
    links: tuple[LinkRate, ...]


@dataclass(frozen=True, slots=True)
class TimeServed(Event, by=By.CONTROLLER):
    """From now on each of these sites asks its server for the time."""

    servers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ClockSynchronized(Event, by=By.SITE):
    """`server` told it the time; it adds `correction_ns` to its clock, before `before_ns`.

    The question and its answer travelled for `delay_ms` together. The time is that of the
    controller of this rank, 1 for the backup.
    """

    server: str
    controller: Count = field(default=0, kw_only=True)
    delay_ms: float
    before_ns: int | None = field(default=None, kw_only=True)
    correction_ns: int


@dataclass(frozen=True, slots=True)
class RateMeasured(Event, by=By.SITE):
    """The worker measured the rate of the link src -> dst by `chunks` of `bytes` in all.

    `least_delay_ms` is the smallest delay of any frame in the last two minutes or more: one-way, or
    to the acknowledgement where the sender measures. It includes the difference of the two clocks.
    """

    src: str
    dst: str
    rate_mbps: float
    chunks: Count
    bytes: Count
    least_delay_ms: float
