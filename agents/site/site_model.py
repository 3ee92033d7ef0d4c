"""The model of one site: its contributions to tasks, and the results that it takes over.

A worker contributes its model, or the update that an iteration has made. A server only has a model,
and a number for each of its versions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from trunkline.agents.events.task_events import Roles
from trunkline.agents.planning.chunks import Chunking
from trunkline.agents.planning.plan import Chunks, indexes_of
from trunkline.agents.planning.two_sided import share_model
from trunkline.agents.policies.policy import Gives
from trunkline.agents.wire.agent_settings import AgentError, WorkerSettings
from trunkline.workloads.base import Vector, Workload, WorkloadWithChanges, takes_batch


@dataclass(frozen=True, slots=True)
class Merge:
    """How a result became a part of a model: `model = keep * base + step`.

    The base is the model before, or the initial one, as `Roles.kept` says.
    """

    version: int
    base: Vector
    step: Vector
    model: Vector


@dataclass(slots=True)
class SiteModel:
    """One site's model, in the memory of its workload.

    Attributes:
        gives: whether tasks get the model, or the update of the latest iteration.
        accumulates: whether an update that no task took is added to the next one.
        shard: for a server, the chunks that it holds. Its elements outside of them are zeros.
        initial: the model with which the site began, if tasks mix it in.
        compares: whether steps are compared with the models that replace the site's.
        publish: gets each new model; it must copy it.
        iteration: a worker's latest iteration; a server has the number of its `version`.
        version: how many results have become a part of the model.
    """

    workload: Workload
    cut: Chunking
    gives: Gives = "model"
    accumulates: bool = False
    shard: Chunks | None = None
    iteration: int = 0
    version: int = 0
    initial: Vector | None = None
    compares: bool = False
    publish: Callable[[Vector], None] | None = None
    _update: Vector | None = None
    _last_step: Vector | None = None
    _snapshot: tuple[int, Vector] | None = None
    _compared: tuple[Vector, Vector] | None = None
    _given: dict[int, tuple[int, Vector]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.shard is not None:
            model = np.zeros_like(self.workload.contribution())
            for span in map(self.cut.span, indexes_of(self.shard)):
                model[span] = self.workload.contribution()[span]
            self.workload.install(model)
        self._publish()

    @classmethod
    def of(
        cls,
        settings: WorkerSettings,
        workload: Workload,
        publish: Callable[[Vector], None] | None = None,
    ) -> SiteModel:
        """The model with which a site begins."""
        cut = settings.cut(len(workload.contribution()))
        shard = share_model(settings.servers, cut).get(settings.site)
        return cls(
            workload,
            cut,
            settings.gives,
            settings.accumulates,
            shard,
            initial=workload.contribution().copy() if settings.keeps_initial else None,
            compares=settings.compares and shard is None,
            publish=publish,
        )

    @property
    def model(self) -> Vector:
        """The model itself, which the next change overwrites."""
        return self.workload.contribution()

    def compute(self, iteration: int, batch: int | None) -> float:
        """Compute an iteration; returns its modelled duration in seconds.

        Raises AgentError if the workload cannot use another batch size.
        """
        if batch is None:
            return self.workload.compute(iteration)
        if not takes_batch(self.workload):
            raise AgentError("the policy sets a batch size, but the workload takes none")
        compute: Callable[..., float] = self.workload.compute
        return compute(iteration, batch)

    def commit(self, iteration: int) -> None:
        """Take over the step of the iteration that was computed, in the model or as an update."""
        self.iteration = iteration
        base = self.model.copy() if self.compares else None
        self._take_step()
        if base is not None:
            step = self.model - base if self.gives == "model" else self._update
            self._compared = None if step is None else (base, step)
        if self.gives == "model":
            self._publish()

    def _take_step(self) -> None:
        if not isinstance(self.workload, WorkloadWithChanges):
            if self.gives == "update":
                raise AgentError("the policy wants updates, but the workload gives no changes")
        elif self.gives == "model":
            self.workload.commit()
        elif self.accumulates and self._update is not None:
            self._update = self._update + self.workload.change()
        else:
            self._update = self.workload.change().copy()

    def contribute(self, task: int, lasting: bool) -> Vector:
        """What this site puts into a task; if it must be `lasting`, in memory of its own."""
        if self.shard is not None:
            if self._snapshot is None or self._snapshot[0] != self.version:
                self._snapshot = self.version, self.model.copy()
            return self._snapshot[1]
        if self.gives == "model":
            return self.model.copy() if lasting else self.model
        update = np.zeros_like(self.model) if self._update is None else self._update
        self._update = None
        self._given[task] = self.iteration, update
        return update

    def end(self, task: int, taken: bool) -> None:
        """Note that a task has ended; an update that it has not taken can be given again."""
        iteration, update = self._given.pop(task, (0, None))
        if taken or update is None:
            return
        if self.accumulates and self._update is not None:
            self._update = self._update + update
        elif self.accumulates or iteration == self.iteration:
            self._update = update

    def compare(self) -> float | None:
        """How similar the latest step is to what has come since; None if that is not known.

        It is the cosine of the angle between the step and the difference of the model to the one
        with which the step began. Each step is compared once.
        """
        if self._compared is None:
            return None
        (base, step), self._compared = self._compared, None
        moved = self.model - base
        norms = math.sqrt(_multiply(step, step) * _multiply(moved, moved))
        if not (norms and math.isfinite(norms)):
            return None
        return min(1.0, max(-1.0, _multiply(step, moved) / norms))

    def merge(self, result: Vector, roles: Roles | None) -> Merge | None:
        """Take over a result; returns how, unless it simply replaces a worker's model."""
        found = self._merge(result, roles)
        self._publish()
        return found

    def _merge(self, result: Vector, roles: Roles | None) -> Merge | None:
        if self.shard is None and (roles is None or not roles.merges):
            self.workload.install(result)
            return None
        base, step = self.model.copy(), result
        if roles is not None and roles.kept == "initial":
            if self.initial is None:
                raise AgentError("a task mixes in the initial model, but it was not kept")
            base = self.initial
        if roles is not None and roles.momentum and self._last_step is not None:
            step = np.float32(roles.momentum) * self._last_step + result
        self._last_step = step.copy()
        keep = 0.0 if roles is None else roles.keep
        model = np.float32(keep) * base + step if keep else step
        self.workload.install(model)
        self.version += 1
        return Merge(self.version, base, step, model)

    def _publish(self) -> None:
        if self.publish is not None:
            self.publish(self.model)


def _multiply(one: Vector, other: Vector) -> float:
    """The dot product, in float64; the rounding of `np.dot` depends on the processor."""
    return float(np.multiply(one, other, dtype=np.float64).sum())
