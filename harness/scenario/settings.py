"""The values of a scenario, valid by type, with the defaults of a file (pure)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from trunkline.agents.events.evaluation_events import Of
from trunkline.agents.planning.chunks import Chunking, cut_model
from trunkline.agents.planning.plan import Directed
from trunkline.agents.timing.site_clock import SiteClock
from trunkline.harness.background.flows import Background
from trunkline.harness.faults import trace_notes
from trunkline.harness.faults.timeline import Entry
from trunkline.harness.network.interface import NetworkOptions
from trunkline.harness.scenario.scheme_settings import PROGRAMS, Component, Count, Duration, Scheme
from trunkline.harness.scenario.sections import evaluation_notes
from trunkline.harness.scenario.sections.expectations import Expectation
from trunkline.harness.scenario.sections.limits import Limits
from trunkline.topologies.model import Topology
from trunkline.workloads.base import tensor_bytes_of
from trunkline.workloads.layered.model import LayeredModel
from trunkline.workloads.program_roles import Program, find_programs, list_targets

MAX_NAME = 64
MOST_ALONE = 32
"""The most sites that, by default, have a process each for Python code of the user."""
NAME_PATTERN = f"[A-Za-z0-9][A-Za-z0-9._-]{{0,{MAX_NAME - 1}}}"


def _folder_name(name: str) -> str:
    if not re.fullmatch(NAME_PATTERN, name):
        raise ValueError(
            "expected 1 to 64 of letters, digits, '.', '_' and '-', the first a letter or digit"
        )
    return name


Name = Annotated[
    str, AfterValidator(_folder_name), Field(json_schema_extra={"pattern": f"^{NAME_PATTERN}$"})
]
Seed = Annotated[int, Field(ge=0, le=2**63 - 1)]
Backend = Literal["embedded", "host"]
Clock = Literal["virtual", "real"]


CONDITIONS = ("rounds", "time", "tasks", "accuracy", "loss", "without_progress")
"""The keys of `stop` that end a run of agents."""


@dataclass(frozen=True, slots=True)
class Stop:
    """When a run ends: as soon as one of these conditions holds. None is not a condition.

    Options:
        rounds: every worker has done this number of rounds.
        time_s: this time has passed since the run's start.
        tasks: this number of tasks has begun; all of them still end, completed or not.
        accuracy_percent: the evaluated model has had this accuracy or more `in_a_row` times; see
            `evaluation`.
        loss: the evaluated model has had this loss or less `in_a_row` times.
        in_a_row: for how many evaluations in a row the accuracy or the loss must hold.
        without_progress: this number of evaluations in a row had no better accuracy than one
            before them.
        exit: for programs: all of them, or those of the listed sites, roles or names such as
            `n1.trainer`, have exited; the others are then told to end.
    """

    rounds: Count | None = None
    time_s: Duration | None = None
    tasks: Count | None = None
    accuracy_percent: Annotated[float, Field(gt=0, le=100)] | None = None
    loss: Annotated[float, Field(gt=0)] | None = None
    in_a_row: Count = 3
    without_progress: Count | None = None
    exit: Literal["all"] | tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        conditions = (field.name for field in fields(self) if field.name != "in_a_row")
        if all(getattr(self, name) is None for name in conditions):
            raise ValueError(f"expected at least one of {', '.join(CONDITIONS)}")

    @property
    def has_target(self) -> bool:
        """Whether the run stops at an accuracy or a loss."""
        return self.accuracy_percent is not None or self.loss is not None

    @property
    def is_evaluated(self) -> bool:
        """Whether evaluations may stop the run."""
        return self.has_target or self.without_progress is not None

    @property
    def ends_anyway(self) -> bool:
        """Whether agents end by rounds, time or tasks, too."""
        return any(each is not None for each in (self.rounds, self.time_s, self.tasks))


@dataclass(frozen=True, slots=True)
class Evaluations:
    """Which model is evaluated, and when; see docs/evaluation.md.

    Options:
        of: `server` is the model of the servers, `average` the mean of the models of all workers,
            `member` the model of the first worker; by default that of the servers if the policy
            uses servers, and the average otherwise.
        every_s: the time between two evaluations; the first one is after this time.
    """

    of: Of | None = None
    every_s: Duration = 1.0


@dataclass(frozen=True, slots=True)
class WarmUp:
    """The beginning of a run, which its results do not count; see docs/report.md.

    Options:
        tasks: this number of tasks; the results begin with the start of the next task.
        time_s: this time since the run's start.
    """

    tasks: Count | None = None
    time_s: Duration | None = None

    def __post_init__(self) -> None:
        if self.tasks is not None and self.time_s is not None:
            raise ValueError("expected tasks or time")

    @property
    def unit(self) -> str | None:
        """The key of `stop` that counts in the same unit; None without a warm-up."""
        return "tasks" if self.tasks is not None else "time" if self.time_s is not None else None


@dataclass(frozen=True, slots=True)
class Failover:
    """When a silent agent counts as lost, and how the others react.

    Times of None are derived from the topology.

    Options:
        heartbeat_s: the interval of heartbeats on every connection.
        timeout_s: a connection that is silent for this time is lost.
        backup: the site of a second controller, which acts while the first one is silent; not the
            first one's site.
        replans: how many times a task may be planned anew.
    """

    heartbeat_s: Duration | None = None
    timeout_s: Duration | None = None
    backup: str | None = None
    replans: Annotated[int, Field(ge=0, le=100)] = 2


@dataclass(frozen=True, slots=True)
class Agents:
    """How the agents of sites are spread over processes; see docs/scale.md.

    Options:
        per_process: how many sites share a process; `all` is all of them. By default, all sites
            share one on the virtual clock; with up to 32 sites and Python code of your own, and on
            the real clock, each site has its own.
    """

    per_process: Count | Literal["all"] | None = None


@dataclass(frozen=True, slots=True)
class Files:
    """Which of your files a run shares with you; see docs/programs.md.

    Options:
        private: the run has `/tmp` and `/dev/shm` of its own and, in the embedded kernel, cannot
            write your files; with `false`, it shares your `/tmp` and has your rights to all files.
        writable: folders that a private run may write besides its own one, relative to the
            scenario's file.
    """

    private: bool = True
    writable: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Outputs:
    """The outputs of a run besides its events and tables.

    Options:
        plots: whether the run draws figures.
    """

    plots: bool = True


@dataclass(frozen=True, slots=True)
class Capture:
    """Packet captures; see docs/networks.md.

    Options:
        links: the links whose packets are captured: `a <-> b` or `a-b`, for one direction `a -> b`;
            `all` is all links.
        snap_bytes: how many bytes of each packet are kept, from its Ethernet header on.
    """

    links: tuple[str, ...] | Literal["all"] = ()
    snap_bytes: Annotated[int, Field(ge=1, le=262144)] = 96

    @property
    def ends(self) -> tuple[Directed, ...]:
        """The directed links (src, dst), if all of `links` are of the form `a -> b`."""
        found = (name.split(" -> ") for name in self.links)
        return tuple((src, dst) for src, dst in found)


@dataclass(frozen=True)
class Scenario:
    """A complete scenario: everything that a run needs.

    `overrides` are the changes of the command line, which are in all other values already. They are
    noted for people, and no part of what makes two scenarios equal.
    """

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
    evaluation: Evaluations
    warm_up: WarmUp
    failover: Failover
    agents: Agents
    limits: Limits
    timeline: tuple[Entry, ...]
    background: tuple[Background, ...]
    files: Files
    outputs: Outputs
    capture: Capture
    expect: tuple[Expectation, ...]
    code: Mapping[str, str]
    overrides: tuple[str, ...] = field(default=(), compare=False)

    @property
    def begin(self) -> str:
        """With what the clock of the timeline and of the shell begins."""
        return "programs" if self.runs_programs else "first task"

    @property
    def runs_programs(self) -> bool:
        """Whether sites run programs, without agents and controller."""
        return self.scheme == PROGRAMS

    @cached_property
    def programs(self) -> Mapping[str, Program]:
        """The programs by name, in the order of ranks; none if agents run."""
        if not self.runs_programs:
            return {}
        placed: Mapping[str, Program] = self.workload.module.place_programs(
            self.topology.site_names, self.workload.options, self.seed
        )
        return placed

    @property
    def agents_per_process(self) -> int:
        """How many sites have their agents in one process."""
        wanted, sites = self.agents.per_process, len(self.topology.site_names)
        if wanted is None:
            may_crash = bool(self.code) and sites <= MOST_ALONE
            wanted = 1 if may_crash or self.clock == "real" else "all"
        return sites if wanted == "all" else wanted

    @property
    def parties(self) -> int:
        """How many programs the run waits for, or how many sites compute."""
        return len(self.awaited) if self.runs_programs else len(self.workers)

    @property
    def awaited(self) -> tuple[str, ...]:
        """The programs whose exit ends the run."""
        programs = self.programs
        names = self.stop.exit if isinstance(self.stop.exit, tuple) else tuple(programs)
        return tuple(
            dict.fromkeys(each for name in names for each in find_programs(programs, name))
        )

    @property
    def targets(self) -> Mapping[str, tuple[str, ...]] | None:
        """What faults may stop, and the programs that each name means; None if agents run."""
        return list_targets(self.programs) if self.runs_programs else None

    @property
    def whole_stop(self) -> Stop:
        """When the run ends, counted from its start: `stop` counts from the end of the warm-up."""
        stop, warm_up = self.stop, self.warm_up
        tasks = stop.tasks and stop.tasks + (warm_up.tasks or 0)
        time_s = stop.time_s and stop.time_s + (warm_up.time_s or 0.0)
        return replace(stop, tasks=tasks, time_s=time_s)

    @property
    def evaluated(self) -> tuple[str, ...]:
        """The sites whose models are evaluated; none if the workload has no accuracy."""
        if self.evaluation.of is None:
            return ()
        return self.scheme.servers if self.evaluation.of == "server" else self.workers

    @property
    def notes(self) -> tuple[str, ...]:
        """What a user should know about files of networks, traces and targets."""
        ends = {"limits.run": self.limits.run_s, "stop.time": self.whole_stop.time_s}
        of_traces = trace_notes.list_notes(self.timeline, ends)
        of_evaluations = evaluation_notes.list_notes(self.stop, self.evaluation, ends)
        return (*self.topology.notes, *of_traces, *of_evaluations)

    @cached_property
    def workers(self) -> tuple[str, ...]:
        """The sites that compute: all but the servers."""
        return tuple(s for s in self.topology.site_names if s not in self.scheme.servers)

    def worker_rank(self, site: str) -> int:
        """The place of a site among the workers, for its workload; a server has the first one's."""
        return 0 if site in self.scheme.servers else self.workers.index(site)

    @property
    def model_bytes(self) -> int:
        """The size in bytes of one contribution."""
        size: int = self.workload.module.model_bytes(**self.workload.options)
        return size

    @property
    def tensor_bytes(self) -> tuple[int, ...]:
        """The sizes in bytes of the model's tensors; empty for a model that is one array."""
        return tensor_bytes_of(self.workload.module, self.workload.options)

    @property
    def layers(self) -> LayeredModel | None:
        """The model as bases with branches; None if the workload does not have them."""
        layers = getattr(self.workload.module, "layers", None)
        found: LayeredModel | None = layers and layers(**self.workload.options)
        return found

    @property
    def samples(self) -> Callable[[int | None], int] | None:
        """The samples of an iteration with this batch, or with the workload's own for None.

        None for a workload without a batch.
        """
        options = self.workload.options
        own = options.get("batch")
        steps = options.get("local_steps", 1)
        if self.runs_programs or not (isinstance(own, int) and isinstance(steps, int)):
            return None
        return lambda batch: steps * (own if batch is None else batch)

    @property
    def cut(self) -> Chunking:
        """The chunks of the model, with sizes in bytes."""
        return cut_model(self.model_bytes, self.scheme.chunk_bytes, self.tensor_bytes)


@dataclass(frozen=True, slots=True)
class TimelineEntry:
    """A fault at a time.

    Options:
        do: the text of a fault, see docs/timeline.md.
        at_s: its time, from the start of the first task.
    """

    do: str
    at_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Controller:
    """Where the controller runs.

    Options:
        site: the site of the controller; by default the first site.
    """

    site: str | None = None


_NETWORK, _LIMITS = NetworkOptions(), Limits()


@dataclass(frozen=True, slots=True)
class Basics:
    """The keys of a file that do not depend on the components.

    Options:
        stop: when the run ends; with a warm-up, counted from its end.
        evaluation: which model is evaluated, and when, if the workload has an accuracy.
        warm_up: the beginning of the run, which its results do not count; by default nothing.
        name: the name of the scenario and of its run folders; by default that of the file.
        description: one line for `trunkline list scenarios`.
        seed: the seed of all random values; `--seed` changes it.
        backend: the kernel of the network: the embedded kernel, or that of this host.
        clock: virtual or real time; by default virtual in the embedded kernel, real on the host.
        clocks: the errors of the sites' own clocks: site -> error.
        network: settings of all sites and links.
        controller: where the controller runs.
        failover: when a silent agent counts as lost, and how the others react.
        agents: how the agents of sites are spread over processes.
        limits: how long tasks and the run may take.
        background: traffic of others between sites.
        files: which of your files the run shares with you.
        outputs: the outputs of a run besides its events and tables.
        capture: the links whose packets are captured.
        expect: what must be true of the run, or its verdict is `fail`.
        code: the text of Python files that the scenario names; by default they are read from the
            scenario's folder.
    """

    stop: Stop
    evaluation: Evaluations = Evaluations()
    warm_up: WarmUp = WarmUp()
    name: Name = "scenario"
    description: str = ""
    seed: Seed = 1
    backend: Backend = "embedded"
    clock: Clock | None = None
    clocks: Mapping[str, SiteClock] | None = None
    network: NetworkOptions = _NETWORK
    controller: Controller = Controller()
    failover: Failover = Failover()
    agents: Agents = Agents()
    limits: Limits = _LIMITS
    background: tuple[Background, ...] = ()
    files: Files = Files()
    outputs: Outputs = Outputs()
    capture: Capture = Capture()
    expect: tuple[Expectation, ...] = ()
    code: Mapping[str, str] | None = None
