"""What each program did at which time, by the table of `agents.events.lifecycle` (pure)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from trunkline.agents.events.event import Event
from trunkline.agents.events.fault_events import AgentChanged
from trunkline.agents.events.lifecycle import Doing, ProgramLife, Step
from trunkline.agents.events.run_events import AgentExited, ProgramReady, ProgramStarted
from trunkline.harness.record.lives import Interval

ProgramEvent = ProgramStarted | ProgramReady | AgentExited | AgentChanged
"""The events about one program, `who`."""


@dataclass(frozen=True, slots=True)
class ProgramMoment:
    """The state of a program from an event on: the event was this `step`.

    `attempt` is the number of its process then, `paused` whether a fault holds it.
    """

    event: ProgramEvent
    step: Step
    attempt: int
    paused: bool

    @property
    def t_ns(self) -> int:
        """When this was."""
        return self.event.t_ns

    @property
    def is_own_exit(self) -> bool:
        """Whether the program ended by itself here."""
        event = self.event
        return isinstance(event, AgentExited) and event.fault is None and not event.asked


@dataclass(frozen=True)
class ProgramLives:
    """The lives of all programs: what changed the state of each, in order of time."""

    moments: Mapping[str, Sequence[ProgramMoment]]
    end_ns: int = field(default=0)

    @classmethod
    def of(cls, events: Iterable[Event], end_ns: int) -> ProgramLives:
        """Read the lives from the events of a log, in the log's order."""
        lives: defaultdict[str, ProgramLife] = defaultdict(ProgramLife)
        moments: defaultdict[str, list[ProgramMoment]] = defaultdict(list)
        for event in events:
            if isinstance(event, ProgramEvent):
                life = lives[event.who]
                step = life.take_event(event)
                moments[event.who].append(ProgramMoment(event, step, life.attempt, life.paused))
        return cls(moments, end_ns)

    def of_program(self, name: str) -> Sequence[ProgramMoment]:
        """The moments of a program; none if the log has nothing of it."""
        return self.moments.get(name, ())

    def states(self, name: str, start_ns: int, end_ns: int) -> list[tuple[Doing, bool]]:
        """The states in which a program was in an interval, and whether it was paused."""
        before = (Doing.IDLE, False)
        found = []
        for moment in self.of_program(name):
            if moment.t_ns > end_ns:
                break
            after = (moment.step.after, moment.paused)
            if moment.t_ns < start_ns:
                before = after
            else:
                found.append(after)
        return [before, *found]

    def runs(self, name: str) -> list[Interval]:
        """When a program ran: from each start to its exit, or to the fault that killed it."""
        found: list[Interval] = []
        since_ns: int | None = None
        for moment in self.of_program(name):
            leaves = isinstance(moment.event, AgentChanged) and moment.event.do == "leave"
            if moment.step.after is Doing.RUNNING and since_ns is None:
                since_ns = moment.t_ns
            elif moment.step.after is not Doing.RUNNING and since_ns is not None and not leaves:
                found.append((since_ns, moment.t_ns))
                since_ns = None
        return found if since_ns is None else [*found, (since_ns, self.end_ns)]

    def last_exit(self, name: str) -> AgentExited | None:
        """The exit of a program's last process; None if that has not ended, or never began."""
        exits = [
            each.event for each in self.of_program(name) if isinstance(each.event, AgentExited)
        ]
        return exits[-1] if exits else None
