"""Columns of the table `run` about what evaluations found: a target, or convergence (pure)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from trunkline.agents.events.evaluation_events import ModelEvaluated
from trunkline.harness.record.targets import BestSoFar, find_converged_ns, find_reached_ns
from trunkline.harness.report.tables.row import Columns, column
from trunkline.harness.scenario.settings import Stop


class TargetOfRun(Columns):
    """The columns of the table `run` that are about the target of `stop`; empty without one."""

    target_s: float | None = column(
        "when the evaluations in a row began that reached the target of `stop`, counted from the "
        "end of the warm-up; empty without a target, and if it was not reached"
    )
    target_reached: int | None = column("1 if that target was reached, else 0; empty without one")
    target_rounds: float | None = column("`rounds` until `target_s`")
    target_updates: int | None = column("`updates` until `target_s`")

    @classmethod
    def of(
        cls,
        evaluated: Sequence[ModelEvaluated],
        stop: Stop,
        begin_ns: int,
        rounds_ns: Sequence[int],
        workers: int,
        updates_ns: Sequence[int],
    ) -> Self | None:
        """What these evaluations say of the target; None without one.

        Args:
            evaluated: the evaluations.
            stop: has the target.
            begin_ns: the end of the warm-up, from which times are counted.
            rounds_ns: when rounds of workers ended, since then.
            workers: how many workers there are.
            updates_ns: when updates ended, since then.
        """
        if not stop.has_target:
            return None
        at_ns = find_reached_ns(evaluated, stop)
        if at_ns is None:
            return cls(target_s=None, target_reached=0, target_rounds=None, target_updates=None)
        return cls(
            target_s=(at_ns - begin_ns) / 1e9,
            target_reached=1,
            target_rounds=sum(t_ns <= at_ns for t_ns in rounds_ns) / workers,
            target_updates=sum(t_ns <= at_ns for t_ns in updates_ns),
        )


class ConvergenceOfRun(Columns):
    """The columns of the table `run` that are about convergence, by `stop.without_progress`."""

    best_accuracy_percent: float | None = column(
        "best accuracy of an evaluation; empty without `stop.without_progress`"
    )
    converged_s: float | None = column(
        "when the evaluation with this accuracy was, counted from the end of the warm-up, if the "
        "run ended because none after it was better; else empty"
    )
    converged: int | None = column(
        "1 if the run ended so, else 0; empty without `stop.without_progress`"
    )

    @classmethod
    def of(cls, evaluated: Sequence[ModelEvaluated], stop: Stop, begin_ns: int) -> Self | None:
        """What these evaluations say of convergence; None if the run does not end by it."""
        if stop.without_progress is None:
            return None
        best, at_ns = BestSoFar(), find_converged_ns(evaluated, stop)
        for event in evaluated:
            best.take(event.number, event.accuracy_percent)
        return cls(
            best_accuracy_percent=best.best_percent if best.best else None,
            converged_s=None if at_ns is None else (at_ns - begin_ns) / 1e9,
            converged=int(at_ns is not None),
        )
