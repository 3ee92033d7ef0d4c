"""When evaluations end a run: at an accuracy or a loss, or when nothing gets better (pure).

Single evaluations are noisy: a target must hold for several of them in a row. The evaluator stops
a run by these rules, and the checks judge by them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from trunkline.agents.events.causes import NoProgress, Quantity, TargetReached
from trunkline.agents.events.evaluation_events import ModelEvaluated
from trunkline.harness.scenario.settings import Stop


@dataclass(slots=True)
class BestSoFar:
    """The first evaluation with the best accuracy so far, and how many in a row were no better.

    `best` is its number, 0 before the first one. An evaluation that is missing ends a row.
    """

    best: int = 0
    best_percent: float = -math.inf
    number: int = 0
    without: int = 0

    def take(self, number: int, accuracy_percent: float) -> None:
        """Take the next evaluation."""
        if number != self.number + 1:
            self.without = 0
        self.number = number
        if accuracy_percent > self.best_percent or not self.best:
            self.best, self.best_percent, self.without = number, accuracy_percent, 0
        else:
            self.without += 1


@dataclass(slots=True)
class Streak:
    """The evaluations so far: how many in a row have reached each target of `stop`."""

    stop: Stop
    progress: BestSoFar = field(default_factory=BestSoFar)
    _counts: dict[Quantity, int] = field(default_factory=dict)

    def take(
        self, number: int, accuracy_percent: float, loss: float
    ) -> TargetReached | NoProgress | None:
        """Take the next evaluation; returns why the run ends with it, if it does.

        An evaluation that is missing ends a row.
        """
        if number != self.progress.number + 1:
            self._counts.clear()
        self.progress.take(number, accuracy_percent)
        stop = self.stop
        reached: dict[Quantity, tuple[bool, float, float]] = {}
        if stop.accuracy_percent is not None:
            target = stop.accuracy_percent
            reached["accuracy"] = accuracy_percent >= target, accuracy_percent, target
        if stop.loss is not None:
            reached["loss"] = loss <= stop.loss, loss, stop.loss
        for what, (holds, value, target) in reached.items():
            self._counts[what] = self._counts.get(what, 0) + 1 if holds else 0
            if self._counts[what] >= stop.in_a_row:
                return TargetReached(what, value, target, stop.in_a_row)
        if stop.without_progress is not None and self.progress.without >= stop.without_progress:
            return NoProgress(self.progress.best_percent, stop.without_progress)
        return None


@dataclass(frozen=True, slots=True)
class Target:
    """What a run was to reach, and when the row of evaluations began that reached it, if any.

    `converged_s` is when the best evaluation was, if too many in a row were no better.
    """

    stop: Stop
    reached_s: float | None = None
    converged_s: float | None = None

    def describe(self, what: Quantity) -> tuple[float, str] | None:
        """The value of a target, and words about it; None if the run has no such target."""
        wanted = self.stop.accuracy_percent if what == "accuracy" else self.stop.loss
        if wanted is None:
            return None
        text = f"target {wanted:g}{' %' * (what == 'accuracy')}"
        if self.stop.accuracy_percent is None or self.stop.loss is None:
            reached = self.reached_s
            text += ", not reached" if reached is None else f", held from {reached:.4g} s on"
        return wanted, text


NO_TARGET = Target(Stop(rounds=1))
"""Of a run that stops at another condition."""


def find_end(
    events: Iterable[ModelEvaluated], stop: Stop
) -> tuple[ModelEvaluated, ModelEvaluated, TargetReached | NoProgress] | None:
    """The evaluation that ends a run, after the one that matters, and why; None if none does.

    What matters is the first evaluation of the row that reached a target, or the best one.
    """
    streak, before = Streak(stop), dict[int, ModelEvaluated]()
    for event in events:
        before[event.number] = event
        found = streak.take(event.number, event.accuracy_percent, event.loss)
        if isinstance(found, TargetReached):
            return before[event.number - stop.in_a_row + 1], event, found
        if found is not None:
            return before[streak.progress.best], event, found
    return None


def find_reached_ns(events: Iterable[ModelEvaluated], stop: Stop) -> int | None:
    """When the first row of evaluations began that reached a target."""
    found = find_end(events, stop)
    return found[0].t_ns if found is not None and isinstance(found[2], TargetReached) else None


def find_converged_ns(events: Iterable[ModelEvaluated], stop: Stop) -> int | None:
    """When the best evaluation was, if enough of them in a row were no better to end the run."""
    found = find_end(events, stop)
    return found[0].t_ns if found is not None and isinstance(found[2], NoProgress) else None
