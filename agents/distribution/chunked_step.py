"""The time of a step whose plan hands chunks on as they arrive (pure).

The fluid model of tasks (`agents.planning.fluid`) tells when each chunk is where. A worker computes
as in `step.py`. That module moves whole messages instead, as the paper's equations do: it does not
describe a plan whose sites pass on chunk after chunk.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from trunkline.agents.distribution.step import compute_in_order
from trunkline.agents.planning.chunks import Chunking, cut_model, cut_tensors
from trunkline.agents.planning.fluid.agenda import Agenda
from trunkline.agents.planning.fluid.fluid_links import FluidLinks
from trunkline.agents.planning.fluid.fluid_overlay import FluidOverlay
from trunkline.agents.planning.fluid.fluid_tasks import FluidTask
from trunkline.agents.planning.plan import Chunks, Directed, Plan, PlanRequest
from trunkline.agents.planning.two_sided import restrict, share_model
from trunkline.workloads.layered.model import LayeredModel

MOST_CHUNKS = 200
"""A larger model is cut into about so many chunks, so that its simulation takes seconds at most."""

Values = tuple[tuple[Directed, float], ...]


@dataclass(frozen=True, slots=True)
class AskedHandOut:
    """All that decides how long a hand-out takes, as a key by which to remember a choice.

    Attributes:
        group: the servers and workers.
        servers: the sites that hold the model.
        layers: the model.
        chunk_bytes: the size of a chunk.
        rates_mbps: the rate of each link of the overlay.
        delays_ms: the one-way delay of each link of the overlay.
        paths: with routers, the links below each link of the overlay.
        link_mbps: the rates of these links.
        racks: the rack of each site that is in one.
    """

    group: tuple[str, ...]
    servers: tuple[str, ...]
    layers: LayeredModel
    chunk_bytes: int
    rates_mbps: Values
    delays_ms: Values
    paths: tuple[tuple[Directed, tuple[Directed, ...]], ...]
    link_mbps: Values
    racks: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, request: PlanRequest, held: Mapping[str, Chunks]) -> AskedHandOut | None:
        """What a request asks for; None if its model has no layers. `held` are the shards."""
        if request.layers is None or request.chunk_sizes is None:
            return None
        return cls(
            request.group,
            tuple(held),
            request.layers,
            max(request.chunk_sizes),
            tuple(request.rates_mbps.items()),
            tuple(request.delays_ms.items()),
            tuple((link, tuple(path)) for link, path in request.paths.items()),
            tuple(request.link_mbps.items()),
            tuple(request.racks.items()),
        )

    @property
    def workers(self) -> tuple[str, ...]:
        """The sites that compute."""
        return tuple(site for site in self.group if site not in self.servers)

    def to_request(self, cut: Chunking) -> PlanRequest:
        """The same request for a model that is cut in this way."""
        rates_mbps = dict(self.rates_mbps)
        return PlanRequest(
            self.group,
            tuple(dict.fromkeys((*self.group, *self.servers))),
            rates_mbps,
            dict(self.delays_ms),
            cut.count,
            random.Random(0),
            chunk_sizes=cut.sizes,
            shards=share_model(self.servers, cut),
            paths=dict(self.paths),
            link_mbps=dict(self.link_mbps),
            racks=dict(self.racks),
            layers=self.layers,
        )


@dataclass(frozen=True, slots=True)
class WorkerStep:
    """When a worker has the whole model, and ends its forward computation, in seconds."""

    arrived_s: float
    end_s: float


def compute_steps(
    asked: AskedHandOut, build: Callable[[PlanRequest], Plan]
) -> dict[str, WorkerStep]:
    """The step of each worker, from the start of the hand-out on; nothing slows workers down.

    `build` makes the plan.
    """
    layers = asked.layers
    sizes = tuple(branch.parameter_bytes for branch in layers.branches)
    chunk_bytes = max(asked.chunk_bytes, layers.parameter_bytes // MOST_CHUNKS)
    request = asked.to_request(cut_model(layers.parameter_bytes, chunk_bytes, sizes))
    plan = restrict(build(request), asked.servers, asked.workers, request.shards)
    task = FluidTask(plan, layers.parameter_bytes, chunk_bytes, tensor_bytes=sizes)
    arrived_s = _simulate(task, request)
    branches = cut_tensors(chunk_bytes, sizes)
    found = {}
    for site in asked.workers:
        there_s = [max(arrived_s[site][chunk] for chunk in chunks) for chunks in branches]
        *_, (_, _, end_s) = compute_in_order(layers, there_s)
        found[site] = WorkerStep(max(there_s), end_s)
    return found


def _simulate(task: FluidTask, request: PlanRequest) -> Mapping[str, Mapping[int, float]]:
    """When each chunk of a task is at each receiver: site -> chunk -> seconds."""
    agenda = Agenda()
    rates_mbps = request.link_mbps if request.paths else request.rates_mbps
    links = FluidLinks(agenda, rates_mbps, request.delays_ms, paths=request.paths or None)
    arrived_s: defaultdict[str, dict[int, float]] = defaultdict(dict)

    def arrived(site: str, chunk: int) -> None:
        arrived_s[site][chunk] = agenda.now_s

    FluidOverlay(links).start(task, lambda _: None, arrived=arrived)
    agenda.run()
    return arrived_s
