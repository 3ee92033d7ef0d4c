"""What a scenario plans with, the same for controllers and for the fluid model of a run (pure)."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from functools import partial

from trunkline.agents.awareness import rate_error
from trunkline.agents.planning.chunks import Cut, cut
from trunkline.agents.planning.plan import Directed, Plan, PlanRequest
from trunkline.agents.planning.rearrange import builder_keeping
from trunkline.harness.scenario import user_code
from trunkline.harness.scenario.loading import Scenario
from trunkline.workloads.base import tensor_bytes_of

Build = Callable[[PlanRequest], Plan]


def known_rates_mbps(scenario: Scenario) -> Mapping[Directed, float]:
    """Every link's rate as the plans see it: with the scenario's error."""
    return rate_error.noisy(
        scenario.topology.rates_mbps(),
        scenario.scheme.rate_error_percent / 100,
        random.Random(f"{scenario.seed} estimates"),
    )


def tensor_bytes(scenario: Scenario) -> tuple[int, ...]:
    """The sizes of the model's tensors; none where it is one array."""
    workload = scenario.workload
    return tensor_bytes_of(user_code.workload(scenario), workload.options)


def model_cut(scenario: Scenario) -> Cut:
    """The model's chunks, in bytes."""
    workload = scenario.workload
    size = user_code.workload(scenario).model_bytes(**workload.options)
    return cut(size, scenario.scheme.chunk_bytes, tensor_bytes(scenario))


def builder(scenario: Scenario, rates_mbps: Mapping[Directed, float]) -> tuple[Build, Plan | None]:
    """What builds the plans of groups, and with a non-blocking scatter the default split.

    That is the plan for everybody by which sites send at once; the others then keep to it.
    """
    topology, scheme = scenario.topology, scenario.scheme
    plan = user_code.plan(scenario)
    build: Build = partial(plan.build, **scheme.plan.options)
    if scheme.scatter != "non-blocking":
        return build, None
    model = model_cut(scenario)
    everybody = PlanRequest(
        topology.site_names,
        topology.site_names,
        rates_mbps,
        topology.delays_ms(),
        model.count,
        random.Random(f"{scenario.seed} default split"),
        chunk_sizes=model.sizes,
    )
    default: Plan = plan.default(everybody, **scheme.plan.options)
    return builder_keeping(default, build), default
