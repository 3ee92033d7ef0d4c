"""The history of a run, computed from its events (pure).

Checks, tables and figures ask the same questions about an event log: which events belong to a task,
what each site did at which time, when a link was busy. This module answers them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import attrgetter
from typing import Any, Literal, TypeVar, overload

from trunkline.agents.events.causes import Broken, ProgramFailed
from trunkline.agents.events.connection_events import ControllerLost, LinkLost, WorkerLost
from trunkline.agents.events.event import Event, TaskEvent
from trunkline.agents.events.fault_events import FaultEnded, FaultStarted
from trunkline.agents.events.lifecycle import Doing
from trunkline.agents.events.round_events import SyncFinished, SyncStarted
from trunkline.agents.events.run_events import (
    AgentExited,
    AgentFailed,
    CaptureEnded,
    LinksCounted,
    NetworkReady,
    Predicted,
    RunFinished,
    RunStarted,
    SiteQuiet,
    Stopping,
    TimersLate,
)
from trunkline.agents.events.task_events import (
    Contributed,
    Received,
    Sent,
    TaskAbandoned,
    TaskCompleted,
    TaskFinished,
    TaskHalted,
    TaskRearranged,
    TaskReplanned,
    TaskStarted,
)
from trunkline.agents.planning.chunks import Chunking, cut_model
from trunkline.agents.planning.plan import Block, Chunks, Plan
from trunkline.harness.record.lives import Lives, Phase
from trunkline.harness.record.program_lives import ProgramLives, find_computing

E = TypeVar("E", bound=Event)
F = TypeVar("F", bound=Event)
T = TypeVar("T")
Outcome = Literal["completed", "abandoned", "unfinished"]

EXIT_SHARE = 0.1
"""Charts do not show the exit of agents if it takes longer than this share of the time before."""


PlanEvent = TaskStarted | TaskRearranged | TaskReplanned
"""The events that bring blocks of a task."""


@dataclass(frozen=True)
class EventsByKind:
    """Events that can be asked for by their class."""

    _by_kind: Mapping[type[Event], tuple[Event, ...]] = field(repr=False, compare=False)

    @overload
    def all(self, kind: type[E], /) -> tuple[E, ...]: ...

    @overload
    def all(self, kind: type[E], other: type[F], /) -> tuple[E | F, ...]: ...

    def all(self, *kinds: type[Event]) -> tuple[Event, ...]:
        """Every event of these kinds, in order of time."""
        if len(kinds) == 1:
            return self._by_kind.get(kinds[0], ())
        found = [event for kind in kinds for event in self._by_kind.get(kind, ())]
        return tuple(sorted(found, key=attrgetter("t_ns")))


@dataclass(frozen=True)
class Task(EventsByKind):
    """One task: its start at the controller and all other events about it."""

    started: TaskStarted
    _plans: dict[int, Plan] = field(default_factory=dict, repr=False, compare=False)

    def __str__(self) -> str:
        return f"task {self.number}"

    def with_reports(self, more: Iterable[Sent | Received]) -> Task:
        """The task with more reports of bytes, which its log lacks."""
        by_kind = {kind: list(events) for kind, events in self._by_kind.items()}
        for event in more:
            by_kind.setdefault(type(event), []).append(event)
        return replace(self, _by_kind=_freeze(by_kind))

    @property
    def number(self) -> int:
        """The task's number."""
        return self.started.task

    @property
    def plan(self) -> Plan:
        """The plan with which the task began."""
        return self.plan_of(self.started)

    @cached_property
    def changes(self) -> tuple[TaskRearranged | TaskReplanned, ...]:
        """What changed the plan, in order of time."""
        return self.all(TaskRearranged, TaskReplanned)

    def plan_of(self, event: PlanEvent) -> Plan:
        """The plan that an event of this task has; of a change, the plan with the new blocks."""
        if id(event) not in self._plans:
            self._plans[id(event)] = Plan.from_json(event.forest)
        return self._plans[id(event)]

    @property
    def blocks(self) -> list[Block]:
        """The blocks of all plans that the task ever had, in order of time."""
        events: tuple[PlanEvent, ...] = (self.started, *self.changes)
        return [block for event in events for block in self.plan_of(event).blocks]

    @cached_property
    def cut(self) -> Chunking:
        """The model's chunks, in bytes."""
        return cut_model(self.started.bytes, self.started.chunk_bytes, self.started.tensor_bytes)

    @cached_property
    def inputs(self) -> tuple[Contributed, ...]:
        """The contributions to the sum, without those of mere receivers (logged with weight 0)."""
        return tuple(
            event
            for event in self.all(Contributed)
            if event.weight != 0 or event.site in self.started.weights
        )

    @cached_property
    def early(self) -> frozenset[str]:
        """The contributors that sent before they knew the task.

        One that was killed since reports nothing, but the next sites on its ways do.
        """
        sent = {event.site for event in self.all(Sent) if event.phase == "early"}
        return frozenset(sent.union(e.src for e in self.all(Received) if e.phase == "early"))

    @property
    def waits(self) -> bool:
        """Whether its active members wait for another task afterwards."""
        return self.started.roles is not None and self.started.roles.then == "wait"

    @property
    def merges(self) -> bool:
        """Whether the result is added to what receivers have; a server merges in any case."""
        roles = self.started.roles
        return roles is not None and roles.merges

    @cached_property
    def mixes(self) -> bool:
        """Whether every member contributes its model, and takes the result in its place."""
        started = self.started
        receives = set(started.receivers) == set(started.weights) == set(started.group)
        return receives and not self.merges

    @cached_property
    def updates(self) -> bool:
        """Whether the task changes a shared model.

        A pull does not: all of its contributors are passive, and receivers keep nothing.
        """
        return self.merges or not set(self.started.weights) <= set(self.started.passive)

    @cached_property
    def shards(self) -> Mapping[str, Chunks]:
        """The chunks that members hold which do not hold the whole model: servers."""
        if self.started.roles is None:
            return {}
        return self.plan.shards

    def is_passive(self, site: str) -> bool:
        """Whether a site takes part without being ready."""
        return site in self.started.passive

    @property
    def outcome(self) -> Outcome:
        """How the task ended, by the controller's events."""
        if self.all(TaskAbandoned):
            return "abandoned"
        return "completed" if self.all(TaskCompleted) else "unfinished"

    @cached_property
    def end_ns(self) -> int | None:
        """When the last member finished or the controller abandoned the task; None if neither."""
        ends: Mapping[Outcome, tuple[Event, ...]] = {
            "completed": self.all(TaskFinished) or self.all(TaskCompleted),
            "abandoned": self.all(TaskAbandoned),
            "unfinished": (),
        }
        return max((event.t_ns for event in ends[self.outcome]), default=None)

    @cached_property
    def until_end(self) -> Task:
        """A completed task without the repairs that did not concern its last member to finish.

        A member that has finished has the result. So later halts and plans, and those that are for
        others alone, did not delay `end_ns`. A task that was not completed stays as it is.
        """
        if self.outcome != "completed" or not self.all(TaskFinished):
            return self
        last = max(self.all(TaskFinished), key=lambda event: event.t_ns)
        replans = (e for e in self.all(TaskReplanned) if e.t_ns <= last.t_ns)
        own = (event.t_ns for event in replans if last.site in self.plan_of(event).receivers)
        planned_ns = max(own, default=0)
        until_ns: dict[type[Event], int]
        until_ns = {TaskHalted: last.t_ns, TaskReplanned: planned_ns, TaskRearranged: last.t_ns}
        by_kind = {
            kind: [event for event in events if event.t_ns <= until_ns.get(kind, event.t_ns)]
            for kind, events in self._by_kind.items()
        }
        return replace(self, _by_kind=_freeze(by_kind))

    @property
    def duration_s(self) -> float | None:
        """From its start at the controller to `end_ns`, in seconds."""
        return None if self.end_ns is None else (self.end_ns - self.started.t_ns) / 1e9


@dataclass(frozen=True, slots=True)
class Sync:
    """One synchronization as programs report it: when each site began and ended it."""

    number: int
    operation: str
    bytes: int
    begun_ns: Mapping[str, int]
    ended_ns: Mapping[str, int]

    @property
    def start_ns(self) -> int:
        """When the first site began."""
        return min(self.begun_ns.values())

    @property
    def end_ns(self) -> int | None:
        """When the last site had ended; None if one never did."""
        whole = self.begun_ns.keys() == self.ended_ns.keys()
        return max(self.ended_ns.values()) if whole else None

    @property
    def duration_s(self) -> float | None:
        """From the first site's start to the last one's end, in seconds."""
        return None if self.end_ns is None else (self.end_ns - self.start_ns) / 1e9


@dataclass(frozen=True, slots=True)
class Disturbance:
    """A fault as it happened; `end_ns` is None if it was never undone."""

    started: FaultStarted
    end_ns: int | None


@dataclass(frozen=True)
class History(EventsByKind):
    """All events of a run and its tasks, in the order of their start.

    `strays` are events of tasks without a start, and second starts of a task.
    """

    events: tuple[Event, ...]
    tasks: tuple[Task, ...]
    strays: tuple[Event, ...]

    @classmethod
    def of(cls, events: Iterable[Event]) -> History:
        """Sort the events of a whole log, given in the log's order, by task and by kind."""
        log = tuple(events)
        by_kind: defaultdict[type[Event], list[Event]] = defaultdict(list)
        for event in log:
            by_kind[type(event)].append(event)
        tasks, strays = _tasks(log)
        return cls(_freeze(by_kind), log, tasks, strays)

    def remember(self, make: Callable[[History], T]) -> T:
        """The result of `make` for this history, which is computed once."""
        if make not in self._results:
            self._results[make] = make(self)
        found: T = self._results[make]
        return found

    @cached_property
    def _results(self) -> dict[Callable[[History], Any], Any]:
        return {}

    @property
    def has_roles(self) -> bool:
        """Whether members take part in tasks in different ways, as with servers."""
        return any(task.started.roles is not None for task in self.tasks)

    @property
    def completed(self) -> tuple[Task, ...]:
        """The tasks that the controller completed."""
        return tuple(task for task in self.tasks if task.outcome == "completed")

    @property
    def run(self) -> RunStarted | None:
        """The run's first event; None in a log without one."""
        return next(iter(self.all(RunStarted)), None)

    @property
    def is_predicted(self) -> bool:
        """Whether a model made the events, and no run: a prediction has no network."""
        return bool(self.all(Predicted)) and not self.all(NetworkReady)

    @property
    def syncs(self) -> tuple[Sync, ...]:
        """The synchronizations that programs reported, in the order of their start."""
        begun: defaultdict[int, list[SyncStarted]] = defaultdict(list)
        ended: defaultdict[int, dict[str, int]] = defaultdict(dict)
        for start in self.all(SyncStarted):
            begun[start.task].append(start)
        for end in self.all(SyncFinished):
            ended[end.task][end.site] = end.t_ns
        return tuple(
            Sync(
                number,
                starts[0].operation,
                max(start.bytes for start in starts),
                {start.site: start.t_ns for start in reversed(starts)},
                ended[number],
            )
            for number, starts in begun.items()
        )

    @property
    def faults(self) -> tuple[Disturbance, ...]:
        """All faults of the run, in the order of their start."""
        ended_ns = {event.fault: event.t_ns for event in self.all(FaultEnded)}
        started = self.all(FaultStarted)
        return tuple(Disturbance(event, ended_ns.get(event.fault)) for event in started)

    @cached_property
    def lives(self) -> Lives:
        """What each agent did at which time."""
        return Lives.of(self.events, (task.started for task in self.tasks), self.end_ns)

    @cached_property
    def programs(self) -> ProgramLives:
        """What each program did at which time."""
        return ProgramLives.of(self.events, self.end_ns)

    @cached_property
    def phases(self) -> Mapping[str, tuple[Phase, ...]]:
        """When each site computed, waited for a task, or was an active member of one.

        A site that was killed has no phases until it is started again. A task in which a site is
        passive does not interrupt it, so a server has no phases. Several processes of a program's
        site may compute at once.
        """
        found = self.lives.phases(Doing.COMPUTING, Doing.WAITING, Doing.IN_TASK)
        for site, computed in find_computing(self.events, self.end_ns).items():
            others = (p for p in found.get(site, ()) if p.doing is not Doing.COMPUTING)
            found[site] = tuple(sorted((*others, *computed), key=lambda phase: phase.start_ns))
        return found

    @property
    def end_ns(self) -> int:
        """The time of the last event, 0 in an empty log."""
        return self.events[-1].t_ns if self.events else 0

    @property
    def stop_ns(self) -> int:
        """When a controller or the runner first said that the run stops; else `end_ns`."""
        return min((event.t_ns for event in self.all(Stopping)), default=self.end_ns)

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C or a signal ended the run, so that nothing could end as it should.

        After SIGKILL, the log has no end.
        """
        ends = [event.cause for event in self.all(RunFinished)]
        return any(isinstance(cause, Broken) and cause.interrupted for cause in ends) or not ends

    @property
    def broke_off(self) -> bool:
        """Whether the run ended at once: by a user, or because an agent or a program failed."""
        failed = any(isinstance(event.cause, ProgramFailed) for event in self.all(RunFinished))
        return self.interrupted or failed or bool(self.all(AgentFailed))

    @property
    def active_end_ns(self) -> int:
        """The end of charts: when all sites had finished, if agents exited much later.

        Otherwise it is the time of the last event.
        """
        if not self.all(Stopping):
            return self.end_ns
        end_ns = max(event.t_ns for event in self.events if not isinstance(event, _EXITING))
        return end_ns if self.end_ns > (1 + EXIT_SHARE) * end_ns else self.end_ns


_EXITING = (
    AgentExited,
    CaptureEnded,
    ControllerLost,
    LinkLost,
    LinksCounted,
    RunFinished,
    SiteQuiet,
    TimersLate,
    WorkerLost,
)
"""The events of a run that has stopped, apart from those of sites that finish."""


def _tasks(log: tuple[Event, ...]) -> tuple[tuple[Task, ...], tuple[Event, ...]]:
    """Sort events by task, in two passes: an event may come before its task's start in the log.

    The two can have the same timestamp if they are logged at different sites.
    """
    started: dict[int, TaskStarted] = {}
    strays: list[Event] = []
    for event in log:
        if isinstance(event, TaskStarted) and started.setdefault(event.task, event) is not event:
            strays.append(event)
    said: dict[int, defaultdict[type[Event], list[Event]]] = {
        number: defaultdict(list) for number in started
    }
    reported = {event.task for event in log if isinstance(event, SyncStarted)}
    for event in log:
        if not isinstance(event, TaskEvent) or isinstance(event, TaskStarted):
            continue
        if event.task in said:
            said[event.task][type(event)].append(event)
        elif event.task not in reported:
            strays.append(event)
    tasks = tuple(Task(_freeze(said[number]), start) for number, start in started.items())
    return tasks, tuple(strays)


def _freeze(by_kind: Mapping[type[Event], list[Event]]) -> dict[type[Event], tuple[Event, ...]]:
    return {kind: tuple(events) for kind, events in by_kind.items()}
