"""What each agent did at which time, by the tables of `agents.events.lifecycle` (pure)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from trunkline.agents.events.event import BACKUP, CONTROLLER, RUNNER, Event, TaskEvent
from trunkline.agents.events.fault_events import AgentChanged
from trunkline.agents.events.lifecycle import (
    STEPS,
    AgentLife,
    ControllerLife,
    Doing,
    Part,
    SiteLife,
    Step,
)
from trunkline.agents.events.run_events import Stopping
from trunkline.agents.events.task_events import TaskStarted

Interval = tuple[int, int]
"""(start, end) in nanoseconds since the run's start."""


@dataclass(frozen=True, slots=True)
class Moment:
    """The state of an agent from `t_ns` on.

    `event` led to it (None: the run's start), as this `step`. `task` is set for Doing.IN_TASK only.
    """

    t_ns: int
    event: Event | None
    step: Step
    task: int | None = None
    connected: bool = True
    paused: bool = False

    @classmethod
    def of(cls, t_ns: int, event: Event | None, step: Step, life: AgentLife) -> Moment:
        """The state of this life after a step."""
        if not isinstance(life, SiteLife):
            return cls(t_ns, event, step, paused=life.paused)
        task = life.task if life.doing is Doing.IN_TASK else None
        return cls(t_ns, event, step, task, life.connected, life.paused)

    @property
    def doing(self) -> Doing:
        """What the agent does."""
        return self.step.after


@dataclass(frozen=True, slots=True)
class Phase:
    """An agent did this from `start_ns` to `end_ns`; `task` is set for Doing.IN_TASK only.

    `begun` is the event with which it began; None at the run's start.
    """

    doing: Doing
    start_ns: int
    end_ns: int
    task: int | None
    begun: Event | None


@dataclass(slots=True)
class LivesSoFar:
    """The lives of all agents that have logged something, event by event."""

    agents: dict[str, AgentLife] = field(default_factory=dict)
    parts: defaultdict[str, dict[int, Part]] = field(default_factory=lambda: defaultdict(dict))

    @classmethod
    def of(cls, tasks: Iterable[TaskStarted]) -> LivesSoFar:
        """The lives before the first event of a log that has these tasks."""
        lives = cls()
        for started in tasks:
            lives.note_task(started)
        return lives

    def note_task(self, started: TaskStarted) -> None:
        """Note what a task asks of its members, before they log that they take part in it."""
        for site in started.group:
            part = Part.of(site, site in started.receivers, started.roles)
            self.parts[site].setdefault(started.task, part)

    def take(self, event: Event) -> tuple[str, Step] | None:
        """Take in the next event: whose step it is, and the step; None if it changes no life."""
        if type(event) not in STEPS or (isinstance(event, Stopping) and event.site == RUNNER):
            return None
        if isinstance(event, AgentChanged):
            return event.who, self.life_of(event.who).change(event.do)
        number = event.task if isinstance(event, TaskEvent) else None
        return event.site, self.life_of(event.site).take(type(event), number)

    def life_of(self, name: str) -> AgentLife:
        """The life of an agent."""
        if name == CONTROLLER:
            return self.agents.setdefault(name, ControllerLife())
        if name == BACKUP:
            return self.agents.setdefault(name, ControllerLife.backup())
        return self.site(name)

    def site(self, name: str) -> SiteLife:
        """The life of a site."""
        life = self.agents.get(name)
        if not isinstance(life, SiteLife):
            life = self.agents[name] = SiteLife(parts=self.parts[name])
        return life


@dataclass(frozen=True)
class Lives:
    """The lives of all agents in a whole log.

    Attributes:
        moments: what changed the state of each agent, in order of time.
        last: each agent's state at the end.
        end_ns: the end of the log.
    """

    moments: Mapping[str, tuple[Moment, ...]]
    last: Mapping[str, AgentLife]
    end_ns: int

    @classmethod
    def of(cls, events: Iterable[Event], tasks: Iterable[TaskStarted], end_ns: int) -> Lives:
        """Read the lives from the events of a log, in the log's order."""
        lives = LivesSoFar.of(tasks)
        moments: defaultdict[str, list[Moment]] = defaultdict(list)
        first = lives.life_of(CONTROLLER)
        moments[CONTROLLER].append(Moment.of(0, None, Step.begin(first.doing), first))
        for event in events:
            if (taken := lives.take(event)) is not None:
                who, step = taken
                moments[who].append(Moment.of(event.t_ns, event, step, lives.agents[who]))
        return cls({who: tuple(found) for who, found in moments.items()}, lives.agents, end_ns)

    def spans(self, who: str, holds: Callable[[Moment], bool]) -> list[Interval]:
        """When something held of an agent: from moment to moment, or to the end of the log."""
        found: list[Interval] = []
        since_ns: int | None = None
        for moment in self.moments.get(who, ()):
            if holds(moment):
                since_ns = moment.t_ns if since_ns is None else since_ns
            elif since_ns is not None:
                found.append((since_ns, moment.t_ns))
                since_ns = None
        return found if since_ns is None else [*found, (since_ns, self.end_ns)]

    def phases(self, *doing: Doing) -> dict[str, tuple[Phase, ...]]:
        """When each agent did one of these, in order of time. Open phases end with the log."""
        found = {}
        for who, moments in self.moments.items():
            moved = [moment for moment in moments if moment.step.moves]
            ends_ns = [*(moment.t_ns for moment in moved[1:]), self.end_ns][: len(moved)]
            found[who] = tuple(
                Phase(moment.doing, moment.t_ns, end_ns, moment.task, moment.event)
                for moment, end_ns in zip(moved, ends_ns, strict=True)
                if moment.doing in doing
            )
        return {who: spans for who, spans in found.items() if spans}


def overlap_ns(one: Interval, other: Interval) -> int:
    """How long both lasted at once, in nanoseconds."""
    return max(0, min(one[1], other[1]) - max(one[0], other[0]))


def is_dead(moment: Moment) -> bool:
    """Whether a fault has killed the agent."""
    return moment.doing is Doing.DEAD


def is_stopped(moment: Moment) -> bool:
    """Whether a fault has killed the agent, or holds it."""
    return moment.doing is Doing.DEAD or moment.paused


def is_unled(moment: Moment) -> bool:
    """Whether a worker is dead, has no controller, or has not begun in its new life."""
    return not moment.connected or moment.doing in (Doing.DEAD, Doing.RESTARTED)


def is_alone(moment: Moment) -> bool:
    """Whether a worker that takes part in the run has no controller."""
    return not moment.connected and moment.doing not in (Doing.DEAD, Doing.LEFT)


def leads(moment: Moment) -> bool:
    """Whether a controller is in charge."""
    return moment.doing in (Doing.IN_CHARGE, Doing.STOPPING)
