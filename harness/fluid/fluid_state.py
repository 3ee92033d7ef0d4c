"""What the fluid model of a run keeps: the model, workers, and tasks that were started (pure)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from trunkline.agents.control.driver import NewTask
from trunkline.agents.planning.chunks import cut_tensors
from trunkline.agents.planning.fluid.fluid_tasks import FluidTask, Offer
from trunkline.agents.planning.plan import Plan
from trunkline.harness.fluid.fluid_steps import HandOut
from trunkline.harness.scenario.settings import Scenario


@dataclass(frozen=True, slots=True)
class Model:
    """The model of a run, and how it is cut into chunks; `branches` are the chunks of each one."""

    model_bytes: int
    chunk_bytes: int
    tensor_bytes: tuple[int, ...]
    branches: tuple[range, ...]

    @classmethod
    def of(cls, scenario: Scenario) -> Model:
        chunk_bytes, tensor_bytes = scenario.scheme.chunk_bytes, scenario.tensor_bytes
        in_layers = scenario.layers is not None
        branches = cut_tensors(chunk_bytes, tensor_bytes) if in_layers else ()
        return cls(scenario.model_bytes, chunk_bytes, tensor_bytes, branches)

    def make_task(self, plan: Plan) -> FluidTask:
        """A task that moves the model by this plan."""
        sizes = self.model_bytes, self.chunk_bytes
        return FluidTask(plan, *sizes, tensor_bytes=self.tensor_bytes)


@dataclass(slots=True)
class Worker:
    """A worker.

    Attributes:
        times: how long its iterations take.
        iteration: the iteration that it computes, or computes next.
        batch: the samples in each of its steps; None for the workload's own.
        locks: how many running tasks in which it is passive will replace its model.
        computed: the iteration that it has computed and that waits for these tasks.
        offer: its contribution that is on its way and that no task has taken yet.
        has_left: whether it does no more rounds.
    """

    times: Any
    iteration: int = 0
    batch: int | None = None
    locks: int = 0
    computed: int | None = None
    offer: Offer | None = None
    has_left: bool = False

    @classmethod
    def all_of(cls, scenario: Scenario) -> dict[str, Worker]:
        """The workers of a scenario by site."""
        workload, workers = scenario.workload, scenario.workers
        times = workload.module.compute_times
        return {
            site: cls(times(rank, workers, scenario.seed, **workload.options))
            for rank, site in enumerate(workers)
        }

    def take_offer(self) -> Offer | None:
        """The offer, if there is one; the worker has none then."""
        offer, self.offer = self.offer, None
        return offer


@dataclass(slots=True, eq=False)
class StartedTask:
    """A task that runs.

    Attributes:
        counts: whether the warm-up was over when it began.
        begun_s: when the controller started it.
        handed: the iterations that are computed while it hands a model out, if there are any.
        missing: the receivers that lack the result.
        heard_s: when the controller hears that all receivers had the result, of those that have.
        told: the sites that have heard of it.
        early: the receivers that had the result before they heard of the task.
        locked: the passive workers whose model it will replace.
    """

    new: NewTask
    counts: bool
    begun_s: float
    handed: HandOut | None
    missing: set[str]
    heard_s: float = 0.0
    told: set[str] = field(default_factory=set)
    early: set[str] = field(default_factory=set)
    locked: set[str] = field(default_factory=set)
