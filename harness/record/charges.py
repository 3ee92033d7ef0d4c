"""What took virtual time at the sites of programs, and how much equal computing differs (pure)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import quantiles

from trunkline.agents.events.run_events import SiteTotals, TimeCharged
from trunkline.harness.record.history import History


@dataclass(frozen=True, slots=True)
class Noise:
    """What the same loop took: the median, and what nine of ten took less and more than, in ms."""

    low_ms: float
    median_ms: float
    high_ms: float

    @classmethod
    def of(cls, samples_ns: Sequence[int]) -> Noise | None:
        """The noise of these samples; None if there are too few."""
        if len(samples_ns) < 2:
            return None
        tenths = quantiles(samples_ns, n=10, method="inclusive")
        return cls(tenths[0] / 1e6, tenths[4] / 1e6, tenths[8] / 1e6)

    @property
    def percent(self) -> float:
        """How far the outer values are from the median, at most."""
        away_ms = max(self.high_ms - self.median_ms, self.median_ms - self.low_ms)
        return 100 * away_ms / self.median_ms if self.median_ms else 0.0

    def __str__(self) -> str:
        return (
            f"the same loop took {self.low_ms:.2f} to {self.high_ms:.2f} ms, "
            f"{self.median_ms:.2f} ms at the median: {self.percent:.0f} % of noise"
        )


def find_totals(history: History) -> tuple[SiteTotals, ...]:
    """What took time at each site; empty if nothing did."""
    return tuple(each for event in history.all(TimeCharged) for each in event.sites)


def find_noise(history: History) -> Noise | None:
    """How much equal computing differed, before and after the run."""
    return Noise.of([each for event in history.all(TimeCharged) for each in event.samples_ns])
