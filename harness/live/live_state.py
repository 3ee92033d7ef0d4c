"""The state of a run in progress, event by event (pure).

The shell's `status`, the picture of `--watch` and the line of progress all show this one state.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from trunkline.agents.events import (
    evaluation_events,
    fault_events,
    round_events,
    run_events,
    task_events,
)
from trunkline.agents.events.event import Event
from trunkline.agents.events.lifecycle import Doing
from trunkline.agents.planning.plan import Directed
from trunkline.harness.record import targets
from trunkline.harness.record.lives import LivesSoFar
from trunkline.harness.scenario.settings import Scenario
from trunkline.topologies.model import Topology
from trunkline.workloads.program_roles import Program

WINDOW_S = 5.0
"""The load of a link is averaged over this much of the run's time."""

ACTIVITIES = {
    Doing.IDLE: "between two steps",
    Doing.RESTARTED: "not begun",
    Doing.COMPUTING: "computing",
    Doing.COMPUTED: "between two steps",
    Doing.WAITING: "waiting for a group",
    Doing.IN_TASK: "in task {task}",
    Doing.FINISHED: "between two steps",
    Doing.SERVING: "serving",
    Doing.LEFT: "finished",
    Doing.DEAD: "dead",
}
"""The activity of a site in words."""

ENDED = "ended"
"""The activity of a program that has ended for good."""

STOPPED = {"kill": "dead", "leave": "has left", "pause": "paused"}
"""What an agent or a program is after a fault."""

MILESTONES = (
    round_events.RoundFinished,
    round_events.RoundAlone,
    task_events.TaskCompleted,
    round_events.SyncFinished,
    task_events.Evaluated,
)
"""The steps of progress."""


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a run: rounds and tasks of all workers, `bytes_moved` as payload.

    As for the stop, `rounds` counts those without a controller, too, and `abandoned` tasks count
    beside the completed ones in `tasks`.
    In a run of programs, `ended` is how many of those have ended that the run waits for; otherwise
    it is None. `without` is how many evaluations in a row were no better than the best one.
    `message` describes a step before the agents start, such as the build of the network, or says
    why the run's clock stands still.
    """

    virtual_s: float = 0.0
    rounds: int = 0
    tasks: int = 0
    bytes_moved: int = 0
    accuracy_percent: float | None = None
    without: int = 0
    message: str | None = None
    ended: int | None = None
    abandoned: int = 0


@dataclass(slots=True)
class RunningTask:
    """A task that has not ended; the `unfinished` members are to get its result."""

    group: tuple[str, ...]
    start_ns: int
    unfinished: set[str]


@dataclass(frozen=True, slots=True)
class Burst:
    """Bytes that a link carried in this time: payload of agents, or all bytes of programs."""

    ends: Directed
    bytes: int
    start_ns: int
    end_ns: int


@dataclass(slots=True)
class RunState:
    """The state of the run, its tasks, sites, links and faults, from the events so far.

    `activities` has what each site does, and since when. The run's time begins at `start_ns`, with
    its first task or program. `over` has the faults that have ended, and when. `ended` counts the
    programs of `awaited` that have ended, or all; one that its own rule starts again has not.
    """

    topology: Topology
    programs: Mapping[str, Program] = field(default_factory=dict)
    awaited: Collection[str] = ()
    now_ns: int = 0
    start_ns: int | None = None
    rounds: int = 0
    rounds_alone: int = 0
    completed: int = 0
    abandoned: int = 0
    bytes_moved: int = 0
    accuracy_percent: float | None = None
    evaluations: targets.BestSoFar = field(default_factory=targets.BestSoFar)
    ended: int | None = None
    tasks: dict[int, RunningTask] = field(default_factory=dict)
    lives: LivesSoFar = field(default_factory=LivesSoFar)
    activities: dict[str, tuple[str, int]] = field(default_factory=dict)
    faults: dict[int, fault_events.FaultStarted] = field(default_factory=dict)
    over: dict[int, tuple[fault_events.FaultStarted, int]] = field(default_factory=dict)
    stopped: dict[str, str] = field(default_factory=dict)
    rates_mbps: dict[Directed, float] = field(init=False)
    _sent: deque[Burst] = field(default_factory=deque)
    _counted: dict[Directed, int] = field(default_factory=dict)
    _last_count_ns: int = 0
    _restarts: Counter[str] = field(default_factory=Counter)

    @staticmethod
    def of(scenario: Scenario) -> RunState:
        """The state of a run of this scenario, before its first event."""
        return RunState(scenario.topology, scenario.programs, scenario.awaited)

    def __post_init__(self) -> None:
        self.rates_mbps = self.topology.rates_mbps()

    def update(self, event: Event) -> bool:
        """Take in the next event; True if it is a step of progress that is worth showing."""
        is_first = not self.now_ns
        self.now_ns = max(self.now_ns, event.t_ns)
        self._follow(event)
        match event:
            case round_events.ComputeStarted():
                return is_first
            case round_events.RoundFinished():
                self.rounds += 1
            case round_events.RoundAlone():
                self.rounds_alone += 1
            case round_events.Ready():
                self._leave_tasks(event.site)
            case round_events.SyncFinished():
                self.completed = max(self.completed, event.task + 1)
            case run_events.ProgramStarted():
                self._note_program(event.who, "running", event.t_ns)
                self.stopped.pop(event.who, None)
                return self.now_ns > 0
            case run_events.AgentExited() if event.fault is None or self.ended is None:
                self._note_program(event.who, self._describe_end(event), event.t_ns)
                return self.ended is not None
            case fault_events.AgentChanged():
                self._change_agent(event.who, event.do)
            case fault_events.FaultStarted():
                self.faults[event.fault] = event
            case fault_events.FaultEnded():
                if (begun := self.faults.pop(event.fault, None)) is not None:
                    self.over[event.fault] = begun, event.t_ns
            case fault_events.LinkChanged():
                rate_mbps = 0.0 if event.cuts else event.rate_mbps
                self.rates_mbps[event.src, event.dst] = rate_mbps
            case run_events.LinksCounted():
                self._count_links(event)
                return True
            case run_events.ProgramsStarted() if self.start_ns is None:
                self.start_ns, self.ended = event.t_ns, 0
                return True
            case _:
                self._update_task(event)
        return isinstance(event, MILESTONES)

    def _follow(self, event: Event) -> None:
        """Take in the step of a site's life, if it is one."""
        if isinstance(event, task_events.TaskStarted):
            self.lives.note_task(event)
        who, step = self.lives.take(event) or ("", None)
        if step is not None and step.moves and who in self.topology.site_names:
            text = ACTIVITIES[step.after].format(task=self.lives.site(who).task)
            self.activities[who] = (text, event.t_ns)

    def _describe_end(self, event: run_events.AgentExited) -> str:
        """What follows on an exit, in words."""
        program, before = self.programs.get(event.who), self._restarts[event.who]
        if program is None or event.asked or not program.comes_back(event.status, before):
            return ENDED
        self._restarts[event.who] += 1
        return "to be started again"

    def _note_program(self, who: str, activity: str, t_ns: int) -> None:
        """Note that a program begins or has ended; agents only end."""
        self.activities[who] = (activity, t_ns)
        if self.ended is not None:
            self.ended = sum(
                what == ENDED
                for name, (what, _) in self.activities.items()
                if not self.awaited or name in self.awaited
            )

    def _count_links(self, event: run_events.LinksCounted) -> None:
        """Take the bytes since the last count as sent in that time."""
        self._last_count_ns, since_ns = event.t_ns, self._last_count_ns
        for link in event.links:
            ends = link.src, link.dst
            size = link.bytes - self._counted.get(ends, 0)
            self._counted[ends] = link.bytes
            self._add_sent(Burst(ends, size, since_ns, event.t_ns))

    def _add_sent(self, burst: Burst) -> None:
        self.bytes_moved += burst.bytes
        self._sent.append(burst)
        while self._sent and self._sent[0].end_ns < self.now_ns - WINDOW_S * 1e9:
            self._sent.popleft()

    def _update_task(self, event: Event) -> None:
        match event:
            case task_events.TaskStarted():
                self.start_ns = event.t_ns if self.start_ns is None else self.start_ns
                self.tasks[event.task] = RunningTask(event.group, event.t_ns, set(event.receivers))
            case task_events.TaskFinished() | task_events.TaskDropped() if event.task in self.tasks:
                self.tasks[event.task].unfinished.discard(event.site)
            case task_events.TaskCompleted():
                self.tasks.pop(event.task, None)
                self.completed += 1
            case task_events.TaskAbandoned():
                self.tasks.pop(event.task, None)
                self.abandoned += 1
            case task_events.Evaluated():
                self.accuracy_percent = event.accuracy_percent
            case evaluation_events.ModelEvaluated():
                self.accuracy_percent = event.accuracy_percent
                self.evaluations.take(event.number, event.accuracy_percent)
            case task_events.Sent():
                ends = event.site, event.dst
                self._add_sent(Burst(ends, event.bytes, event.start_ns, event.end_ns))

    def _change_agent(self, who: str, do: str) -> None:
        self.stopped.pop(who, None)
        if do == "kill":
            self._leave_tasks(who)
        if do in STOPPED:
            self.stopped[who] = STOPPED[do]

    def _leave_tasks(self, site: str) -> None:
        for task in self.tasks.values():
            task.unfinished.discard(site)

    def progress(self) -> Progress:
        """How far the run has come."""
        return Progress(
            self.now_ns / 1e9,
            self.rounds + self.rounds_alone,
            self.completed,
            self.bytes_moved,
            self.accuracy_percent,
            self.evaluations.without,
            ended=self.ended,
            abandoned=self.abandoned,
        )

    def activity_of(self, site: str) -> tuple[str, int]:
        """What a site does now, and since when; a fault may have stopped it, or its programs."""
        mine = [who for who in self.activities if who.startswith(f"{site}.")]
        if mine:
            words = (f"{who[len(site) + 1 :]} {self.activity_of(who)[0]}" for who in sorted(mine))
            return ", ".join(words), self.now_ns
        activity, since_ns = self.activities.get(site, ("not begun", self.now_ns))
        return self.stopped.get(site, activity), since_ns

    def loads_mbps(self) -> list[tuple[Directed, float]]:
        """The links that carried something in the last WINDOW_S, the busiest first."""
        from_ns = max(0, self.now_ns - round(WINDOW_S * 1e9))
        moved: dict[Directed, float] = {}
        for sent in self._sent:
            if sent.end_ns >= from_ns:
                inside_ns = sent.end_ns - max(sent.start_ns, from_ns)
                share = inside_ns / max(sent.end_ns - sent.start_ns, 1)
                moved[sent.ends] = moved.get(sent.ends, 0.0) + sent.bytes * share
        of_ns = max(self.now_ns - from_ns, 1)
        found = [(ends, size * 8e3 / of_ns) for ends, size in moved.items()]
        return sorted(found, key=lambda load: (-load[1], load[0]))
