"""When a site that a fault stopped or cut off was due to be ready, or to have pushed (pure)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median

from trunkline.agents.events.round_events import ComputeFinished, ComputeStarted
from trunkline.harness.record.history import History, Task


@dataclass(frozen=True)
class DueTimes:
    """What sites usually take to compute, and what their tasks were to take, in seconds.

    An estimate: a site computes for the median of its times, and its task takes its expected time.
    """

    history: History
    planned_s: Mapping[int, float]

    @cached_property
    def _begun(self) -> Mapping[str, Sequence[ComputeStarted]]:
        found: dict[str, list[ComputeStarted]] = {}
        for event in self.history.all(ComputeStarted):
            found.setdefault(event.site, []).append(event)
        return found

    @cached_property
    def _ended(self) -> Mapping[tuple[str, int], int]:
        return {(e.site, e.iteration): e.t_ns for e in self.history.all(ComputeFinished)}

    @cached_property
    def _tasks_by_site(self) -> Mapping[str, Sequence[Task]]:
        found: dict[str, list[Task]] = {}
        for task in self.history.tasks:
            for site in set(task.started.group).difference(task.started.passive):
                found.setdefault(site, []).append(task)
        return found

    def find_ns(self, site: str, begun_ns: int, pushed: bool) -> int:
        """When the site was due to be ready if the fault that began then had not been.

        With `pushed`, when its push was due to end. If it was in a task, that was due to end first.
        """
        tasks = [t for t in self._tasks_by_site.get(site, ()) if t.started.t_ns <= begun_ns]
        begun = [each.t_ns for each in self._begun.get(site, ()) if each.t_ns <= begun_ns]
        due_ns = max(begun, default=begun_ns)
        if tasks and tasks[-1].started.t_ns >= due_ns:
            due_ns = tasks[-1].started.t_ns + self._planned_ns(tasks[-1])
            if pushed and tasks[-1].waits:
                return due_ns
        due_ns += self._compute_ns(site)
        return due_ns + (self._push_ns(site, begun_ns) if pushed else 0)

    def _compute_ns(self, site: str) -> int:
        """The median time for which the site computed; 0 if it never did."""
        own = [
            end_ns - each.t_ns
            for each in self._begun.get(site, ())
            if (end_ns := self._ended.get((site, each.iteration))) is not None
        ]
        return round(median(own)) if own else 0

    def _push_ns(self, site: str, at_ns: int) -> int:
        """What the site's last push before a time was to take, or else its first one."""
        pushes = [task for task in self._tasks_by_site.get(site, ()) if task.waits]
        before = [task for task in pushes if task.started.t_ns <= at_ns]
        return self._planned_ns((before[-1:] or pushes)[0]) if pushes else 0

    def _planned_ns(self, task: Task) -> int:
        planned_s = self.planned_s.get(task.number, math.nan)
        return 0 if math.isnan(planned_s) else round(planned_s * 1e9)
