"""The process that evaluates: at each multiple of a time it measures a model of the sites.

It has a workload of its own, which takes over the models of `model_board`. On a virtual clock time
stands still while it computes, but for its reads of the clock, of which torch makes hundreds for an
evaluation: each takes 256 ns of this process alone. It disturbs no other process, so all other
events of a run are the same with it and without it.
"""

from __future__ import annotations

import math
import mmap
import os
import select
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from trunkline.agents.events.evaluation_events import ModelEvaluated, Of, SiteModel
from trunkline.agents.events.event import RUNNER
from trunkline.agents.events.event_writing import to_line
from trunkline.agents.events.run_events import AgentFailed, Stopping
from trunkline.agents.timing.exact_waits import Alarm
from trunkline.agents.wire.agent_settings import AgentError
from trunkline.harness.processes.lines import write_all
from trunkline.harness.record.targets import Streak
from trunkline.harness.scenario.settings import Scenario
from trunkline.harness.session.evaluation.model_board import ModelBoard
from trunkline.workloads.base import Vector, Workload, describe

TIME_BYTES = 8
"""A command is a time in ns: the epoch of the run, then, since then, when it ended."""

BUILT = b"built"
"""The line which says that the workload is built."""


@dataclass(slots=True)
class Log:
    """The evaluations: lines in memory that the session reads when it is awake anyway.

    A pipe would wake it up for each evaluation, and it reads the clock whenever it wakes up.
    """

    fd: int = field(default_factory=lambda: os.memfd_create("evaluations"))
    _written: Any = field(default_factory=lambda: memoryview(mmap.mmap(-1, 8)).cast("q"))
    _read: int = 0

    def write(self, line: bytes) -> None:
        """Append a line."""
        write_all(self.fd, line)
        self._written[0] += len(line)

    def read(self) -> list[bytes]:
        """The lines since the last time."""
        size = self._written[0] - self._read
        if not size:
            return []
        found = os.pread(self.fd, size, self._read)
        self._read += len(found)
        return found.splitlines(keepends=True)


def build(scenario: Scenario) -> Workload:
    """A workload for evaluations: that of the first worker."""
    kind = scenario.workload.module
    workload: Workload = kind.build(0, scenario.workers, scenario.seed, **scenario.workload.options)
    return workload


@dataclass(slots=True)
class Evaluator:
    """Evaluates until the run ends; then, or when a target is reached, no more."""

    scenario: Scenario
    board: ModelBoard
    log: Log
    told_fd: int
    commands_fd: int

    def run(self) -> int:
        """Serve the run; returns the exit code."""
        try:
            workload = build(self.scenario)
            write_all(self.told_fd, BUILT + b"\n")
            if epoch := os.read(self.commands_fd, TIME_BYTES):
                self._serve(workload, int.from_bytes(epoch))
        except Exception as error:
            reason = f"the evaluation failed: {type(error).__name__}: {error}"
            write_all(self.told_fd, to_line(AgentFailed(0, RUNNER, reason)))
            raise
        return 0

    def _serve(self, workload: Workload, epoch_ns: int) -> None:
        """Evaluate when the time has come. On a real clock, what is missed is left out."""
        streak, alarm = Streak(self.scenario.stop), Alarm()
        every_ns, end_ns = round(self.scenario.evaluation.every_s * 1e9), math.inf
        due_ns = every_ns
        while due_ns <= end_ns:
            if end_ns == math.inf:
                alarm.set(epoch_ns + due_ns)
                end_ns = self._wait(alarm)
            t_ns = due_ns
            if self.scenario.clock == "real":
                t_ns = time.monotonic_ns() - epoch_ns
                due_ns = max(due_ns, t_ns // every_ns * every_ns)
            if due_ns > end_ns:
                return
            found = self._evaluate(workload, due_ns // every_ns, t_ns)
            if found is not None and (
                cause := streak.take(found.number, found.accuracy_percent, found.loss)
            ):
                write_all(self.told_fd, to_line(Stopping(t_ns, RUNNER, cause)))
                return
            due_ns += every_ns

    def _wait(self, alarm: Alarm) -> float:
        """Wait for the alarm, or for the run's end; returns when that was, infinite before it."""
        poll = select.poll()
        for fd in (alarm.fd, self.commands_fd):
            poll.register(fd, select.POLLIN)
        if self.commands_fd not in (fd for fd, _ in poll.poll()):
            return math.inf
        return int.from_bytes(os.read(self.commands_fd, TIME_BYTES))

    def _evaluate(self, workload: Workload, number: int, t_ns: int) -> ModelEvaluated | None:
        """Measure the model that the sites have now; None if a site that it needs has none."""
        of, models = self.scenario.evaluation.of, self.board.read()
        assert of is not None
        if of == "member":
            models = dict(list(models.items())[:1])
        if not models or (of == "server" and len(models) < len(self.scenario.evaluated)):
            return None
        model = combine(of, list(models.values()))
        workload.install(model)
        quality = workload.evaluate()
        if quality is None:
            raise AgentError("expected an Evaluation from evaluate, not None")
        event = ModelEvaluated(
            t_ns,
            RUNNER,
            number,
            of,
            tuple(SiteModel(site, *self._describe(each)) for site, each in models.items()),
            *self._describe(model),
            **asdict(quality),
        )
        self.log.write(to_line(event))
        return event

    def _describe(self, model: Vector) -> tuple[str, tuple[float, ...]]:
        return describe(model, self.scenario.scheme.chunk_bytes)


def combine(of: Of, models: Sequence[Vector]) -> Vector:
    """The model that is evaluated: the mean of these, or their sum if servers share the model."""
    if len(models) == 1:
        return models[0]
    total = np.zeros(models[0].size)
    for model in models:
        total += model
    return (total if of == "server" else total / len(models)).astype(np.float32)
