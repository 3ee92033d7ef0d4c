"""The settings with which a run starts its agents (pure)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from trunkline.agents.planning.auxiliary_paths import Bounds
from trunkline.agents.planning.chunks import Chunking, cut_model
from trunkline.agents.planning.plan import Chunks, Directed
from trunkline.agents.planning.two_sided import share_model
from trunkline.agents.policies.policy import Gives
from trunkline.agents.timing.site_clock import SiteClock
from trunkline.agents.wire.failover import Failover
from trunkline.workloads.base import ELEMENT_BYTES
from trunkline.workloads.layered.model import LayeredModel

TASKS_PER_CONTROLLER = 1_000_000
"""The size of each controller's own range of task numbers."""


class AgentError(Exception):
    """The run cannot continue; the message says why."""


@dataclass(frozen=True, slots=True)
class Probing:
    """How sites measure their links.

    Each measurement uses `count` chunks larger than `chunk_bytes`. `payload_share` is the share of
    a link's rate that is left for payload; measured rates are divided by it. Sites ask for the time
    every `sync_s` seconds; with None, clocks are not synchronized.
    """

    estimator: str
    chunk_bytes: int
    count: int
    payload_share: float = 1.0
    sync_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    """A worker's settings, besides its sockets.

    rounds: the iteration at which the worker ends; None for no limit.
    neighbours: all neighbours; the worker dials those of higher rank.
    controllers: the controllers in the order in which the worker dials them.
    first_iteration: the first iteration of this process; not 0 if earlier processes did some.
    lives: how many processes of this worker were started before this one.
    discipline: the order in which links serve their flows.
    probing: how to measure links, with the site's `clock`; None for no measurements.
    auxiliary: the bounds for auxiliary paths; None for no such paths.
    tensor_bytes: the sizes of the model's tensors; empty for a single tensor.
    servers: the sites that hold the model and compute nothing.
    gives: what workers contribute, their model or the update of an iteration (`Traits`).
    accumulates: whether an update that no task took is added to the next one.
    keeps_initial: whether tasks may mix in the model with which this site began.
    compares: whether this site compares its steps with the models that it gets.
    connections: how many sockets, or lanes, the connection to a neighbour has.
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
    probing: Probing | None = None
    clock: SiteClock = field(default_factory=SiteClock)
    auxiliary: Bounds | None = None
    tensor_bytes: tuple[int, ...] = ()
    servers: tuple[str, ...] = ()
    gives: Gives = "model"
    accumulates: bool = False
    keeps_initial: bool = False
    compares: bool = False
    connections: int = 1

    def cut(self, elements: int) -> Chunking:
        """The chunks of a model with so many elements, in elements."""
        tensors = tuple(size // ELEMENT_BYTES for size in self.tensor_bytes)
        return cut_model(elements, self.chunk_bytes // ELEMENT_BYTES, tensors)

    @property
    def is_server(self) -> bool:
        """Whether this site is a server."""
        return self.site in self.servers

    @property
    def callees(self) -> tuple[str, ...]:
        """The neighbours that this site calls; the others call it."""
        rank = self.sites.index
        return tuple(site for site in self.neighbours if rank(site) > rank(self.site))


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerSettings:
    """A controller's settings.

    seed: the seed of all random choices of plans.
    task_s: the budget of one task.
    time_s, tasks: the stop conditions of the controller; workers count rounds.
    rank: 0 for the controller that starts the run, 1 for the backup.
    next_task: the number after this controller's last task; 0 if it has started none.
    update_s: how often plans take over new rates.
    update_threshold: the share by which a rate must differ for that.
    follows_measured: whether plans use the rates that workers measure.
    time_roots: how many sites ask the controller for the time, which has its own `clock`.
    auxiliary: whether the controller gives workers auxiliary paths.
    tensor_bytes: the sizes of the model's tensors, as in `WorkerSettings`.
    servers: the sites that hold the model and compute nothing.
    paths: with routers, the links of the underlay below each link of the overlay.
    link_mbps: the rate of each link of the underlay.
    racks: the rack of each site that is in one.
    layers: the model as bases with branches, if the workload has them.
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
    failover: Failover = field(default_factory=Failover)
    rank: int = 0
    next_task: int = 0
    update_s: float = 5.0
    update_threshold: float = 0.0
    follows_measured: bool = False
    time_roots: int = 0
    clock: SiteClock = field(default_factory=SiteClock)
    auxiliary: bool = False
    tensor_bytes: tuple[int, ...] = ()
    servers: tuple[str, ...] = ()
    paths: Mapping[Directed, Sequence[Directed]] = field(default_factory=dict)
    link_mbps: Mapping[Directed, float] = field(default_factory=dict)
    racks: Mapping[str, str] = field(default_factory=dict)
    layers: LayeredModel | None = None

    @property
    def cut(self) -> Chunking:
        """The model's chunks, in bytes."""
        return cut_model(self.model_bytes, self.chunk_bytes, self.tensor_bytes)

    @property
    def shards(self) -> Mapping[str, Chunks]:
        """The chunks that each server holds."""
        return share_model(self.servers, self.cut)

    @property
    def workers(self) -> tuple[str, ...]:
        """The sites that compute."""
        return tuple(site for site in self.sites if site not in self.servers)

    @property
    def term(self) -> int:
        """The number of this controller's next task.

        Terms in which a controller acts differ in it, unless the one before started no task.
        """
        return max(self.next_task, self.rank * TASKS_PER_CONTROLLER)
