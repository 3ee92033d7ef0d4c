"""When a run has reached the accuracy or the loss at which it stops (pure).

Single evaluations are noisy: the target must hold for several of them in a row. The evaluator stops
a run by this rule, and the checks judge by it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from trunkline.agents.events.causes import Quantity, TargetReached
from trunkline.agents.events.evaluation_events import ModelEvaluated
from trunkline.harness.scenario.settings import Stop


@dataclass(slots=True)
class Streak:
    """The evaluations so far: how many in a row have reached each target of `stop`."""

    stop: Stop
    number: int = 0
    _counts: dict[Quantity, int] = field(default_factory=dict)

    def take(self, number: int, accuracy_percent: float, loss: float) -> TargetReached | None:
        """Take the next evaluation; returns the target that has held for long enough, if any.

        An evaluation that is missing ends a row.
        """
        if number != self.number + 1:
            self._counts.clear()
        self.number = number
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
        return None


@dataclass(frozen=True, slots=True)
class Target:
    """What a run was to reach, and when the row of evaluations began that reached it, if any."""

    stop: Stop
    reached_s: float | None = None

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


def find_reached(
    events: Iterable[ModelEvaluated], stop: Stop
) -> tuple[ModelEvaluated, ModelEvaluated, TargetReached] | None:
    """The first and the last evaluation of the first row that reached a target, and the target."""
    streak, before = Streak(stop), []
    for event in events:
        before.append(event)
        found = streak.take(event.number, event.accuracy_percent, event.loss)
        if found is not None:
            return before[-stop.in_a_row], event, found
    return None
