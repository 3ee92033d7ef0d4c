"""What the checks know of a run's scenario: the scenario, and what is computed from it (pure)."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from trunkline.agents.control.planner import Planner
from trunkline.agents.events.event import BACKUP, CONTROLLER
from trunkline.agents.events.run_events import RunStarted
from trunkline.agents.policies.policy import Policy, Traits
from trunkline.harness.background.flows import Flow, list_flows, schedule
from trunkline.harness.checks import model_replay
from trunkline.harness.checks.model_replay import Replay, Source, replay
from trunkline.harness.network.interface import ETHERNET_HEADER_BYTES
from trunkline.harness.record.history import History, Task
from trunkline.harness.scenario.failover_timeouts import make_failover
from trunkline.harness.scenario.header import make_header
from trunkline.harness.scenario.planning import create_driver, create_policy
from trunkline.harness.scenario.settings import Scenario, Stop
from trunkline.topologies.model import Topology
from trunkline.workloads.base import (
    ELEMENT_BYTES,
    Order,
    Term,
    Vector,
    describe,
    digest,
    gives_changes,
)
from trunkline.workloads.layered.model import LayeredModel
from trunkline.workloads.program_roles import Program


@dataclass(frozen=True)
class Rules:
    """A scenario, and what is computed from it for the checks.

    What has a default of None is not known of every run: checks then judge nothing of it.

    Attributes:
        detection_s: seconds within which a loss is noticed, and the connection made again.
        timeout_s: seconds within which a message arrives over a working connection.
        traits: what the policy declares about itself.
        started: the header that the run's log must have.
        expected_digest: the exact digest of a task's result, for workloads whose inputs have a
            closed form. It returns None if the order of the additions is not known.
        expected_input: the digest and the fingerprint of a site's contribution in an iteration, for
            the same workloads.
        replay: what the models of all sites were, for these workloads.
        compute_s: the modelled seconds of a site's iteration, also of another batch.
        layers: the branches of an iteration of a site, as with `compute_s`.
        policy: creates the policy for a term of a controller.
        planner: creates the planner of a controller.
    """

    scenario: Scenario
    detection_s: float = 0.0
    timeout_s: float = 0.0
    traits: Traits = field(default_factory=Traits)
    started: RunStarted | None = None
    expected_digest: Callable[[Task], str | None] | None = None
    expected_input: Callable[[str, int], tuple[str, tuple[float, ...]]] | None = None
    replay: Callable[[History], Replay] | None = None
    compute_s: Callable[..., float] | None = None
    layers: Callable[..., LayeredModel] | None = None
    policy: Callable[[int], Policy] | None = None
    planner: Callable[[], Planner] | None = None

    @classmethod
    def of(cls, scenario: Scenario) -> Rules:
        """All that follows from a scenario."""
        failover = make_failover(scenario)
        agents_run = not scenario.runs_programs
        traits = Traits.of(create_policy(scenario)) if agents_run else Traits()
        return cls(
            scenario,
            detection_s=failover.patience_s,
            timeout_s=failover.timeout_s,
            traits=traits,
            started=make_header(scenario),
            expected_digest=_make_expected_digest(scenario),
            expected_input=_make_expected_input(scenario),
            replay=_make_replay(scenario, traits),
            compute_s=make_compute_s(scenario),
            layers=_make_layers(scenario),
            policy=functools.partial(create_policy, scenario) if agents_run else None,
            planner=(lambda: create_driver(scenario).planner) if agents_run else None,
        )

    @property
    def topology(self) -> Topology:
        """The sites and links."""
        return self.scenario.topology

    @property
    def task_s(self) -> float:
        """A task's budget in seconds."""
        return self.scenario.limits.task_s

    @property
    def stop(self) -> Stop:
        """When the run ends, counted from its start."""
        return self.scenario.whole_stop

    @property
    def servers(self) -> tuple[str, ...]:
        """The sites that hold a model for others and compute nothing."""
        return self.scenario.scheme.servers

    @cached_property
    def programs(self) -> Mapping[str, Program] | None:
        """The scenario's own programs by name; None if agents run."""
        return self.scenario.programs if self.scenario.runs_programs else None

    @cached_property
    def program_sites(self) -> tuple[str, ...]:
        """The sites that run programs."""
        return tuple(dict.fromkeys(each.site for each in self.scenario.programs.values()))

    @property
    def controllers(self) -> Mapping[str, str]:
        """The sites of the controller and, if there is one, of the backup, by name."""
        if self.scenario.runs_programs:
            return {}
        backup = self.scenario.failover.backup
        return {CONTROLLER: self.scenario.controller_site, **({BACKUP: backup} if backup else {})}

    @cached_property
    def flows(self) -> tuple[Flow, ...]:
        """The background traffic."""
        return list_flows(self.scenario.background)

    def schedule(self, flow: Flow) -> Iterator[tuple[int, int]]:
        """When a flow of background traffic sends (ns), and how many bytes."""
        return schedule(flow, seed=self.scenario.seed, mtu=self.scenario.network.mtu)

    @property
    def barrier(self) -> bool:
        """Whether a task begins only when all of its members are ready."""
        return bool(self.scenario.scheme.policy.options.get("barrier", True))

    @property
    def times_calls(self) -> bool:
        """Whether the programs' calls of `torch.distributed` are timed."""
        options = self.scenario.workload.options
        return self.scenario.runs_programs and bool(options.get("time_calls"))

    @property
    def gives_updates(self) -> bool:
        """Whether workers contribute what an iteration adds, not their model."""
        return self.traits.gives == "update"

    @property
    def keeps_windows(self) -> bool:
        """Whether a TCP connection that was used finds its window open again."""
        network = self.scenario.network
        is_cubic = network.congestion_control == "cubic"
        return is_cubic and network.connections == 1 and not network.slow_start_after_idle

    @property
    def frame_bytes(self) -> int:
        """The largest frame that an interface counts, with offloads several packets at once."""
        network = self.scenario.network
        return (65_536 if network.offloads else network.mtu) + ETHERNET_HEADER_BYTES


def _make_replay(scenario: Scenario, traits: Traits) -> Callable[[History], Replay] | None:
    """A function that computes the vectors of a run again; it remembers the last run.

    None unless the workload's contributions have a closed form (`expected`) that only `commit` puts
    into its model.
    """
    kind = scenario.workload.module
    if not hasattr(kind, "expected") or not gives_changes(kind):
        return None
    elements = scenario.model_bytes // ELEMENT_BYTES

    def make_pattern(site: str, iteration: int) -> Vector:
        term = Term(scenario.worker_rank(site), iteration, 1.0)
        pattern: Vector = kind.expected(scenario.seed, [(((0, elements),), (term,))], 1.0, elements)
        return pattern

    source = Source(
        elements,
        make_pattern,
        lambda vector: describe(vector, scenario.scheme.chunk_bytes),
        kind.is_exact,
        scenario.workers,
        traits.gives == "update",
        traits.accumulates,
    )
    last: list[tuple[History, Replay]] = []

    def of_run(history: History) -> Replay:
        if not last or last[0][0] is not history:
            last[:] = [(history, replay(history, source))]
        return last[0][1]

    return of_run


def make_compute_s(scenario: Scenario) -> Callable[..., float] | None:
    """A function that gives the modelled seconds of a site's iteration, also of another batch.

    None unless the workload knows them before the run (`compute_times`).
    """
    if scenario.runs_programs or not hasattr(scenario.workload.module, "compute_times"):
        return None
    times = _make_times(scenario)
    return lambda site, iteration, *batch: float(times(site).time_s(iteration, *batch))


def _make_layers(scenario: Scenario) -> Callable[..., LayeredModel] | None:
    """A function that gives the branches of a site's iteration; None if it has none."""
    if scenario.layers is None:
        return None
    times = _make_times(scenario)
    return functools.cache(lambda site, iteration, *batch: times(site).layers(iteration, *batch))


def _make_times(scenario: Scenario) -> Callable[[str], Any]:
    """A function that gives what a workload knows of a site's iterations before the run."""

    @functools.cache
    def times(site: str) -> Any:
        place = scenario.worker_rank(site), scenario.workers, scenario.seed
        return scenario.workload.module.compute_times(*place, **scenario.workload.options)

    return times


def _make_expected_input(
    scenario: Scenario,
) -> Callable[[str, int], tuple[str, tuple[float, ...]]] | None:
    """A function that gives the digest and the fingerprint of a site's contribution.

    None unless the workload's contributions have a closed form (`expected`).
    """
    kind = scenario.workload.module
    if not hasattr(kind, "expected"):
        return None
    elements = scenario.model_bytes // ELEMENT_BYTES

    @functools.lru_cache(maxsize=256)
    def of_iteration(site: str, iteration: int) -> tuple[str, tuple[float, ...]]:
        term = Term(scenario.worker_rank(site), iteration, 1.0)
        model = kind.expected(scenario.seed, [(((0, elements),), (term,))], 1.0, elements)
        return describe(model, scenario.scheme.chunk_bytes)

    return of_iteration


def _make_expected_digest(scenario: Scenario) -> Callable[[Task], str | None] | None:
    """A function that gives the digest of a task's exact result.

    None unless the workload's contributions have a closed form (`expected`).
    """
    kind = scenario.workload.module
    if not hasattr(kind, "expected"):
        return None

    def of_task(task: Task) -> str | None:
        started = task.started
        terms = {
            event.site: Term(
                scenario.worker_rank(event.site), event.iteration, started.weights[event.site]
            )
            for event in task.inputs
        }
        elements = started.bytes // ELEMENT_BYTES
        parts: list[tuple[model_replay.Ranges, Order]] = [(((0, elements),), tuple(terms.values()))]
        if not kind.is_exact(started.weights.values()):
            parts = model_replay.find_orders(task, terms, elements)
        return (
            digest(kind.expected(scenario.seed, parts, started.scale, elements)) if parts else None
        )

    return of_task
