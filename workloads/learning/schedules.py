"""How the learning rate changes from iteration to iteration (pure).

Iteration n is a site's own n-th one, from 0 on. Neither its number of steps nor the iterations of
other sites matter. Names in parentheses are those of the same schedules in `torch.optim`.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import Field

from trunkline.workloads.option_rules import OptionError

Count = Annotated[int, Field(ge=1)]
Factor = Annotated[float, Field(gt=0, le=1)]
Share = Annotated[float, Field(ge=0, le=1)]


@dataclass(frozen=True, slots=True)
class Step:
    """After every so many iterations, the rate is multiplied by a factor (StepLR).

    Options:
        every: the number of iterations.
        factor: the factor.
    """

    every: Count
    factor: Factor = 0.1

    def share(self, iteration: int) -> float:
        """The rate of an iteration as a share of the first one."""
        return self.factor ** (iteration // self.every)


@dataclass(frozen=True, slots=True)
class Milestones:
    """At some iterations, the rate is multiplied by a factor (MultiStepLR).

    Options:
        at: these iterations, in ascending order.
        factor: the factor.
    """

    at: tuple[Count, ...]
    factor: Factor = 0.1

    def share(self, iteration: int) -> float:
        """The rate of an iteration as a share of the first one."""
        return self.factor ** bisect_right(self.at, iteration)


@dataclass(frozen=True, slots=True)
class Exponential:
    """After each iteration, the rate is multiplied by a factor (ExponentialLR).

    Options:
        factor: the factor.
    """

    factor: Factor

    def share(self, iteration: int) -> float:
        """The rate of an iteration as a share of the first one."""
        return self.factor**iteration


@dataclass(frozen=True, slots=True)
class Cosine:
    """The rate falls along half of a cosine, and then stays (CosineAnnealingLR).

    Options:
        iterations: in how many iterations it falls.
        to: its end, as a share of `learning_rate`.
    """

    iterations: Count
    to: Share = 0.0

    def share(self, iteration: int) -> float:
        """The rate of an iteration as a share of the first one."""
        done = min(iteration / self.iterations, 1.0)
        return self.to + (1 - self.to) * (1 + math.cos(math.pi * done)) / 2


@dataclass(frozen=True, slots=True)
class Linear:
    """The rate falls along a line, and then stays (LinearLR, or PolynomialLR of power 1).

    Options:
        iterations: in how many iterations it falls.
        to: its end, as a share of `learning_rate`.
    """

    iterations: Count
    to: Share = 0.0

    def share(self, iteration: int) -> float:
        """The rate of an iteration as a share of the first one."""
        return self.to + (1 - self.to) * (1 - min(iteration / self.iterations, 1.0))


@dataclass(frozen=True, slots=True)
class Schedule:
    """How the learning rate changes; by default it stays. At most one of the first five.

    Options:
        step: it falls by a factor after every so many iterations.
        milestones: it falls by a factor at given iterations.
        exponential: it falls by a factor after each iteration.
        cosine: it falls along half of a cosine.
        linear: it falls along a line.
        warm_up: in this number of iterations it rises along a line from the first of so many parts
            to the whole; the rest of the schedule counts from iteration 0 all the same.
    """

    step: Step | None = field(default=None, metadata={"omit": None})
    milestones: Milestones | None = field(default=None, metadata={"omit": None})
    exponential: Exponential | None = field(default=None, metadata={"omit": None})
    cosine: Cosine | None = field(default=None, metadata={"omit": None})
    linear: Linear | None = field(default=None, metadata={"omit": None})
    warm_up: Annotated[int, Field(ge=0)] = 0

    @property
    def falls(self) -> tuple[Step | Milestones | Exponential | Cosine | Linear, ...]:
        """How it falls: at most one way, if it is right."""
        ways = (self.step, self.milestones, self.exponential, self.cosine, self.linear)
        return tuple(way for way in ways if way is not None)

    def share(self, iteration: int) -> float:
        """The learning rate of an iteration as a share of the option `learning_rate`."""
        share = 1.0
        for way in self.falls:
            share *= way.share(iteration)
        return share * min(1.0, (iteration + 1) / self.warm_up) if self.warm_up else share


def problems(schedule: Schedule | None) -> list[OptionError]:
    """Return what is wrong with a schedule."""
    if schedule is None:
        return []
    found = []
    if len(schedule.falls) > 1:
        names = [type(way).__name__.lower() for way in schedule.falls]
        found.append(OptionError("schedule", " and ".join(names), "one of them"))
    if (marks := schedule.milestones) and sorted({*marks.at}) != [*marks.at]:
        allowed = "iterations in ascending order, each once"
        found.append(OptionError("schedule.milestones.at", list(marks.at), allowed))
    return found
