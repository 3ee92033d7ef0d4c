"""The header of a run's log: the values of the scenario that the log itself states (pure)."""

from __future__ import annotations

from trunkline.agents.events.event import RUNNER
from trunkline.agents.events.run_events import RunStarted
from trunkline.harness.scenario.settings import Scenario


def make_header(scenario: Scenario) -> RunStarted:
    """The first event of every run of this scenario."""
    return RunStarted(
        0,
        RUNNER,
        scenario=scenario.name,
        seed=scenario.seed,
        backend=scenario.backend,
        clock=scenario.clock,
        sites=scenario.topology.site_names,
        model_bytes=scenario.model_bytes,
        chunk_bytes=scenario.scheme.chunk_bytes,
        policy=scenario.scheme.policy.kind,
        plan=scenario.scheme.plan.kind,
    )
