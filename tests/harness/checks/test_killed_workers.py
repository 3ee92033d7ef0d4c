"""Workers that a fault kills: what they had to have done by then."""

import pytest

from trunkline.agents.events.fault_events import AgentChanged
from trunkline.agents.events.lifecycle import Part
from trunkline.agents.events.round_events import ComputeFinished, ComputeStarted
from trunkline.agents.events.task_events import Contributed, TaskJoined, TaskStarted
from trunkline.harness.checks.protocol import worker_checks
from trunkline.harness.checks.tolerances import BY_CLOCK
from trunkline.harness.record.history import Task

STARTED = TaskStarted(
    0, "controller", 6, "eager_reduce", "ring", ("n1", "n2"), {"n1": 1.0}, 0.5, 8, 8, forest={}
)


@pytest.mark.parametrize(
    ("part", "said"),
    [
        (Part(passive=True), []),  # a task is still to change its model: it waits for that
        (None, ["n1 at 0.900 s: agent_changed: it might have logged that at 0.500 s"]),
    ],
)
def test_a_worker_that_is_killed_was_ready_unless_a_task_was_to_change_its_model(part, said):
    worker = worker_checks._Worker("n1", BY_CLOCK["virtual"], tasks={6: Task({}, STARTED)})
    if part is not None:
        worker.life.parts[6] = part
    log = [
        ComputeStarted(0, "n1", 0),
        *([TaskJoined(100, "n1", 6), Contributed(200, "n1", 6, 0, "", (), 1.0)] if part else ()),
        ComputeFinished(500_000_000, "n1", 0),
    ]
    assert not [found for event in log for found in worker.take(event)]
    killed = worker.change(AgentChanged(900_000_000, "runner", "n1", "kill", 0))
    assert [found.text for found in killed] == said
