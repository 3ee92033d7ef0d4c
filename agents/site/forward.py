"""Computes the branches of an iteration while its parameters arrive (OWL).

A hand-out brings the model of the next iteration. The forward computation begins with its first
branch, before the task that hands it out has ended. When the task is given up, so is the
computation, because the next task may bring another model.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from trunkline.agents.distribution.stage_tracker import Stage, StageTracker
from trunkline.agents.events.event import Log
from trunkline.agents.events.round_events import BranchArrived, BranchComputed
from trunkline.agents.wire.clock import Clock
from trunkline.workloads.layered.model import WorkloadInLayers


@dataclass(slots=True)
class _Step:
    """One iteration. Its parameters come from a `task`, or were here already (None)."""

    iteration: int
    task: int | None
    tracker: StageTracker
    running: asyncio.Task[None] = field(init=False)
    arrival: asyncio.Event = field(default_factory=asyncio.Event)
    end_s: float = 0.0


@dataclass(slots=True)
class Forward:
    """The computing of one worker; `chunks` are those of each branch of its model."""

    workload: WorkloadInLayers
    chunks: Sequence[range]
    clock: Clock
    log: Log
    on_error: Callable[[asyncio.Task[None]], None]
    _step: _Step | None = None

    def begin(self, iteration: int, batch: int | None, task: int | None) -> None:
        """Begin an iteration whose parameters a task brings; with None, they are here.

        A task that this site joins again goes on.
        """
        if task is not None and self._step is not None and self._step.task == task:
            return
        self.cancel()
        tracker = StageTracker(self.workload.layers(iteration, batch), self.chunks)
        self._step = step = _Step(iteration, task, tracker, end_s=self._now_s())
        if task is None:
            tracker.arrive_all(step.end_s)
        step.running = asyncio.create_task(self._run(step))
        step.running.add_done_callback(self.on_error)

    def arrive(self, task: int, chunk: int) -> None:
        """Note a chunk that a task has brought."""
        step = self._step
        if step is None or step.task != task:
            return
        branch = step.tracker.arrive(chunk, self._now_s())
        if branch is not None:
            self.log(BranchArrived, task, branch)
            step.arrival.set()

    def end(self, task: int) -> None:
        """Forget what was computed with the parameters of a task that was given up."""
        if self._step is not None and self._step.task == task:
            self.cancel()

    def cancel(self) -> None:
        """Stop computing."""
        if self._step is not None:
            self._step.running.cancel()
            self._step = None

    async def finish(self, iteration: int, batch: int | None) -> None:
        """Compute the rest of an iteration, whose parameters are all here: forward, backward."""
        if self._step is None or self._step.iteration != iteration:
            self.begin(iteration, batch, None)
        assert self._step is not None
        step = self._step
        await step.running
        await self._compute(step, step.end_s, step.tracker.model.backward_s)
        self._step = None

    async def _run(self, step: _Step) -> None:
        """Compute branch after branch. Each takes the time of its table, however late timers are.

        Timers have a resolution of a millisecond. So a branch begins when the one before it should
        have ended.
        """
        while not step.tracker.is_done:
            stage: Stage | None = step.tracker.take()
            if stage is None:
                step.arrival.clear()
                await step.arrival.wait()
                continue
            start_s = max(step.end_s, stage.arrived_s)
            took_s = step.tracker.model.branches[stage.branch].forward_s
            await self._compute(step, start_s, took_s)
            span_ns = round(1e9 * start_s), round(1e9 * (start_s + took_s))
            self.log(BranchComputed, step.iteration, stage.branch, *span_ns, step.task)

    async def _compute(self, step: _Step, start_s: float, took_s: float) -> None:
        step.end_s = start_s + took_s
        await self.clock.compute(lambda: max(0.0, step.end_s - self._now_s()))

    def _now_s(self) -> float:
        return self.clock.now_ns() / 1e9
