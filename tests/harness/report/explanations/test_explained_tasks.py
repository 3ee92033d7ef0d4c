"""By how much a pause made the last member of a group late, from made-up logs."""

from __future__ import annotations

import pytest

from tests.harness.report.explanations.test_pulls import MS, say
from trunkline.agents.events.event import Event
from trunkline.agents.events.fault_events import AgentChanged
from trunkline.agents.events.round_events import ComputeFinished, ComputeStarted, Ready
from trunkline.agents.events.task_events import TaskStarted
from trunkline.agents.planning.plan import Plan
from trunkline.harness.record.history import History
from trunkline.harness.report.explanations.explained_tasks import find_exact_waits
from trunkline.harness.scenario.loading import parse

SCENARIO = parse(
    """
topology: {builder: full_mesh, sites: [a, b, c], rates: 20 Mbit/s, delays: 5 ms}
workload: {kind: synthetic, model: 1 MB, compute: 0.4 s}
scheme: {policy: preduce, plan: ring, p: 2}
stop: {tasks: 4}
""",
    "s.yaml",
)


def compute(site: str, since_ms: int, ready_ms: int) -> list[Event]:
    return [
        ComputeStarted(since_ms * MS, site, 1, 0),
        ComputeFinished(ready_ms * MS, site, 1),
        Ready(ready_ms * MS, site, 1),
    ]


@pytest.mark.parametrize(
    ("ready_ms", "lost_s"),
    [({"a": 1000}, 1.2), ({"a": 1000, "c": 2000}, 0.5), ({"a": 2490}, 0.01), ({}, 1.2)],
)
def test_a_pause_costs_a_group_what_its_last_member_was_late(
    ready_ms: dict[str, int], lost_s: float
) -> None:
    """b would have been ready at 1.3 s, and was at 2.5 s; others wait for the last but one, too."""
    group = (*ready_ms, "b")
    plan = Plan(group, group, 0, ()).to_json()
    weights = dict.fromkeys(group, 1.0)
    events = [
        *(event for site, at_ms in ready_ms.items() for event in compute(site, 500, at_ms)),
        *compute("b", 900, 2500),
        AgentChanged(1000 * MS, "runner", "b", "pause", 0),
        AgentChanged(2500 * MS, "runner", "b", "resume", 0),
        say(2510, "ready", site="b"),
        TaskStarted(2510 * MS, "controller", 0, "", "", group, weights, 1.0, 0, 0, plan),
    ]
    history = History.of(sorted(events, key=lambda event: event.t_ns))
    held = find_exact_waits(SCENARIO, history)[0].held
    found = 0.0 if held is None else held.lost_s
    assert found == pytest.approx(lost_s if lost_s > 0.1 else 0.0, abs=1e-9)
