"""What each program did at which time, by the table of `agents.events.lifecycle` (pure)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from trunkline.agents.events.event import Event
from trunkline.agents.events.fault_events import AgentChanged
from trunkline.agents.events.lifecycle import Doing, ProgramLife, Step
from trunkline.agents.events.round_events import ComputeFinished, ComputeStarted
from trunkline.agents.events.run_events import AgentExited, ProgramReady, ProgramStarted
from trunkline.harness.record.lives import Interval, Phase
from trunkline.workloads.program_roles import site_of

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

    def pauses(self, name: str) -> list[Interval]:
        """When faults held a program."""
        found: list[Interval] = []
        since_ns: int | None = None
        for moment in self.of_program(name):
            if moment.paused and since_ns is None:
                since_ns = moment.t_ns
            elif not moment.paused and since_ns is not None:
                found.append((since_ns, moment.t_ns))
                since_ns = None
        return found if since_ns is None else [*found, (since_ns, self.end_ns)]

    def last_exit(self, name: str) -> AgentExited | None:
        """The exit of a program's last process; None if that has not ended, or never began."""
        exits = [
            each.event for each in self.of_program(name) if isinstance(each.event, AgentExited)
        ]
        return exits[-1] if exits else None


def find_computing(events: Iterable[Event], end_ns: int) -> dict[str, list[Phase]]:
    """When the programs of each site computed, by the reports that name their process.

    A computation that does not finish ends with a program of its site, or with the log. It only
    counts if it is the site's last one: a launcher may have ended others at any time.
    """
    under_way: defaultdict[str, dict[int, ComputeStarted]] = defaultdict(dict)
    latest: dict[str, ComputeStarted] = {}
    found: defaultdict[str, list[Phase]] = defaultdict(list)

    def end(site: str, begun: ComputeStarted, t_ns: int) -> None:
        found[site].append(Phase(Doing.COMPUTING, begun.t_ns, t_ns, None, begun))

    def end_last(site: str, t_ns: int) -> None:
        if (last := latest.get(site)) and last in under_way.pop(site, {}).values():
            end(site, last, t_ns)

    for event in events:
        match event:
            case ComputeStarted(process=int(process), site=site):
                under_way[site][process] = latest[site] = event
            case ComputeFinished(process=int(process), site=site) if process in under_way[site]:
                end(site, under_way[site].pop(process), event.t_ns)
            case AgentExited(who=who, t_ns=t_ns):
                end_last(site_of(who), t_ns)
    for site in [*under_way]:
        end_last(site, end_ns)
    return {site: sorted(each, key=lambda phase: phase.start_ns) for site, each in found.items()}
