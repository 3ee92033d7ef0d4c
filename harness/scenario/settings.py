"""What a scenario says, as values that are valid by type, with the defaults of a file (pure)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from trunkline.agents.planning.auxiliary_paths import Bounds
from trunkline.agents.planning.chunks import Chunking, cut_model
from trunkline.agents.wire.site_clock import SiteClock
from trunkline.harness.faults.timeline import Entry
from trunkline.harness.network.interface import NetworkOptions
from trunkline.topologies.model import Topology
from trunkline.workloads.base import tensor_bytes_of

MAX_NAME = 64
NAME_PATTERN = f"[A-Za-z0-9][A-Za-z0-9._-]{{0,{MAX_NAME - 1}}}"


def _folder_name(name: str) -> str:
    if not re.fullmatch(NAME_PATTERN, name):
        raise ValueError(
            "allowed is 1 to 64 of letters, digits, '.', '_' and '-', the first a letter or digit"
        )
    return name


Name = Annotated[
    str,
    AfterValidator(_folder_name),
    Field(json_schema_extra={"pattern": f"^{NAME_PATTERN}$"}),
]
Seed = Annotated[int, Field(ge=0, le=2**63 - 1)]
Backend = Literal["embedded", "host"]
Clock = Literal["virtual", "real"]
Count = Annotated[int, Field(ge=1)]
Duration = Annotated[float, Field(gt=0)]


@dataclass(frozen=True, slots=True)
class Component:
    """An extension by the name of its file, with all of its options by their Python names.

    `module` is what the file defines; two components are equal if their names and options are.
    """

    kind: str
    options: Mapping[str, Any]
    module: Any = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Awareness:
    """How sites measure their links by the chunks that cross them (NetStorm, Section V).

    Options:
        estimator: how chunks give a rate; docs/awareness.md has the formulas.
        probe_chunk_bytes: only larger chunks count; by default half of the scheme's chunk.
        probe_count: so many chunks give one rate.
        sync_s: how often each site asks for the time.
        sync_roots: so many sites, the best connected, ask the controller; the others one that is
            nearer to them.
    """

    estimator: Literal["one_way_min_delay", "one_way", "round_trip"] = "one_way_min_delay"
    probe_chunk_bytes: int | None = None
    probe_count: Count = 4
    sync_s: Duration | Literal["off"] = 1.0
    sync_roots: Count = 1


@dataclass(frozen=True, slots=True)
class Auxiliary:
    """Chunks may take auxiliary paths (NetStorm, Section VI).

    Options:
        busy_bound: one is used when more chunks than this are on the primary path,
        queue_length: as long as fewer than this are on it.
    """

    busy_bound: Annotated[int, Field(ge=0)] = 2
    queue_length: Count = 1

    @property
    def bounds(self) -> Bounds:
        """The same for the agents."""
        return Bounds(self.busy_bound, self.queue_length)


@dataclass(frozen=True, slots=True)
class Scheme:
    """Who synchronizes with whom (policy), how the bytes move (plan), and what both leave open.

    Options:
        policy: who synchronizes with whom, and when.
        plan: how the bytes of one synchronization move.
        chunk_bytes: the unit of transfer and of addition.
        discipline: the order in which a link serves its flows.
        scatter: with `non-blocking` a site that is ready sends by the plan's default split, before
            its group is known.
        rate_error_percent: by how much the rates that plans go by may be off.
        rates: what plans go by; measured ones where there are any.
        awareness: how sites measure their links; by default they do where plans go by it, and
            `null` is the same.
        update_s: how often plans take over the latest measurements,
        update_rate_percent: if one has changed by so much.
        auxiliary: chunks may go around an edge of the plan; `null`: they may not.
    """

    policy: Component
    plan: Component
    chunk_bytes: int = 256 * 1024
    discipline: Literal["fcfs", "fair", "task-fcfs", "C1", "C2"] = "fcfs"
    scatter: Literal["blocking", "non-blocking"] = "blocking"
    rate_error_percent: Annotated[float, Field(ge=0, lt=100)] = 0.0
    rates: Literal["configured", "measured"] = "configured"
    awareness: Awareness | None = None
    update_s: Duration = 5.0
    update_rate_percent: Annotated[float, Field(ge=0)] = 0.0
    auxiliary: Auxiliary | None = None

    @property
    def bounds(self) -> Bounds | None:
        """Those of auxiliary paths, if there are any."""
        return self.auxiliary.bounds if self.auxiliary else None


PROGRAMS = Scheme(Component("program", {}), Component("program", {}), 0)
"""The scheme of a scenario whose sites run programs: how they synchronize is up to them."""


@dataclass(frozen=True, slots=True)
class Stop:
    """When a run ends: at the first of these that is reached; None never is.

    Options:
        rounds: every worker has done so many.
        time_s: after the run's start.
        tasks: so many were completed in the whole run.
        accuracy_percent: an evaluation reached it.
        exit: of programs: those at all sites, or at these, have exited; others are then told to
            end.
    """

    rounds: Count | None = None
    time_s: Duration | None = None
    tasks: Count | None = None
    accuracy_percent: Annotated[float, Field(gt=0, le=100)] | None = None
    exit: Literal["all"] | tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if all(getattr(self, field.name) is None for field in fields(self)):
            raise ValueError("allowed is at least one of rounds, time, tasks, accuracy")


@dataclass(frozen=True, slots=True)
class Limits:
    """Budgets in the scenario's clock.

    Options:
        task_s: a task that takes longer is given up; by default at most the run's.
        run_s: a run that takes longer is ended, and has failed.
        recovery_s: a run with a timeline ends with everything mended; then all agents have to be
            done within this time.
    """

    task_s: Duration = 600.0
    run_s: Duration = 3600.0
    recovery_s: Duration = 600.0


@dataclass(frozen=True, slots=True)
class Failover:
    """How soon a silent agent is given up, and what then.

    What is None is derived from the topology.

    Options:
        heartbeat_s: every connection carries a sign of life so often.
        timeout_s: a connection that is silent for so long is lost.
        backup: the site of a second controller, which takes over while the first is silent.
        replans: how often a task may be planned anew.
    """

    heartbeat_s: Duration | None = None
    timeout_s: Duration | None = None
    backup: str | None = None
    replans: Annotated[int, Field(ge=0, le=100)] = 2


@dataclass(frozen=True, slots=True)
class Outputs:
    """What a run leaves behind besides its events and tables.

    Options:
        plots: whether it draws figures.
    """

    plots: bool = True


@dataclass(frozen=True, slots=True)
class Scenario:
    """Everything that a run needs to know."""

    name: str
    description: str
    seed: int
    backend: Backend
    clock: Clock
    clocks: Mapping[str, SiteClock]
    topology: Topology
    network: NetworkOptions
    workload: Component
    scheme: Scheme
    controller_site: str
    stop: Stop
    failover: Failover
    limits: Limits
    timeline: tuple[Entry, ...]
    outputs: Outputs
    code: Mapping[str, str]

    @property
    def runs_programs(self) -> bool:
        """Whether sites run commands of the scenario's own, without agents and controller."""
        return self.scheme == PROGRAMS

    @property
    def model_bytes(self) -> int:
        """The size of what a site contributes."""
        size: int = self.workload.module.model_bytes(**self.workload.options)
        return size

    @property
    def tensor_bytes(self) -> tuple[int, ...]:
        """The sizes of the model's tensors; none where it is one array."""
        return tensor_bytes_of(self.workload.module, self.workload.options)

    @property
    def cut(self) -> Chunking:
        """The model's chunks, in bytes."""
        return cut_model(self.model_bytes, self.scheme.chunk_bytes, self.tensor_bytes)


@dataclass(frozen=True, slots=True)
class TimelineEntry:
    """A fault or a change of links.

    Options:
        do: what happens, in the words of docs/timeline.md.
        at_s: after the start of the first task.
    """

    do: str
    at_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Controller:
    """Where the controller runs.

    Options:
        site: its site; by default the first one.
    """

    site: str | None = None


_NETWORK = NetworkOptions()


@dataclass(frozen=True, slots=True)
class Basics:
    """The keys of a file that mean the same for every component.

    Options:
        stop: when the run ends.
        name: what its runs are called; by default the file's name, if it has one.
        description: one line for `trunkline list scenarios`.
        seed: decides everything random; `--seed` changes it.
        backend: where the network is: in the embedded kernel, or in that of this host.
        clock: what time is; by default virtual in the embedded kernel, real on the host.
        clocks: sites whose own clocks are wrong: site -> how.
        network: what holds for every site and link.
        controller: where the controller runs.
        failover: how soon a silent agent is given up, and what then.
        limits: how long tasks and the run may take.
        outputs: what a run leaves behind besides its events and tables.
        code: the text of Python files that the scenario names; by default they are read from where
            the scenario is.
    """

    stop: Stop
    name: Name = "scenario"
    description: str = ""
    seed: Seed = 1
    backend: Backend = "embedded"
    clock: Clock | None = None
    clocks: Mapping[str, SiteClock] | None = None
    network: NetworkOptions = _NETWORK
    controller: Controller = Controller()
    failover: Failover = Failover()
    limits: Limits = Limits()
    outputs: Outputs = Outputs()
    code: Mapping[str, str] | None = None
