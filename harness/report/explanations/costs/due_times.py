"""When a site that a fault stopped or cut off was due to be ready, or to have pushed (pure)."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median
from typing import TypeVar

from trunkline.agents.events.event import Event
from trunkline.agents.events.round_events import ComputeFinished, ComputeStarted
from trunkline.harness.record.history import History, Task

E = TypeVar("E")


@dataclass(frozen=True)
class DueTimes:
    """What sites take to compute, and what their tasks were to take, in seconds.

    A site computes for the time of its workload, `known_s`, if that is known before the run, else
    for the median of its times. Its task takes its expected time.
    """

    history: History
    planned_s: Mapping[int, float]
    known_s: Callable[[str, int], float] | None = None

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

    def find_ns(self, site: str, begun_ns: int, pushed: bool, until_ns: int | None = None) -> int:
        """When the site was due to be ready if the fault that began then had not been.

        With `pushed`, when its push was due to end. If it was in a task, that was due to end first,
        also if that began after the fault, but before `until_ns`.
        """
        latest_ns = begun_ns if until_ns is None else until_ns - 1
        tasks = list_latest(self._tasks_by_site.get(site, ()), latest_ns, _get_start)
        begun = list_latest(self._begun.get(site, ()), begun_ns, get_time)
        due_ns = begun[-1].t_ns if begun else begun_ns
        iteration = begun[-1].iteration if begun else 0
        if tasks and tasks[-1].started.t_ns >= due_ns:
            due_ns = tasks[-1].started.t_ns + self._planned_ns(tasks[-1])
            if pushed and tasks[-1].waits:
                return due_ns
            iteration += 1
        due_ns += round(self.compute_s(site, iteration) * 1e9)
        return due_ns + (self._push_ns(site, begun_ns) if pushed else 0)

    def compute_s(self, site: str, iteration: int) -> float:
        """How long the site computes for an iteration; 0 if that is not known."""
        if self.known_s is not None:
            return self.known_s(site, iteration)
        return self._medians_s.get(site, 0.0)

    @cached_property
    def _medians_s(self) -> Mapping[str, float]:
        return {
            site: median(own) / 1e9
            for site, events in self._begun.items()
            if (
                own := [
                    self._ended[site, each.iteration] - each.t_ns
                    for each in events
                    if (site, each.iteration) in self._ended
                ]
            )
        }

    def _push_ns(self, site: str, at_ns: int) -> int:
        """What the site's last push before a time was to take, or else its first one."""
        pushes = [task for task in self._tasks_by_site.get(site, ()) if task.waits]
        before = list_latest(pushes, at_ns, _get_start)
        return self._planned_ns((before or pushes)[0]) if pushes else 0

    def _planned_ns(self, task: Task) -> int:
        planned_s = self.planned_s.get(task.number, math.nan)
        return 0 if math.isnan(planned_s) else round(planned_s * 1e9)


def list_latest(found: Sequence[E], t_ns: int, get_time: Callable[[E], int]) -> Sequence[E]:
    """The last of these, in order of time, that is not later than a time; none if all are."""
    place = bisect_right(found, t_ns, key=get_time)
    return found[max(0, place - 1) : place]


def _get_start(task: Task) -> int:
    return task.started.t_ns


def get_time(event: Event) -> int:
    """When an event was, in ns."""
    return event.t_ns
