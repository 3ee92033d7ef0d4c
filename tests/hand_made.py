"""The scenarios of runs that are written down by hand."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from trunkline.harness.checks.rules import Rules
from trunkline.harness.scenario.loading import load
from trunkline.harness.scenario.scheme_settings import Auxiliary
from trunkline.harness.scenario.sections.limits import Limits
from trunkline.harness.scenario.settings import Scenario, Stop
from trunkline.topologies.model import Topology

WRITTEN = load(Path(__file__).parent / "data/three_sites.yaml")
THREE_SITES = replace(
    WRITTEN,
    scheme=replace(WRITTEN.scheme, scatter="non-blocking", auxiliary=Auxiliary()),
    network=replace(WRITTEN.network, offloads=True),
)
"""The scenario of `three_sites`; sites may send early, on other paths, and in large frames."""


def make_scenario(
    topology: Topology,
    task_s: float = 60.0,
    *,
    servers: tuple[str, ...] = (),
    barrier: bool = True,
    **values: Any,
) -> Scenario:
    """A scenario with this topology, of which no task, no time and no accuracy is expected."""
    scheme = THREE_SITES.scheme
    policy = replace(scheme.policy, options={**scheme.policy.options, "barrier": barrier})
    return replace(
        THREE_SITES,
        topology=topology,
        controller_site=topology.site_names[0],
        limits=Limits(task_s=task_s),
        scheme=replace(scheme, servers=servers, policy=policy),
        **{"stop": Stop(rounds=1), **values},
    )


def change(rules: Rules, **values: Any) -> Rules:
    """The rules of the same scenario with other values."""
    return replace(rules, scenario=replace(rules.scenario, **values))
