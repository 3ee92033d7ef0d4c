"""What may happen after what: tables for sites, for controllers and for programs (pure).

Agents log their events through these tables (`follow`). All that reads a log finds by them what an
agent did at which time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from trunkline.agents.events.connection_events import (
    BackupStoodDown,
    BackupTookOver,
    ControllerFound,
    ControllerLost,
)
from trunkline.agents.events.event import Event, Kind, Log, P, TaskEvent
from trunkline.agents.events.event_writing import event_name
from trunkline.agents.events.fault_events import AgentChanged
from trunkline.agents.events.round_events import (
    ComputeFinished,
    ComputeStarted,
    Ready,
    RoundAlone,
    RoundFinished,
    SyncFinished,
    SyncStarted,
    WorkerFinished,
)
from trunkline.agents.events.run_events import AgentExited, ProgramReady, ProgramStarted, Stopping
from trunkline.agents.events.task_events import (
    Compared,
    Contributed,
    ContributionTaken,
    ModelMerged,
    Roles,
    ServerBegan,
    TaskDropped,
    TaskFinished,
    TaskStarted,
)


class LifecycleError(RuntimeError):
    """An agent was about to log an event that it may not log after those before."""


class Doing(StrEnum):
    """What a site or a controller does.

    IDLE: it is between two rounds, or has not begun. RESTARTED: it was started again, and has not
    begun. COMPUTING, COMPUTED: it computes an iteration, and has computed it. WAITING: it waits for
    a task. IN_TASK: it is an active member of one. FINISHED: it has done its part of the task.
    SERVING: it takes part in tasks only. LEFT: its rounds are done. STANDING_BY, IN_CHARGE: a
    controller does not lead the run, or does. STOPPING: it starts no more tasks. RUNNING, ENDED: a
    program runs, and has ended by itself or with the run.
    """

    IDLE = "idle"
    RESTARTED = "restarted"
    COMPUTING = "computing"
    COMPUTED = "computed"
    WAITING = "waiting"
    IN_TASK = "in a task"
    FINISHED = "finished"
    SERVING = "serving"
    LEFT = "left"
    STANDING_BY = "standing by"
    IN_CHARGE = "in charge"
    STOPPING = "stopping"
    RUNNING = "running"
    ENDED = "ended"
    DEAD = "dead"


Row = tuple[tuple[Doing, ...], Doing]
"""The states in which an agent may log an event (none: any), and the state to which it leads."""

SITE: Mapping[type[Event], Row] = {
    ServerBegan: ((Doing.IDLE, Doing.RESTARTED), Doing.SERVING),
    ComputeStarted: ((Doing.IDLE, Doing.RESTARTED), Doing.COMPUTING),
    ComputeFinished: ((Doing.COMPUTING,), Doing.COMPUTED),
    Ready: ((Doing.COMPUTED,), Doing.WAITING),
    Contributed: ((Doing.WAITING,), Doing.IN_TASK),
    TaskFinished: ((Doing.IN_TASK,), Doing.FINISHED),
    ContributionTaken: ((Doing.IN_TASK,), Doing.FINISHED),
    TaskDropped: ((Doing.IN_TASK,), Doing.COMPUTED),
    RoundFinished: ((Doing.FINISHED, Doing.WAITING), Doing.IDLE),
    RoundAlone: ((Doing.COMPUTED, Doing.WAITING), Doing.IDLE),
    WorkerFinished: ((Doing.IDLE, Doing.RESTARTED, Doing.COMPUTED, Doing.WAITING), Doing.LEFT),
    SyncStarted: ((), Doing.IN_TASK),
    SyncFinished: ((), Doing.IDLE),
}
"""The steps of a site. `SiteLife` says where a task asks for another one."""

CONTROLLER: Mapping[type[Event], Row] = {
    BackupTookOver: ((Doing.STANDING_BY,), Doing.IN_CHARGE),
    TaskStarted: ((Doing.IN_CHARGE,), Doing.IN_CHARGE),
    Stopping: ((Doing.IN_CHARGE,), Doing.STOPPING),
    BackupStoodDown: ((Doing.IN_CHARGE, Doing.STOPPING), Doing.STANDING_BY),
}
"""The steps of a controller. The first one is in charge while it lives."""

ALIVE = (Doing.IDLE, Doing.RUNNING, Doing.RESTARTED)
"""A program that waits for its start, or runs: it has a process."""

PROGRAM: Mapping[type[Event], Row] = {
    ProgramStarted: ((Doing.IDLE, Doing.RESTARTED, Doing.ENDED), Doing.RUNNING),
    ProgramReady: ((Doing.RUNNING,), Doing.RUNNING),
    AgentExited: (ALIVE, Doing.ENDED),
}
"""The steps of a program. A rule of its scenario may start one again that has ended."""

PROGRAM_CHANGES: Mapping[str, Row] = {
    "kill": (ALIVE, Doing.DEAD),
    "leave": (ALIVE, Doing.DEAD),
    "restart": ((Doing.DEAD,), Doing.RESTARTED),
}
"""What faults do to a program; a program that was asked to leave counts as dead from then on."""

STEPS = frozenset({*SITE, *CONTROLLER, ControllerLost, ControllerFound, AgentChanged})
"""The events that may change what an agent does, or whether it has a controller."""


@dataclass(frozen=True, slots=True)
class Part:
    """What a task asks of one of its members.

    Attributes:
        passive: the site takes part without being a member; its own round goes on.
        receives: it gets the result.
        waits: after the task it waits for another one.
        leaves: it goes on as soon as its contribution has left.
    """

    passive: bool = False
    receives: bool = True
    waits: bool = False
    leaves: bool = False

    @classmethod
    def of(cls, site: str, receives: bool, roles: Roles | None) -> Part:
        """The part of a site in a task with these roles."""
        if roles is None:
            return cls(receives=receives)
        waits = roles.then == "wait"
        return cls(site in roles.passive, receives, waits, not receives and not waits)


PLAIN = Part()
"""The part in a task without roles, and in one of which nothing is known."""


@dataclass(frozen=True, slots=True)
class Step:
    """An event in a life.

    Attributes:
        allowed: the states in which the event is right; empty if it is in any.
        before, after: the state before and after it.
        moves: whether the table has a row for the event, so that the state may change.
        aside: the event is of a task beside the one in which the site is active.
        inside: of an event aside: whether the site was in that task before.
    """

    allowed: tuple[Doing, ...]
    before: Doing
    after: Doing
    moves: bool = False
    aside: bool = False
    inside: bool = False

    @classmethod
    def begin(cls, doing: Doing) -> Step:
        """The first step in a life."""
        return cls((), doing, doing, moves=True)

    @property
    def is_right(self) -> bool:
        """Whether the table allows this step."""
        return not self.allowed or self.before in self.allowed


@dataclass(slots=True)
class Life:
    """The state of an agent or a program by its events so far; `paused` is by a fault."""

    doing: Doing
    paused: bool = False

    def _move(self, row: Row) -> Step:
        before, self.doing = self.doing, row[1]
        return Step(row[0], before, self.doing, moves=True)

    def _stay(self, *allowed: Doing, aside: bool = False, inside: bool = False) -> Step:
        return Step(allowed, self.doing, self.doing, aside=aside, inside=inside)


@dataclass(slots=True)
class AgentLife(Life, ABC):
    """The state of an agent."""

    @abstractmethod
    def take(self, kind: type[Event], task: int | None = None) -> Step:
        """Take the next step. It is taken also where it is not allowed."""

    def change(self, do: str) -> Step:
        """A fault kills the agent, starts it again, pauses it or resumes it."""
        self.paused = do == "pause"
        if do == "kill":
            return self._die()
        return self._restart() if do == "restart" else self._stay()

    def _die(self) -> Step:
        return self._move(((), Doing.DEAD))

    @abstractmethod
    def _restart(self) -> Step:
        """A fault starts the agent again."""


@dataclass(slots=True)
class SiteLife(AgentLife):
    """The life of a worker, a server or a program.

    Attributes:
        parts: the site's parts in tasks, by number; PLAIN if it has none.
        task: the task of which it is an active member, or was last.
        passive: the tasks in which it takes part while its own round goes on.
        left: the tasks that its contribution has left, so that it went on before their ends.
        connected: whether it has a controller.
        found_anew: whether it found a controller during its task: it is ready again afterwards.
    """

    doing: Doing = Doing.IDLE
    parts: dict[int, Part] = field(default_factory=dict)
    task: int = -1
    passive: set[int] = field(default_factory=set)
    left: set[int] = field(default_factory=set)
    connected: bool = True
    found_anew: bool = False

    def take(self, kind: type[Event], task: int | None = None) -> Step:
        part = PLAIN if task is None else self.parts.get(task, PLAIN)
        if task is not None and self._is_aside(kind, task, part):
            return self._take_aside(kind, task)
        if kind is ControllerLost or kind is ControllerFound:
            self.connected = kind is ControllerFound
            self.found_anew |= self.connected
        if kind is Compared:
            return self._stay(Doing.FINISHED, Doing.WAITING)
        if kind not in SITE:
            return self._stay()
        allowed, after = SITE[kind]
        if kind is Contributed or kind is SyncStarted:
            self.task, self.found_anew = -1 if task is None else task, False
        elif kind in (TaskFinished, ContributionTaken) and part.waits:
            after = Doing.COMPUTED if self.found_anew else Doing.WAITING
        elif kind is RoundFinished and self._may_leave():
            allowed = (Doing.IN_TASK,)
            self.left.add(self.task)
        return self._move((allowed, after))

    def _is_aside(self, kind: type[Event], task: int, part: Part) -> bool:
        """Whether an event does not change what the site is doing."""
        if kind is Contributed or kind is TaskFinished:
            return part.passive
        if kind is TaskDropped or kind is ContributionTaken:
            return task in self.passive or task in self.left
        return kind is ModelMerged

    def _take_aside(self, kind: type[Event], task: int) -> Step:
        inside = task in self.passive or task in self.left
        if kind is Contributed:
            self.passive.add(task)
        elif kind in (TaskFinished, TaskDropped, ContributionTaken):
            self.passive.discard(task)
            self.left.discard(task)
        return self._stay(aside=True, inside=inside)

    def _may_leave(self) -> bool:
        """Whether the site may go on before its task ends: it need not get the result."""
        return self.doing is Doing.IN_TASK and self.parts.get(self.task, PLAIN).leaves

    def _die(self) -> Step:
        self.passive.clear()
        self.left.clear()
        return self._move(((), Doing.DEAD))

    def _restart(self) -> Step:
        self.connected, self.found_anew = True, False
        return self._move(((Doing.DEAD,), Doing.RESTARTED))


@dataclass(slots=True)
class ControllerLife(AgentLife):
    """The life of a controller; one that `stands_by` acts when the first one is silent."""

    doing: Doing = Doing.IN_CHARGE
    stands_by: bool = False

    @classmethod
    def backup(cls) -> ControllerLife:
        """The life of the backup from the start of the run."""
        return cls(Doing.STANDING_BY, stands_by=True)

    def take(self, kind: type[Event], task: int | None = None) -> Step:
        return self._move(CONTROLLER[kind]) if kind in CONTROLLER else self._stay()

    def _restart(self) -> Step:
        after = Doing.STANDING_BY if self.stands_by else Doing.IN_CHARGE
        return self._move(((Doing.DEAD,), after))


@dataclass(slots=True)
class ProgramLife(Life):
    """The life of a program; `attempt` counts the processes that it has had before."""

    doing: Doing = Doing.IDLE
    attempt: int = 0

    def take_event(self, event: Event) -> Step:
        """Take the next event about the program."""
        if isinstance(event, AgentChanged):
            return self.change(event.do)
        if isinstance(event, AgentExited) and event.fault is not None:
            return self._stay()  # the fault was a step, and another process may run already
        self.attempt += isinstance(event, ProgramStarted) and self.doing is Doing.ENDED
        return self._move(PROGRAM[type(event)])

    def change(self, do: str) -> Step:
        """A fault does something to the program."""
        if do == "resume":
            right, self.paused = self.paused, False
            return self._stay(*(() if right else (Doing.LEFT,)))
        self.paused = do == "pause"
        if do == "pause":
            return self._stay(*ALIVE)
        self.attempt += do == "restart"
        return self._move(PROGRAM_CHANGES[do])


def follow(life: AgentLife, log: Log) -> Log:
    """A log that takes every event as a step of this life.

    It raises LifecycleError, and logs nothing, if the table does not allow the step.
    """

    def step(kind: Kind[P], *values: P.args, **fields: P.kwargs) -> None:
        assert isinstance(kind, type)
        task: Any = None
        if issubclass(kind, TaskEvent):
            task = fields["task"] if "task" in fields else values[0]
        taken = life.take(kind, task)
        if not taken.is_right:
            allowed = " or ".join(map(repr, map(str, taken.allowed)))
            name = event_name(kind)
            raise LifecycleError(f"{name} while {str(taken.before)!r}; expected {allowed}")
        log(kind, *values, **fields)

    return step
