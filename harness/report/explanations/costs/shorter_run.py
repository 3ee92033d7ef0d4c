"""How much earlier the tasks of a run would have ended without its faults (pure).

Every task keeps its members, and its place among the tasks of each of them. It begins as long after
its last member is ready as it did, and takes as long as it did, both without the time that faults
took. One that a fault ended takes its expected time. A member is ready as long after its task
before as it was. So a site that waited for members that a fault held up waits no longer for them.
Other groups might have formed; this is not known.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from trunkline.agents.events.round_events import Ready
from trunkline.agents.events.task_events import TaskDropped, TaskFinished, TaskStarted
from trunkline.harness.record.history import History, Task
from trunkline.harness.report.explanations.explanation import Explanation


@dataclass(slots=True)
class _Times:
    """When each site was ready, and by how much it had left its last task earlier, in seconds."""

    ready_s: dict[str, float] = field(default_factory=dict)
    earlier_s: dict[str, float] = field(default_factory=dict)

    def start(self, started: TaskStarted, held: str, held_s: float, waited_s: float) -> float:
        """When a task would have begun, for which a fault held one member, and the controller."""
        begun_s = started.t_ns / 1e9
        active = [
            site for site in started.group if site in self.ready_s and site not in started.passive
        ]
        if not active:
            return begun_s
        last_s = max(self.ready_s[site] for site in active)
        moved_s = max(
            self.ready_s[site] - self.earlier_s.get(site, 0.0) - held_s * (site == held)
            for site in active
        )
        return min(begun_s, moved_s + max(0.0, begun_s - last_s - waited_s))


def measure_earlier_s(found: Iterable[Explanation], history: History) -> float:
    """By how much the last task would have ended earlier, in seconds; `found` lost most time."""
    explained = {each.task.number: each for each in found}
    tasks = {task.number: task for task in history.tasks if task.end_ns is not None}
    times, ends_s = _Times(), dict[int, float]()
    for event in history.events:
        if isinstance(event, Ready):
            times.ready_s[event.site] = event.t_ns / 1e9
        elif isinstance(event, TaskStarted) and event.task in tasks:
            ends_s[event.task] = _move(tasks[event.task], explained.get(event.task), times)
    ended_s = max(((task.end_ns or 0) / 1e9 for task in tasks.values()), default=0.0)
    return max(0.0, ended_s - max(ends_s.values(), default=0.0))


def _move(task: Task, found: Explanation | None, times: _Times) -> float:
    """When a task would have ended; members leave it that much earlier."""
    started, begun_s = task.started, task.started.t_ns / 1e9
    costs = [] if found is None else [*found.costs.values()]
    longer_s, given_up_s = sum(c.longer_s for c in costs), sum(c.given_up_s for c in costs)
    held, held_s, waited_s = "", 0.0, 0.0
    if found is not None and found.wait is not None:
        held = found.wait.last
        if found.wait.held is not None and found.wait.held.stop.fault is not None:
            held_s = found.wait.held.lost_s
        waited_s = found.wait.decide_s if found.wait.fault is not None else 0.0
    start_s = times.start(started, held, held_s, waited_s)
    is_ended = found is not None and found.is_abandoned and longer_s > 0.0
    expected_s = math.nan if found is None else found.expected_s
    took_s = expected_s if is_ended else (task.duration_s or 0.0) - longer_s
    for event in (*task.all(TaskFinished), *task.all(TaskDropped)):
        own_s = event.t_ns / 1e9 - begun_s
        is_late = task.end_ns is not None and event.t_ns > task.end_ns
        if is_late and not is_ended:
            left_s = max(took_s, own_s - longer_s - given_up_s)
        else:
            left_s = took_s if is_ended else min(own_s, took_s)
        times.earlier_s[event.site] = max(0.0, begun_s + own_s - start_s - left_s)
    return start_s + took_s
