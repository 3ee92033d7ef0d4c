"""The faults that follow a record: how a link was over time, and when a site was there (pure)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from trunkline.harness.faults.fault_parts import (
    DIRECTION,
    EVERY,
    FOR,
    HOW,
    Direction,
    Ends,
    FaultError,
    Hint,
    Name,
    Part,
    Track,
)
from trunkline.harness.network.interface import Cut

_FROM = Hint("from", "first|TIME|DATE")
_STEP = Hint("step", "TIME")
_COLUMNS = Hint("columns", "NAME,...")


@dataclass(frozen=True, slots=True)
class Step:
    """The values of a link from `at_s` after a trace's start on; None keeps a value.

    A rate of 0 stops the link (a blackhole).
    """

    at_s: float
    rate_mbps: float | None = None
    delay_ms: float | None = None
    loss_percent: float | None = None
    jitter_ms: float | None = None

    def values(self) -> dict[str, float]:
        """The values that it gives to a link, by their field of `Link`; a rate of 0 is none."""
        names = ("rate_mbps", "delay_ms", "loss_percent", "jitter_ms")
        named = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        return named if self.rate_mbps != 0 else {k: named[k] for k in named if k != "rate_mbps"}


@dataclass(frozen=True, slots=True)
class Trace:
    """Changes a link as in a file of rates, delays, jitter or losses; `every` repeats it.

    `notes` are what a user should know about how the file was read.
    """

    VERB: ClassVar = "trace"
    PARTS: ClassVar[tuple[Part, ...]] = (
        Ends(),
        Track(),
        DIRECTION,
        Hint("unit", "UNIT"),
        _STEP,
        _FROM,
        Hint("rate", "COLUMN"),
        _COLUMNS,
        EVERY,
        FOR,
    )
    a: str
    b: str
    steps: tuple[Step, ...]
    direction: Direction = "one-way"
    every_s: float | None = None
    for_s: float | None = None
    notes: tuple[str, ...] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        _check_end(self.steps[-1].at_s, self.every_s)

    @property
    def has_outages(self) -> bool:
        """Whether it stops the link."""
        return any(step.rate_mbps == 0 for step in self.steps)


@dataclass(frozen=True, slots=True)
class Switch:
    """A site is available, or not, from `at_s` after a trace's start on."""

    at_s: float
    on: bool


@dataclass(frozen=True, slots=True)
class Availability:
    """Stops all links of a site while it is off in a file; `every` repeats it."""

    VERB: ClassVar = "availability"
    PARTS: ClassVar[tuple[Part, ...]] = (
        Name("site"),
        Track(),
        HOW,
        _STEP,
        _FROM,
        _COLUMNS,
        EVERY,
        FOR,
    )
    site: str
    steps: tuple[Switch, ...]
    how: Cut = "blackhole"
    every_s: float | None = None
    for_s: float | None = None

    def __post_init__(self) -> None:
        _check_end(self.steps[-1].at_s, self.every_s)


def _check_end(last_s: float, every_s: float | None) -> None:
    if every_s is not None and every_s <= last_s:
        raise FaultError(f"every {every_s:g} s: expected more than {last_s:g} s, its end")
