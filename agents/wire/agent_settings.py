"""What the agents of a run are told when they start, and share with whoever starts them (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from trunkline.agents.planning.auxiliary_paths import Bounds
from trunkline.agents.planning.chunks import Chunking, cut_model
from trunkline.agents.planning.plan import Directed
from trunkline.agents.wire.liveness import Failover
from trunkline.agents.wire.site_clock import SiteClock

TASKS_PER_CONTROLLER = 1_000_000
"""Each controller numbers its tasks in a range of its own."""


def remember(last_tasks: dict[int, int], task: int) -> None:
    """Keep the latest task of each controller, by its rank, for whoever goes on counting."""
    rank = task // TASKS_PER_CONTROLLER
    last_tasks[rank] = max(task, last_tasks.get(rank, task))


class AgentError(Exception):
    """The run cannot go on; the message says why."""


@dataclass(frozen=True, slots=True)
class Probing:
    """How sites measure their links: by chunks of more than `chunk_bytes`, `count` at a time.

    `payload_share` is the part of a link's rate that chunks can get; rates are given as links'.
    Every `sync_s` a site asks for the time; None leaves clocks as they are.
    """

    estimator: str
    chunk_bytes: int
    count: int
    payload_share: float = 1.0
    sync_s: float | None = None


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """What a worker must know beside its sockets.

    `rounds` limits how many iterations it does, from `first_iteration` on, in the `lives`-th life
    after the first, of which it knows the `last_tasks`; it calls its neighbours of higher rank
    among `neighbours`, and `controllers` in this order.
    `discipline` names the order in which its links serve their flows. With `probing` it measures
    them, by its `clock`; with `auxiliary` bounds it uses auxiliary paths. The model is of
    tensors of these sizes, or of one.
    """

    site: str
    sites: tuple[str, ...]
    chunk_bytes: int
    rounds: int | None
    neighbours: tuple[str, ...] = ()
    controllers: tuple[str, ...] = ("controller",)
    failover: Failover = field(default_factory=Failover)
    first_iteration: int = 0
    lives: int = 0
    discipline: str = "fcfs"
    last_tasks: tuple[int, ...] = ()
    probing: Probing | None = None
    clock: SiteClock = field(default_factory=SiteClock)
    auxiliary: Bounds | None = None
    tensor_bytes: tuple[int, ...] = ()

    @property
    def callees(self) -> tuple[str, ...]:
        """The neighbours that this site calls; the others call it."""
        rank = self.sites.index
        return tuple(site for site in self.neighbours if rank(site) > rank(self.site))


@dataclass(frozen=True, slots=True)
class ControllerSettings:
    """The run as the controller needs it; `seed` decides all that plans leave to chance.

    `time_s`, `tasks` and `accuracy_percent` are the stop conditions that it watches (the workers
    count their own rounds); `task_s` is the budget of one task. `rank` is 0 for the controller
    that starts the run, and numbers those that may take over. No number up to the `last_tasks`, one
    of each controller that was in charge before, is given to a task again. Plans take over new
    rates every `update_s`, if one differs by the share `update_threshold` or more; with
    `follows_measured` these are what the workers have measured. It tells `time_roots` sites the
    time, by its `clock`, and with `auxiliary` all workers of auxiliary paths. `tensor_bytes` are as
    the workers'.
    """

    sites: tuple[str, ...]
    rates_mbps: Mapping[Directed, float]
    delays_ms: Mapping[Directed, float]
    model_bytes: int
    chunk_bytes: int
    seed: int
    policy_name: str
    plan_name: str
    task_s: float
    time_s: float | None = None
    tasks: int | None = None
    accuracy_percent: float | None = None
    failover: Failover = field(default_factory=Failover)
    rank: int = 0
    last_tasks: tuple[int, ...] = ()
    update_s: float = 5.0
    update_threshold: float = 0.0
    follows_measured: bool = False
    time_roots: int = 0
    clock: SiteClock = field(default_factory=SiteClock)
    auxiliary: bool = False
    tensor_bytes: tuple[int, ...] = ()

    @property
    def cut(self) -> Chunking:
        """The model's chunks, in bytes."""
        return cut_model(self.model_bytes, self.chunk_bytes, self.tensor_bytes)
