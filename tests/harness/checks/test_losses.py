"""When a site knows that a task is over, with a pause and a kill after it."""

from hand_made import THREE_SITES
from three_sites import added, history

from trunkline.agents.events.task_events import TaskAbandoned, TaskCompleted
from trunkline.harness.checks.losses import Losses
from trunkline.harness.checks.rules import Rules

RULES = Rules(THREE_SITES, detection_s=0.4, timeout_s=0.2)
MS = 1_000_000


def test_a_paused_site_is_told_when_it_is_resumed():
    calm = history()
    task = calm.tasks[-1]
    over_ms = max(e.t_ns for e in task.all(TaskCompleted, TaskAbandoned)) // MS
    before = Losses.of(calm, RULES).told_ns(task, "rome")
    assert before == over_ms * MS + 200 * MS
    times_ms = {"pause": over_ms - 10, "resume": over_ms + 900}
    faults = [
        added(t_ms, "runner", "agent_changed", who="rome", do=do, fault=7)
        for do, t_ms in times_ms.items()
    ]
    told_ns = Losses.of(history(*faults), RULES).told_ns(task, "rome")
    assert told_ns == (over_ms + 900 + 400 + 200) * MS
