"""How each task ended at its members, and which agents were lost at the time (pure).

Failover promises less if a member lost the controller or was killed: only then may some members
install a result that others give up. The checks ask here which case applies to a task.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from trunkline.agents.events.connection_events import ControllerFound, ControllerLost, LinkLost
from trunkline.agents.events.event import Event
from trunkline.agents.events.fault_events import AgentChanged
from trunkline.agents.events.task_events import TaskDropped, TaskFinished
from trunkline.harness.record.history import History, Interval, Task


@dataclass(frozen=True)
class TaskOutcomes:
    """Losses and pauses of a run; both ends notice a loss within `detection_s` seconds."""

    history: History
    detection_s: float

    def is_split(self, task: Task) -> bool:
        """Whether some members installed the result and others gave the task up."""
        return bool(task.finished and task.dropped)

    def is_excused(self, task: Task) -> bool:
        """Whether a member or a controller was lost while the task ran or soon after."""
        start_ns = task.started.t_ns
        ends = [event.t_ns for event in (*task.finished, *task.dropped)]
        end_ns = max([*ends, task.end_ns or start_ns]) + round(self.detection_s * 1e9)
        names = {*task.started.group, *self._controllers}
        return any(self.was_lost(name, start_ns, end_ns) for name in names)

    def is_disturbed(self, task: Task) -> bool:
        """Whether bytes may have been lost: the plan changed, or an agent or link was lost."""
        if task.rearranged or task.halted or task.replanned:
            return True
        start_ns = task.started.t_ns
        end_ns = (task.end_ns or start_ns) + round(self.detection_s * 1e9)
        first = bisect_left(self._losses_ns, start_ns)
        return first < len(self._losses_ns) and self._losses_ns[first] <= end_ns

    def was_lost(self, name: str, start_ns: int, end_ns: int) -> bool:
        """Whether an agent was dead or without a controller at any time from start to end."""
        spans = self._without_controller.get(name, ())
        first = bisect_right(spans, start_ns, key=lambda span: span[1])
        return first < len(spans) and spans[first][0] <= end_ns

    def was_killed(self, name: str, start_ns: int) -> bool:
        """Whether an agent was killed at `start_ns` or later."""
        return any(kill_ns >= start_ns for kill_ns in self._kills.get(name, ()))

    def paused_s(self, start_ns: int, end_ns: int) -> float:
        """Seconds that agents were stopped or dead between start and end, summed over agents."""
        spans = [span for found in self._stopped.values() for span in found]
        overlaps = (min(end_ns, end) - max(start_ns, start) for start, end in spans)
        return sum(max(0, overlap) for overlap in overlaps) / 1e9

    @cached_property
    def _changes(self) -> tuple[AgentChanged, ...]:
        return self.history.all(AgentChanged)

    @cached_property
    def _losses_ns(self) -> list[int]:
        kills = [time_ns for times_ns in self._kills.values() for time_ns in times_ns]
        losses = (e.t_ns for kind in (LinkLost, ControllerLost) for e in self.history.all(kind))
        return sorted([*kills, *losses])

    @cached_property
    def _controllers(self) -> set[str]:
        return {event.site for event in (task.started for task in self.history.tasks)}

    @cached_property
    def _kills(self) -> Mapping[str, list[int]]:
        kills: defaultdict[str, list[int]] = defaultdict(list)
        for event in self._changes:
            if event.do == "kill":
                kills[event.who].append(event.t_ns)
        return kills

    @cached_property
    def _without_controller(self) -> Mapping[str, list[Interval]]:
        """The intervals in which each agent was dead or without a controller."""
        return _find_intervals(
            self.history, ("kill",), ("restart",), ControllerLost, ControllerFound
        )

    @cached_property
    def _stopped(self) -> Mapping[str, list[Interval]]:
        return _find_intervals(self.history, ("kill", "pause"), ("restart", "resume"))


def _find_intervals(
    history: History,
    begin: tuple[str, ...],
    end: tuple[str, ...],
    lost: type[Event] | None = None,
    found: type[Event] | None = None,
) -> dict[str, list[Interval]]:
    """From the first `begin` or `lost` of each agent to its next `end` or `found`, in ns."""
    open_ns: dict[str, int] = {}
    spells: defaultdict[str, list[Interval]] = defaultdict(list)
    for event in history.events:
        if isinstance(event, AgentChanged):
            name, starts, ends = event.who, event.do in begin, event.do in end
        else:
            name = event.site
            starts = lost is not None and isinstance(event, lost)
            ends = found is not None and isinstance(event, found)
        if starts:
            open_ns.setdefault(name, event.t_ns)
        elif ends and name in open_ns:
            spells[name].append((open_ns.pop(name), event.t_ns))
    for name, start_ns in open_ns.items():
        spells[name].append((start_ns, history.end_ns))
    return dict(spells)


def group_endings(task: Task) -> dict[str, list[TaskFinished | TaskDropped]]:
    """The events that ended the task, by site."""
    ended: defaultdict[str, list[TaskFinished | TaskDropped]] = defaultdict(list)
    for done in task.finished:
        ended[done.site].append(done)
    for given_up in task.dropped:
        ended[given_up.site].append(given_up)
    return dict(ended)
