"""What each process may say after what: the grammar of a run's log (pure).

A log that lacks an event is incomplete, and so proves nothing: the rounds of a worker, the tasks of
a controller and the run as a whole follow a fixed order, from the first event to the last.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from trunkline.agents.control.termination import ASKED
from trunkline.agents.events.connection_events import (
    BackupStoodDown,
    BackupTookOver,
    ControllerFound,
    ControllerLost,
)
from trunkline.agents.events.event import BACKUP, CONTROLLER, RUNNER, Event
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
from trunkline.agents.events.run_events import (
    AgentExited,
    AgentFailed,
    NetworkReady,
    ProgramsStarted,
    RunFinished,
    RunStarted,
    Stopping,
)
from trunkline.agents.events.task_events import (
    Contributed,
    Evaluated,
    SiteReleased,
    TaskAbandoned,
    TaskCompleted,
    TaskDropped,
    TaskFinished,
    TaskHalted,
    TaskJoined,
    TaskReplanned,
    TaskStarted,
)
from trunkline.agents.wire.agent_settings import TASKS_PER_CONTROLLER
from trunkline.harness.checks.losses import Losses, Term
from trunkline.harness.checks.verdict import Finding, Rules, fail, judged, note
from trunkline.harness.record.history import History

ENDS_AFTER_S = 1e-3
"""A run may end this much before its `stop.time`, in seconds: timers are rounded."""

PROMPT_NS = {"virtual": 100_000, "real": 100_000_000}
"""A worker that has computed takes its next step within this time, by clock."""

RANKS = {CONTROLLER: 0, BACKUP: 1}

HEADER = (
    "scenario",
    "seed",
    "backend",
    "clock",
    "sites",
    "model_bytes",
    "chunk_bytes",
    "policy",
    "plan",
)


def log_is_whole(history: History, rules: Rules) -> Iterator[Finding]:
    """The log has the events that frame a run, once each, and every event belongs to something."""
    wanted: list[type[Event]] = [RunStarted, NetworkReady, RunFinished]
    wanted += [] if rules.programs is None else [ProgramsStarted]
    for kind in wanted:
        times = len(history.all(kind))
        if times != 1:
            yield fail(f"{event_name(kind)} is in the log {times} times")
    if history.events and not isinstance(history.events[0], RunStarted):
        yield fail("the log does not begin with run_started")
    if history.events and not isinstance(history.events[-1], RunFinished):
        yield fail("the log does not end with run_finished")
    for event in history.strays:
        where = f"{event.site} at {_format_time(event.t_ns)}"
        yield fail(f"{where}: {event} belongs to no task or starts one again")
    agents = {*rules.topology.site_names, CONTROLLER, BACKUP, RUNNER}
    for event in history.events:
        if event.site not in agents:
            yield fail(f"{event.site}, which is no agent, logged {event_name(type(event))}")
    yield judged(len(history.events))
    yield note(f"{len(history.tasks) + len(history.syncs)} tasks")


def header_agrees(history: History, rules: Rules) -> Iterator[Finding]:
    """The run began with the values of the scenario, and so did each of its tasks."""
    run = history.run
    if run is None:
        yield fail("the log has no run_started event")
        return
    wanted = rules.started or replace(run, sites=rules.topology.site_names)
    for key in HEADER:
        found, right = getattr(run, key), getattr(wanted, key)
        if key == "sites":
            found, right = sorted(found), sorted(right)
        if found != right:
            yield fail(f"{key} is {found!r} in the log, {right!r} in the scenario")
    yield judged(len(HEADER))
    for task in history.tasks:
        started = task.started
        same = (started.policy, started.plan, started.bytes, started.chunk_bytes)
        if same != (run.policy, run.plan, run.model_bytes, run.chunk_bytes):
            yield fail(f"task {task.number} has another policy, plan, model or chunk than the run")
        for site in sorted({*started.group, *started.weights} - {*rules.topology.site_names}):
            yield fail(f"task {task.number}: {site} is no site")
        yield judged()


def rounds_follow_the_protocol(history: History, rules: Rules) -> Iterator[Finding]:
    """Each worker computes, is ready, joins a task, ends it, and begins the next round."""
    prompt_ns = PROMPT_NS["real" if history.run is None else history.run.clock]
    workers = {site: _Worker(site, prompt_ns) for site in rules.topology.site_names}
    released: defaultdict[str, list[int]] = defaultdict(list)
    for release in history.all(SiteReleased):
        released[release.worker].append(release.t_ns)
    for event in history.events:
        if isinstance(event, AgentChanged):
            if event.who in workers:
                yield from workers[event.who].change(event)
        elif event.site in workers:
            worker = workers[event.site]
            if isinstance(event, RoundFinished) and worker.state == "waiting":
                yield from _take_release(event, worker.ready_ns, released[event.site])
            yield from worker.take(event)
    stop_ns = min((event.t_ns for event in history.all(Stopping)), default=history.end_ns)
    for worker in workers.values():
        # A worker that is started as the run ends has no time to begin.
        ended = worker.state == "restarted" and (
            worker.has_left or worker.restart_ns >= stop_ns - round(rules.detection_s * 1e9)
        )
        if worker.state not in ("left", "dead") and not ended:
            yield fail(f"{worker.site} did not finish: its last step was {worker.state!r}")
        yield judged(worker.steps)
    rounds = len(history.all(RoundFinished)) + len(history.all(RoundAlone))
    yield note(f"{rounds} rounds")


def controllers_follow_the_protocol(history: History, rules: Rules) -> Iterator[Finding]:
    """A controller numbers its tasks without a gap, and begins none after it stops the run."""
    losses = Losses.of(history, rules)
    for event in history.all(TaskStarted):
        if event.site not in RANKS or losses.term_of(event) is None:
            yield fail(f"task {event.task} was started by {event.site}, which was not in charge")
    last: dict[str, int] = {}
    for term in losses.terms:
        yield from _check_numbers(history, term, last, len(rules.topology.sites))
        stops = [event for event in history.all(Stopping) if term.has(event)]
        if len(stops) > 1:
            yield fail(f"the {term.controller} stopped the run {len(stops)} times")
        for started in history.all(TaskStarted):
            if stops and term.has(started) and started.t_ns > stops[0].t_ns:
                yield fail(f"task {started.task} began after the {term.controller} had stopped")
        yield from _check_halts(history, term)
        yield judged()
    yield from _check_turns(history)
    yield note(f"{len(history.tasks)} tasks")


def run_ends_as_written(history: History, rules: Rules) -> Iterator[Finding]:
    """The run stopped for the reason that the log gives, and a stop condition held."""
    stops = history.all(Stopping)
    if not stops:
        yield fail("the log has no stopping event")
        return
    for end in history.all(RunFinished):
        if end.reason not in {stop.reason for stop in stops}:
            yield fail(f"the run ended because of {end.reason!r}, which no controller said")
    if rules.programs is not None and len(stops) > 1:
        yield fail(f"the run stopped {len(stops)} times")
    for stop in stops:
        yield from _check_stop(history, rules, stop)
        yield judged()
    yield note("; ".join(dict.fromkeys(stop.reason for stop in stops)))


def exits_follow_the_protocol(history: History, rules: Rules) -> Iterator[Finding]:
    """The controller and every worker ended with exit code 0, unless a fault killed it.

    Each restart by a fault adds one exit.
    """
    agents = (*(rules.controllers or {CONTROLLER: ""}), *rules.topology.site_names)
    changes = history.all(AgentChanged)
    kills = {(event.who, event.fault) for event in changes if event.do == "kill"}
    for failure in history.all(AgentFailed):
        yield fail(f"{failure.site} gave up: {failure.reason}")
    for who in agents:
        exits = [event for event in history.all(AgentExited) if event.who == who]
        restarts = sum(event.who == who and event.do == "restart" for event in changes)
        if not exits:
            yield fail(f"{who} did not exit before the run ended")
        elif len(exits) != 1 + restarts:
            yield fail(f"{who} exited {len(exits)} times")
        yield judged(len(exits))
    for event in history.all(AgentExited):
        if event.who not in agents:
            yield fail(f"{event.who}, which is no agent of the run, exited")
        if event.fault is not None:
            if (event.who, event.fault) not in kills:
                yield fail(f"{event.who} exited by fault {event.fault}, which did not kill it")
            if (event.signal, event.code) != (9, 0):
                how = f"signal {event.signal} and code {event.code}"
                yield fail(f"{event.who} exited by {how}; a kill gives 9 and 0")
        elif event.signal:
            yield fail(f"{event.who} was ended by signal {event.signal}")
        elif event.code != 0:
            yield fail(f"{event.who} exited with code {event.code}")
    yield note(f"{len(agents)} agents, {len(kills)} kills")


def programs_exited(history: History, rules: Rules) -> Iterator[Finding]:
    """Every program exited once, with code 0 unless it was told to end."""
    programs = rules.programs or ()
    exits = history.all(AgentExited)
    for site in programs:
        times = sum(event.who == site for event in exits)
        if times != 1:
            yield fail(f"the program of {site} exited {times} times")
        yield judged()
    for event in exits:
        if event.who not in programs:
            yield fail(f"{event.who} has no program, but exited")
        if event.signal and not event.asked:
            yield fail(f"the program of {event.who} was ended by signal {event.signal}")
        elif event.code and not event.asked:
            yield fail(f"the program of {event.who} exited with code {event.code}")
    for failure in history.all(AgentFailed):
        yield fail(f"{failure.site}: {failure.reason}")
    asked = sum(bool(event.asked) for event in exits)
    yield note(f"{len(programs) - asked} programs with code 0, {asked} ended on request")


def programs_follow_the_protocol(history: History, rules: Rules) -> Iterator[Finding]:
    """What programs report is in order: each step ends before the site begins the next one."""
    asked = {event.who for event in history.all(AgentExited) if event.asked}
    exited_ns = {event.who: event.t_ns for event in history.all(AgentExited)}
    computing: dict[str, ComputeStarted] = {}
    for event in history.events:
        site = event.site
        if site not in (rules.programs or ()):
            continue
        if event.t_ns > exited_ns.get(site, event.t_ns):
            yield fail(f"{site} reported {event_name(type(event))} after its program had exited")
        match event:
            case ComputeStarted():
                if site in computing:
                    yield fail(f"{site} computes twice at {_format_time(event.t_ns)}")
                computing[site] = event
            case ComputeFinished():
                begun = computing.pop(site, None)
                if begun is None or begun.iteration != event.iteration:
                    yield fail(f"{site} had not begun iteration {event.iteration}, but finished it")
        yield judged()
    for site, begun in computing.items():
        if site not in asked:
            yield fail(f"{site} did not finish iteration {begun.iteration}")


def syncs_ended(history: History, rules: Rules) -> Iterator[Finding]:
    """Each site that began a synchronization ended it; all agree on its size and operation."""
    asked = {event.who for event in history.all(AgentExited) if event.asked}
    meant: defaultdict[int, set[tuple[int, str]]] = defaultdict(set)
    begun: defaultdict[tuple[int, str], list[Event]] = defaultdict(list)
    ended: defaultdict[tuple[int, str], list[Event]] = defaultdict(list)
    for start in history.all(SyncStarted):
        meant[start.task].add((start.bytes, start.operation))
        begun[start.task, start.site].append(start)
    for end in history.all(SyncFinished):
        ended[end.task, end.site].append(end)
    for task, site in sorted(begun.keys() | ended.keys()):
        starts, ends = begun[task, site], ended[task, site]
        counts = len(starts), len(ends)
        if counts != (1, 1) and not (counts == (1, 0) and site in asked):
            yield fail(f"task {task}: {site} began it {counts[0]} times, ended it {counts[1]}")
        elif ends and ends[0].t_ns < starts[0].t_ns:
            yield fail(f"task {task}: {site} ended it before it began")
        yield judged()
    for task, meanings in meant.items():
        if len(meanings) > 1:
            yield fail(f"task {task}: sites disagree about it: {sorted(meanings)}")
    if meant and sorted(meant) != list(range(min(meant), max(meant) + 1)):
        yield fail("the numbers of the reported tasks have a gap")
    yield note(f"{len(meant)} tasks reported")


@dataclass(slots=True)
class _Worker:
    """The state of a worker, by its last event; `rounds` counts those that were not done alone."""

    site: str
    prompt_ns: int
    state: str = "idle"
    iteration: int = 0
    rounds: int = 0
    task: int = -1
    ready_ns: int = 0
    computed_ns: int = 0
    connected: bool = True
    has_left: bool = False
    restart_ns: int = 0
    joined: set[int] = field(default_factory=set)
    steps: int = 0

    def change(self, event: AgentChanged) -> Iterator[Finding]:
        """Take in that a fault killed or restarted the worker."""
        if event.do == "kill":
            self.state = "dead"
        elif event.do == "restart":
            if self.state != "dead":
                yield fail(f"{self.site} was restarted at {_format_time(event.t_ns)}, but ran")
            self.state, self.rounds = "restarted", self.iteration
            self.connected, self.restart_ns = True, event.t_ns
            self.joined.clear()

    def take(self, event: Event) -> Iterator[Finding]:
        """Take in the worker's next event."""
        wanted: tuple[str, ...]
        match event:
            case ComputeStarted(iteration=iteration):
                wanted, after = ("idle", "restarted"), "computing"
                if iteration != self.iteration:
                    yield self._wrong(event, f"it has iteration {iteration}, not {self.iteration}")
                self.iteration = iteration + 1
            case ComputeFinished(iteration=iteration):
                wanted, after = ("computing",), "computed"
                yield from self._check_iteration(event, iteration)
            case Ready(iteration=iteration):
                wanted, after, self.ready_ns = ("computed",), "waiting", event.t_ns
                yield from self._check_iteration(event, iteration)
                if not self.connected:
                    yield self._wrong(event, "it had no controller")
            case TaskJoined(task=task):
                self.joined.add(task)
                wanted, after = (), self.state
                if self.state == "dead":
                    yield self._wrong(event, "the worker is dead")
            case Contributed(task=task, iteration=iteration):
                wanted, after, self.task = ("waiting",), "in a task", task
                yield from self._check_iteration(event, iteration)
                if task not in self.joined:
                    yield self._wrong(event, "it had not joined the task")
            case TaskFinished(task=task):
                wanted, after = ("in a task",), "finished"
                yield from self._check_task(event, task)
            case TaskDropped(task=task):
                wanted, after = ("in a task",), "computed"
                yield from self._check_task(event, task)
            case Evaluated(task=task):
                wanted, after = ("finished",), "finished"
                yield from self._check_task(event, task)
            case RoundFinished(rounds=rounds):
                wanted, after = ("finished", "waiting"), "idle"
                self.rounds += 1
                if rounds != self.rounds:
                    yield self._wrong(event, f"it counts {rounds} rounds, not {self.rounds}")
            case RoundAlone(iteration=iteration):
                wanted, after = ("computed", "waiting"), "idle"
                yield from self._check_iteration(event, iteration)
                yield from self._check_promptness(event)
                if self.connected:
                    yield self._wrong(event, "it had a controller")
            case ControllerLost() | ControllerFound():
                wanted, after = (), self.state
                if isinstance(event, ControllerFound) == self.connected:
                    yield self._wrong(event, "it logged the same before")
                self.connected = not self.connected
            case WorkerFinished(rounds=rounds):
                yield from self._check_promptness(event)
                wanted, after = ("idle", "restarted", "computed", "waiting"), "left"
                self.has_left = True
                if rounds != self.rounds:
                    yield self._wrong(event, f"it counts {rounds} rounds, not {self.rounds}")
            case _:
                return
        if after == "computed":
            self.computed_ns = event.t_ns
        if wanted and self.state not in wanted:
            allowed = " or ".join(map(repr, wanted))
            yield self._wrong(event, f"the worker was {self.state!r}; allowed is {allowed}")
        self.state = after
        self.steps += 1

    def _check_iteration(self, event: Event, iteration: int) -> Iterator[Finding]:
        if iteration != self.iteration - 1:
            yield self._wrong(event, f"it has iteration {iteration}, not {self.iteration - 1}")

    def _check_promptness(self, event: Event) -> Iterator[Finding]:
        """A worker that does not get ready says so as soon as it has computed."""
        if self.state == "computed" and event.t_ns > self.computed_ns + self.prompt_ns:
            yield self._wrong(event, "it was not ready before")

    def _check_task(self, event: Event, task: int) -> Iterator[Finding]:
        if task != self.task:
            yield self._wrong(event, f"the worker was in task {self.task}")

    def _wrong(self, event: Event, why: str) -> Finding:
        place = f"{self.site} at {_format_time(event.t_ns)}: {event_name(type(event))}"
        return fail(f"{place}: {why}")


def _take_release(event: Event, ready_ns: int, releases_ns: list[int]) -> Iterator[Finding]:
    """A worker that goes on without a task was released since it was ready; use up the release."""
    found = [t_ns for t_ns in releases_ns if ready_ns <= t_ns <= event.t_ns]
    if found:
        releases_ns.remove(found[0])
    else:
        place = f"{event.site} at {_format_time(event.t_ns)}"
        yield fail(f"{place}: it finished a round without a task, and was not released")


def _check_numbers(
    history: History, term: Term, last: dict[str, int], sites: int
) -> Iterator[Finding]:
    """The tasks of a term have consecutive numbers; a later term skips as many as there are sites.

    An earlier term may have started that many tasks that no report mentions.
    """
    first = RANKS[term.controller] * TASKS_PER_CONTROLLER
    before = last.get(term.controller)
    wanted = first if before is None else before + 1 + sites
    for event in history.all(TaskStarted):
        if not term.has(event):
            continue
        if event.task != wanted:
            yield fail(f"the {term.controller} started task {event.task}, not task {wanted}")
        wanted = event.task + 1
        last[term.controller] = event.task


def _check_halts(history: History, term: Term) -> Iterator[Finding]:
    """A controller plans a task anew, or ends it without a member, only after it has halted it."""
    for task in history.tasks:
        steps: list[TaskHalted | TaskReplanned | TaskAbandoned | TaskCompleted] = [
            *task.halted,
            *task.replanned,
            *task.abandoned,
            *(event for event in task.completed if event.without),
        ]
        was_whole = len(task.joined) >= len(task.started.group)
        halts = replans = 0
        for event in sorted(steps, key=lambda event: event.t_ns):
            if not term.has(event):
                continue
            halts += isinstance(event, TaskHalted)
            replans += isinstance(event, TaskReplanned)
            if replans > halts or (was_whole and not halts):
                what = event_name(type(event))
                yield fail(f"task {task.number}: {what} by the {term.controller} without a halt")


def _check_turns(history: History) -> Iterator[Finding]:
    """The backup takes over and stands down by turns."""
    acts = False
    for event in history.events:
        match event:
            case BackupTookOver() | BackupStoodDown():
                if isinstance(event, BackupTookOver) == acts:
                    yield fail(f"the backup logged {event_name(type(event))} twice in a row")
                acts = not acts
            case AgentChanged(who="backup", do="kill"):
                acts = False


def _check_stop(history: History, rules: Rules, stop: Stopping) -> Iterator[Finding]:
    """The condition that the reason names held at that time."""
    wanted = rules.stop
    if wanted is None:
        return
    reason = stop.reason
    if wanted.time_s is not None and reason == f"{wanted.time_s:g} s are over":
        if stop.t_ns < (wanted.time_s - ENDS_AFTER_S) * 1e9:
            yield fail(f"{reason!r} was said at {_format_time(stop.t_ns)}")
    elif reason.endswith("tasks are started"):
        started = sum(event.t_ns <= stop.t_ns for event in history.all(TaskStarted))
        if wanted.tasks is None or reason != f"{wanted.tasks} tasks are started":
            yield fail(f"{reason!r} is not the scenario's stop condition")
        elif started < wanted.tasks:
            yield fail(f"{reason!r} was said after {started} tasks")
    elif reason.startswith("accuracy ") and wanted.accuracy_percent is None:
        yield fail(f"{reason!r} is not the scenario's stop condition")
    elif reason.endswith("has done its rounds"):
        yield from _check_rounds(history, wanted.rounds, stop)
    elif reason.endswith("exited"):
        awaited = wanted.exit if isinstance(wanted.exit, tuple) else rules.programs or ()
        exited_ns = {event.who: event.t_ns for event in history.all(AgentExited)}
        for site in awaited:
            if exited_ns.get(site, history.end_ns + 1) > stop.t_ns:
                yield fail(f"{reason!r} was said before {site} exited")
    elif reason == "a program failed":
        exits = [event for event in history.all(AgentExited) if event.t_ns <= stop.t_ns]
        if not any(event.code or event.signal for event in exits):
            yield fail(f"{reason!r} was said, but none had failed")
    elif reason != ASKED and not reason.startswith(("accuracy ", "no site could be reached")):
        yield fail(f"{reason!r} is no reason to stop")


def _check_rounds(history: History, rounds: int | None, stop: Stopping) -> Iterator[Finding]:
    if rounds is None:
        yield fail(f"{stop.reason!r} is not the scenario's stop condition")
        return
    done = [event for event in history.all(WorkerFinished) if event.t_ns <= stop.t_ns]
    if stop.reason == "every site has done its rounds":
        for event in history.all(WorkerFinished):
            if event not in done:
                yield fail(f"{stop.reason!r} was said before {event.site} had finished")


def _format_time(t_ns: int) -> str:
    return f"{t_ns / 1e9:.3f} s"
