"""The progress of a sweep: many runs, what is done, running and failed, and when it ends (pure).

A rate and an end are told once there is something to go by: the work of this command alone, while
runs were in progress. So neither runs from before nor a wait for machines distort them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from trunkline.harness.config.units import count_of, render_roughly

PROBLEMS = {"fail": "failed", "unknown": "unknown", "error": "error"}
"""The outcomes that are counted apart -> the word for a run of it. `error`: there was no run."""

LEAST_WORK = 0.2
"""From how much work on, as a number of runs, the end is expected at some time."""

PERIODS_S = {"a minute": 60.0, "an hour": 3600.0, "a day": 86400.0}


@dataclass(frozen=True, slots=True)
class Running:
    """A run in progress: its identity, how much of it is done (0 to 1), how often it has started.

    It starts again if its machine was lost.
    """

    run: str
    share: float = 0.0
    starts: int = 1


@dataclass(frozen=True, slots=True)
class VariantProgress:
    """The runs of one variant: how many there are, are in progress, and have each outcome."""

    name: str
    total: int
    running: int
    outcomes: Mapping[str, int]

    @property
    def done(self) -> int:
        """How many have ended."""
        return sum(self.outcomes.values())

    @property
    def problems(self) -> str:
        """How many did not pass, in words; empty if none."""
        return ", ".join(_list_problems(self.outcomes))


@dataclass(slots=True)
class SweepProgress:
    """What is known of a sweep.

    Attributes:
        totals: the number of runs of each variant, by its name.
        variants: the variants that a run stands for, by its identity. A run that is not there
            stands for the first variant.
    """

    totals: Mapping[str, int]
    variants: Mapping[str, Sequence[str]] = field(default_factory=dict)
    _running: dict[str, Running] = field(default_factory=dict)
    _outcomes: dict[str, Counter[str]] = field(default_factory=dict)
    _starts: dict[str, int] = field(default_factory=dict)
    _before: int = 0
    _busy_s: float = 0.0
    _seen_s: float = math.inf
    _is_busy: bool = False

    def note_before(self, run: str, outcome: str) -> None:
        """A run had finished before this command."""
        self._before += self._count(run, outcome)

    def note_finished(self, run: str, outcome: str, starts: int = 1) -> None:
        """A run of this command has ended, after so many starts."""
        self._running.pop(run, None)
        self._note_starts(run, starts)
        self._count(run, outcome)
        self._is_busy = True

    def note_running(self, running: Sequence[Running], now_s: float) -> None:
        """These runs, and no others, are in progress now."""
        if running or self._is_busy:
            self._busy_s += now_s - min(self._seen_s, now_s)
        self._seen_s, self._is_busy = now_s, bool(running)
        self._running = {each.run: each for each in running}
        for each in running:
            self._note_starts(each.run, each.starts)

    @property
    def total(self) -> int:
        """The number of all runs."""
        return sum(self.totals.values())

    @property
    def done(self) -> int:
        """How many have ended."""
        return sum(outcomes.total() for outcomes in self._outcomes.values())

    @property
    def share(self) -> float:
        """How much of the sweep is done, 0 to 1; 1 only if all runs have ended."""
        if self.done >= self.total:
            return 1.0
        return min(0.99, (self._before + self._work) / self.total)

    def describe(self) -> str:
        """The whole sweep in one line."""
        return ", ".join(self._describe_whole())

    def list_variants(self) -> list[VariantProgress]:
        """The progress of each variant, if there are several."""
        running = Counter(name for run in self._running for name in self._find_variants(run))
        return [
            VariantProgress(name, total, running[name], self._outcomes.get(name, {}))
            for name, total in self.totals.items()
            if len(self.totals) > 1
        ]

    @property
    def _work(self) -> float:
        """The work of this command, as a number of runs."""
        shares = (
            each.share * len(self._find_variants(each.run)) for each in self._running.values()
        )
        return self.done - self._before + sum(shares)

    def _describe_whole(self) -> Iterator[str]:
        outcomes = sum(self._outcomes.values(), Counter())
        marked = [f"{self._before} from before"] * bool(self._before) + _list_problems(outcomes)
        yield f"{self.done} of {self.total} done" + f" ({', '.join(marked)})" * bool(marked)
        if self._starts:
            again = sum(starts - 1 for starts in self._starts.values())
            yield f"{again} started again"
        if self._running:
            yield f"{len(self._running)} running"
        if self._busy_s <= 0 or self._work < LEAST_WORK:
            return
        per_s = self._work / self._busy_s
        if self.done > self._before:
            yield _describe_rate(per_s)
        left_s = (self.total - self._before - self._work) / per_s
        if left_s >= 1:
            yield f"about {render_roughly(left_s)} left"

    def _count(self, run: str, outcome: str) -> int:
        variants = self._find_variants(run)
        for name in variants:
            self._outcomes.setdefault(name, Counter())[outcome] += 1
        return len(variants)

    def _note_starts(self, run: str, starts: int) -> None:
        if starts > self._starts.get(run, 1):
            self._starts[run] = starts

    def _find_variants(self, run: str) -> Sequence[str]:
        return self.variants.get(run) or tuple(self.totals)[:1]


def _list_problems(outcomes: Mapping[str, int]) -> list[str]:
    counts = {word: outcomes.get(outcome, 0) for outcome, word in PROBLEMS.items()}
    return [
        count_of(count, word) if word == "error" else f"{count} {word}"
        for word, count in counts.items()
        if count
    ]


def _describe_rate(per_s: float) -> str:
    """Write a rate by the shortest period that has at least one run, or by the longest."""
    rates = {period: per_s * length_s for period, length_s in PERIODS_S.items()}
    period = next((each for each, rate in rates.items() if rate >= 1), "a day")
    return f"{rates[period]:.{1 if rates[period] < 10 else 0}f} runs {period}"
