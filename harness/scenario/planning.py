"""Policy, planner and settings of a scenario's controller, for runs and the fluid model (pure)."""

from __future__ import annotations

import random
from functools import partial

from trunkline.agents.awareness import measured_rates
from trunkline.agents.control.driver import Driver
from trunkline.agents.control.planner import Build, make_request
from trunkline.agents.planning.plan import send_on_whole
from trunkline.agents.policies import random_draws
from trunkline.agents.policies.policy import Policy
from trunkline.agents.wire.agent_settings import ControllerSettings
from trunkline.harness.scenario.failover_timeouts import make_failover
from trunkline.harness.scenario.sections import awareness_section
from trunkline.harness.scenario.settings import Scenario


def controller_settings(scenario: Scenario) -> ControllerSettings:
    """The settings of the first controller of a run, for a site whose clock is right."""
    topology, scheme, stop = scenario.topology, scenario.scheme, scenario.whole_stop
    return ControllerSettings(
        sites=topology.site_names,
        rates_mbps=measured_rates.add_error(
            topology.overlay.rates_mbps(),
            scheme.rate_error_percent / 100,
            random.Random(f"{scenario.seed} estimates"),
        ),
        delays_ms=topology.overlay.delays_ms(),
        model_bytes=scenario.model_bytes,
        chunk_bytes=scheme.chunk_bytes,
        seed=scenario.seed,
        policy_name=scheme.policy.kind,
        plan_name=scheme.plan.kind,
        task_s=scenario.limits.task_s,
        time_s=stop.time_s,
        tasks=stop.tasks,
        failover=make_failover(scenario),
        follows_measured=scheme.rates == "measured",
        time_roots=awareness_section.count_time_roots(scenario),
        update_s=scheme.update_s,
        update_threshold=scheme.update_rate_percent / 100,
        auxiliary=scheme.has_paths,
        tensor_bytes=scenario.tensor_bytes,
        servers=scheme.servers,
        paths=topology.overlay_paths() or {},
        link_mbps=topology.rates_mbps() if topology.is_underlay else {},
        racks={site.name: site.rack for site in topology.sites if site.rack},
        layers=scenario.layers,
    )


def create_policy(scenario: Scenario, term: int = 0) -> Policy:
    """Create the scenario's policy for its workers, and for a controller's term.

    A policy that draws random numbers draws others in another term (`ControllerSettings.term`).
    """
    create, options = scenario.scheme.policy.module.create, scenario.scheme.policy.options
    seed, servers = f"{scenario.seed} policy {term}", scenario.scheme.servers
    return random_draws.create_policy(create, scenario.workers, options, seed, servers)


def create_builders(scenario: Scenario) -> tuple[Build, Build | None]:
    """The builder of plans and, with a non-blocking scatter, that of the default split."""
    component = scenario.scheme.plan
    build: Build = partial(component.module.build, **component.options)
    if not scenario.scheme.pipelined:
        build = send_on_whole(build)
    if scenario.scheme.scatter != "non-blocking":
        return build, None
    return build, partial(component.module.default, **component.options)


def describe_choice(scenario: Scenario) -> str:
    """What the plan chooses by itself for a task of all sites; empty if it chooses nothing."""
    plan = scenario.scheme.plan
    describe = getattr(plan.module, "describe_choice", None)
    if describe is None:
        return ""
    settings = controller_settings(scenario)
    everywhere = settings.sites, settings.rates_mbps
    text: str = describe(make_request(settings, *everywhere, random.Random(0)), **plan.options)
    return text


def create_driver(scenario: Scenario) -> Driver:
    """Create policy and planner with every site present."""
    settings = controller_settings(scenario)
    driver = Driver.create(settings, create_policy(scenario), *create_builders(scenario))
    driver.planner.overlay.present.update(settings.sites)
    return driver
