"""What is counted in the fluid model of a run, and the results of it (pure)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from trunkline.harness.fluid import mixing

ZERO_SHARE = 0.1
"""A gap counts as zero if it is shorter than this share of the mean gap."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """The predicted mean task time, mean rounds per worker, window and groups of a run.

    The window ends when the run is told to stop; only rounds in it count. `update_s` is the window
    over the number of updates (`harness.record.history.Task.updates`). `rho` says how slowly the
    groups mix models (`harness.fluid.mixing`). `push_s` and `pull_s` are the mean times of workers
    until all servers have their update, and until they have the servers' model; `zero_gaps_percent`
    is the share of gaps of zero between updates, as in `tables/run.csv`. `step_s` and
    `stall_percent` are those of iterations that are computed while their parameters arrive, as in
    `tables/run.csv`. `samples_per_s` is NaN for workloads without a batch.
    """

    task_s: float
    rounds: float
    window_s: float
    update_s: float
    rho: float
    push_s: float
    pull_s: float
    zero_gaps_percent: float
    step_s: float
    stall_percent: float
    samples_per_s: float


@dataclass(slots=True)
class Window:
    """The part of a run that its results count.

    Attributes:
        begin_s: when the warm-up ended; None before.
        stop_s: when the run was told to stop; None before.
        heard_s: when the controller last heard of an event. A run that is not told to stop ends
            then, even if links change later.
    """

    begin_s: float | None
    stop_s: float | None = None
    heard_s: float = 0.0

    @property
    def has_begun(self) -> bool:
        """Whether the warm-up is over."""
        return self.begin_s is not None

    @property
    def has_stopped(self) -> bool:
        """Whether the run has been told to stop."""
        return self.stop_s is not None

    @property
    def length_s(self) -> float:
        """The length of the window of a run that has ended; 0 if it never began."""
        end_s = self.heard_s if self.stop_s is None else self.stop_s
        return end_s - (end_s if self.begin_s is None else self.begin_s)


@dataclass(slots=True)
class Counts:
    """What happened in the window, or began in it.

    Attributes:
        tasks_s: the time that each task took.
        push_s, pushed_s: of each update that a worker gave to servers, how long it took to be at
            all of them, and when it was.
        pull_s: how long each worker took to get the servers' model.
        steps_s, stalls_s: of each iteration that was computed while its parameters arrived, the
            whole time, and what of it was not computing.
        groups: the weights of each symmetric task.
        samples_of: the samples of an iteration with a batch; None for a workload without one.
        samples: the samples of all rounds.
    """

    samples_of: Callable[[int | None], int] | None
    tasks_s: list[float] = field(default_factory=list)
    push_s: list[float] = field(default_factory=list)
    pushed_s: list[float] = field(default_factory=list)
    pull_s: list[float] = field(default_factory=list)
    steps_s: list[float] = field(default_factory=list)
    stalls_s: list[float] = field(default_factory=list)
    groups: list[Mapping[str, float]] = field(default_factory=list)
    updates: int = 0
    rounds: int = 0
    samples: int = 0

    def add_round(self, batch: int | None) -> None:
        """Count a round of a worker with this batch."""
        self.rounds += 1
        self.samples += self.samples_of(batch) if self.samples_of else 0

    def expect(self, window_s: float, workers: Sequence[str]) -> Expectation:
        """The results of a run with this window."""
        stalled_s, stepped_s = sum(self.stalls_s), sum(self.steps_s)
        return Expectation(
            task_s=_mean(self.tasks_s),
            rounds=self.rounds / len(workers),
            window_s=window_s,
            update_s=window_s / self.updates if self.updates else math.nan,
            rho=mixing.compute_rho(self.groups, workers),
            push_s=_mean(self.push_s),
            pull_s=_mean(self.pull_s),
            zero_gaps_percent=compute_zero_share(np.diff(self.pushed_s)),
            step_s=_mean(self.steps_s),
            stall_percent=100 * stalled_s / stepped_s if self.steps_s else math.nan,
            samples_per_s=self.samples / window_s if self.samples_of and window_s else math.nan,
        )


def _mean(values: list[float]) -> float:
    return fmean(values) if values else math.nan


def compute_zero_share(gaps_s: NDArray[np.float64]) -> float:
    """The share of gaps that count as zero, in percent; NaN without gaps."""
    return 100.0 * float((gaps_s < ZERO_SHARE * gaps_s.mean()).mean()) if gaps_s.size else np.nan
