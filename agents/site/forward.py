"""Computes the branches of an iteration while its parameters arrive (OWL).

A hand-out brings the model of the next iteration. The forward computation begins with its first
branch, before the task that hands it out has ended. When the task is given up, so is the
computation, because the next task may bring another model.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from trunkline.agents.distribution.stage_tracker import Stage, StageTracker
from trunkline.agents.events.event import Log
from trunkline.agents.events.round_events import BranchArrived, BranchComputed
from trunkline.agents.timing.clock import Clock
from trunkline.workloads.base import Vector
from trunkline.workloads.layered.model import WorkloadInLayers, WorkloadWithHooks


@dataclass(slots=True)
class _Step:
    """One iteration. Its parameters come from a `task`, or were here already (None)."""

    iteration: int
    batch: int | None
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
    _hooks: WorkloadWithHooks | None = field(init=False)

    def __post_init__(self) -> None:
        workload = self.workload
        self._hooks = workload if isinstance(workload, WorkloadWithHooks) else None

    def begin(self, iteration: int, batch: int | None, task: int | None) -> None:
        """Begin an iteration whose parameters a task brings; with None, they are here.

        A task that this site joins again continues.
        """
        if task is not None and self._step is not None and self._step.task == task:
            return
        self.cancel()
        tracker = StageTracker(self.workload.layers(iteration, batch), self.chunks)
        self._step = step = _Step(iteration, batch, task, tracker, end_s=self._now_s())
        hooks = self._hooks
        if hooks is not None:
            hooks.begin(iteration, batch)
        if task is None:
            tracker.arrive_all(step.end_s)
            if hooks is not None:
                hooks.receive(slice(None), hooks.contribution())
        step.running = asyncio.create_task(self._run(step))
        step.running.add_done_callback(self.on_error)

    def arrive(self, task: int, chunk: int, place: slice, data: Vector) -> None:
        """Note a chunk that a task has brought, and its place in the model."""
        step = self._step
        if step is None or step.task != task:
            return
        if self._hooks is not None:
            self._hooks.receive(place, data)
        branch = step.tracker.arrive(chunk, self._now_s())
        if branch is not None:
            self.log(BranchArrived, task, branch)
            step.tracker.arrived_s[branch] = self._now_s()  # not before the time in the log
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

    async def finish(
        self, iteration: int, batch: int | None, backward: Callable[[], object]
    ) -> None:
        """Compute the rest of an iteration, whose parameters are all here: forward, backward."""
        if self._step is None or self._step.iteration != iteration:
            self.begin(iteration, batch, None)
        assert self._step is not None
        step = self._step
        await step.running
        await self._compute(step, step.end_s, step.tracker.model.backward_s, backward)
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
            await self._compute(step, start_s, took_s, partial(self._compute_branch, stage.branch))
            span_ns = round(1e9 * start_s), round(1e9 * (start_s + took_s))
            self.log(BranchComputed, step.iteration, stage.branch, *span_ns, step.task)

    async def _compute(
        self, step: _Step, start_s: float, took_s: float, work: Callable[[], object]
    ) -> None:
        """Do some work in the time from `start_s` on."""
        step.end_s = start_s + took_s

        def compute() -> float:
            left_s = max(0.0, step.end_s - self._now_s())
            work()
            return left_s

        await self.clock.compute(compute)

    def _compute_branch(self, branch: int) -> None:
        if self._hooks is not None:
            self._hooks.compute_branch(branch)

    def _now_s(self) -> float:
        return self.clock.now_ns() / 1e9
