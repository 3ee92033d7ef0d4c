"""What each worker may say after what: the grammar of its events (pure).

A log that lacks an event is incomplete, and so proves nothing: the rounds of a worker follow a
fixed order, from the first event to the last.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from trunkline.agents.events.connection_events import (
    ControllerFound,
    ControllerLost,
    LinkFound,
    LinkLost,
)
from trunkline.agents.events.event import Event, TaskEvent
from trunkline.agents.events.event_writing import event_name
from trunkline.agents.events.fault_events import AgentChanged
from trunkline.agents.events.lifecycle import STEPS, Doing, SiteLife, Step
from trunkline.agents.events.round_events import (
    ComputeFinished,
    ComputeStarted,
    Ready,
    RoundAlone,
    RoundFinished,
    WorkerFinished,
)
from trunkline.agents.events.task_events import (
    Compared,
    Contributed,
    ContributionTaken,
    ModelMerged,
    Sent,
    ServerBegan,
    SiteExcluded,
    SiteReleased,
    TaskCompleted,
    TaskDropped,
    TaskFinished,
    TaskJoined,
)
from trunkline.harness.checks.losses import Losses
from trunkline.harness.checks.rules import Rules
from trunkline.harness.checks.tolerances import HANDED_NS, Tolerances
from trunkline.harness.checks.verdict import Finding, fail, format_time, judged, note, unfinished
from trunkline.harness.record.history import History, Task
from trunkline.harness.record.lives import LivesSoFar

JUDGED = STEPS | {Compared, LinkFound, LinkLost, TaskJoined}
"""The events that are judged here, apart from those of tasks in which a site is passive."""

IDLE = 10
"""A worker begins its next round within this many times that time."""


def workers_follow(history: History, rules: Rules) -> Iterator[Finding]:
    """Each worker computes, is ready, joins a task, ends it, and begins the next round.

    A server only takes part in tasks. A passive member of a task may do anything else meanwhile.
    """
    losses = Losses.of(history, rules)
    tasks = {task.number: task for task in history.tasks}
    lives = LivesSoFar.of(task.started for task in history.tasks)
    workers = {
        site: _Worker(
            site,
            Tolerances.of(history),
            rules.topology.overlay.neighbours(site),
            rules.started is not None,
            tasks,
            site in rules.servers,
            lives.site(site),
            beat_ns=losses.timeout_ns,
            early_ns=losses.detection_ns if rules.scenario.scheme.sends_early else 0,
        )
        for site in rules.topology.site_names
    }
    released: defaultdict[str, list[int]] = defaultdict(list)
    for release in history.all(SiteReleased):
        released[release.worker].append(release.t_ns)
    for event in history.events:
        if isinstance(event, AgentChanged):
            if event.who in workers:
                yield from workers[event.who].change(event)
        elif event.site in workers:
            worker = workers[event.site]
            if isinstance(event, RoundFinished) and worker.life.doing is Doing.WAITING:
                yield from _take_release(event, worker.ready_ns, released[event.site])
            yield from worker.take(event)
    stop_ns = history.stop_ns
    for worker in workers.values():
        yield from _judge_end(history, worker, stop_ns - losses.detection_ns)
    for site, releases_ns in released.items():
        for t_ns in releases_ns:
            since_ns, told_ns = losses.unread_since_ns(t_ns), t_ns + losses.detection_ns
            if not losses.find(losses.without_controller(site), since_ns, told_ns):
                yield fail(f"{site} was released at {format_time(t_ns)}, but did not continue")
    yield from _check_exclusions(history, losses)
    rounds = len(history.all(RoundFinished)) + len(history.all(RoundAlone))
    yield note(f"{rounds} rounds")


def _judge_end(history: History, worker: _Worker, late_ns: int) -> Iterator[Finding]:
    """A worker ends its tasks and its rounds, unless it was killed.

    One that is started after `late_ns`, as the run ends, has no time to begin.
    """
    site, life = worker.site, worker.life
    if life.doing is not Doing.DEAD:
        for task in sorted(life.passive | life.left):
            yield unfinished(history, f"{site} did not end its part of task {task}")
        if worker.owed is not None:
            yield unfinished(history, f"{site} did not merge the result of task {worker.owed}")
    late = worker.has_left or worker.restart_ns >= late_ns
    ended = life.doing in (Doing.LEFT, Doing.DEAD, Doing.SERVING)
    if not ended and not (life.doing is Doing.RESTARTED and late):
        text = f"{site} did not finish: its last step was {str(life.doing)!r}"
        yield unfinished(history, text)
    yield judged(worker.steps)


@dataclass(slots=True)
class _Worker:
    """The state of a worker or a server, by its last event; `rounds` counts those not done alone.

    Attributes:
        life: its state, by the table of a site's life.
        joined: the tasks that it knows, and since when; `joins` counts how often it was asked.
        owed: a task whose result, which came at `finished_ns`, must be merged by the next event.
        committed: the latest iteration that is in its model, or has given an update.
        is_new: whether an iteration was computed for which it has not been ready.
        beat_ns: the longest pause of a worker that has no controller between two rounds.
        early_ns: for how long without a controller it gets ready and sends its contribution early.
        lost_ns: when it lost its controller, or found one.
        idle_ns: when it has to continue after a round; None if it is not known.
    """

    site: str
    allowed: Tolerances
    neighbours: tuple[str, ...] = ()
    begins_whole: bool = True
    tasks: Mapping[int, Task] = field(default_factory=dict)
    is_server: bool = False
    life: SiteLife = field(default_factory=SiteLife)
    iteration: int = 0
    rounds: int = 0
    ready_ns: int = 0
    computed_ns: int = 0
    has_left: bool = False
    restart_ns: int = 0
    joined: dict[int, int] = field(default_factory=dict)
    joins: Counter[int] = field(default_factory=Counter)
    owed: int | None = None
    finished_ns: int = 0
    committed: int = 0
    is_new: bool = False
    lost: dict[str, bool] = field(default_factory=dict)
    steps: int = 0
    beat_ns: int = 0
    early_ns: int = 0
    lost_ns: int = 0
    idle_ns: int | None = None

    def change(self, event: AgentChanged) -> Iterator[Finding]:
        """Take in that a fault killed or restarted the worker."""
        receives_aside = self._receives_aside()  # a kill ends all of its parts
        step = self.life.change(event.do)
        if event.do == "kill" and not receives_aside:
            yield from self._check_promptness(event, step, self.allowed.follow_ns)
        if event.do == "resume":
            self.computed_ns = max(self.computed_ns, event.t_ns)
            if self.idle_ns is not None:
                self.idle_ns = max(self.idle_ns, event.t_ns)
        elif event.do == "kill":
            self.idle_ns = None
        elif event.do == "restart":
            if not step.is_right:
                yield fail(f"{self.site} was restarted at {format_time(event.t_ns)}, but ran")
            self.rounds, self.restart_ns = self.iteration, event.t_ns
            self.joined.clear()
            self.joins.clear()
            self.lost.clear()
            self.owed, self.committed = None, 0

    def take(self, event: Event) -> Iterator[Finding]:
        """Take in the next event of the site."""
        yield from self._check_merge(event)
        number = event.task if isinstance(event, TaskEvent) else None
        was_connected = self.life.connected
        step = self.life.take(type(event), number)
        if step.aside:
            yield from self._take_aside(event, step)
        else:
            yield from self._take_step(event, step, was_connected)
        self.steps += step.aside or type(event) in JUDGED

    def _check_merge(self, event: Event) -> Iterator[Finding]:
        """A result that is merged is merged by the very next event of the site, and only then."""
        owed, self.owed = self.owed, None
        if isinstance(event, ModelMerged):
            if event.task != owed:
                yield self._wrong(event, f"it had no result of task {event.task} to merge")
            elif event.t_ns > self.finished_ns + self.allowed.follow_ns:
                yield self._wrong(event, f"it had the result at {format_time(self.finished_ns)}")
        elif owed is not None:
            yield self._wrong(event, f"it had not merged the result of task {owed}")
        if isinstance(event, TaskFinished):
            self.finished_ns = event.t_ns
            task = self.tasks.get(event.task)
            merges = self.is_server or (task is not None and task.merges)
            self.owed = event.task if merges else None

    def _take_aside(self, event: Event, step: Step) -> Iterator[Finding]:
        match event:
            case Contributed(task=number, iteration=iteration):
                if step.before is Doing.DEAD or (self.is_server and step.before != Doing.SERVING):
                    yield self._wrong(event, f"the site was {str(step.before)!r}")
                if number not in self.joined:
                    yield self._wrong(event, "it had not joined the task")
                else:
                    yield from self._check_contribution(event, self.joined[number])
                if step.inside:
                    yield self._wrong(event, "it was in the task already")
                if not self.is_server and iteration != self.committed:
                    text = f"it has iteration {iteration}, not {self.committed}"
                    yield self._wrong(event, text)
            case (
                TaskFinished(task=number)
                | TaskDropped(task=number)
                | ContributionTaken(task=number)
            ):
                yield from self._check_end(event, number)
                if not step.inside:
                    yield self._wrong(event, "it was not in the task")
                if step.before is Doing.COMPUTED:  # it may have waited for this until it is ready
                    self.computed_ns = event.t_ns

    def _check_end(self, event: Event, number: int) -> Iterator[Finding]:
        """Receivers finish a task; from other members, it takes their contribution."""
        task = self.tasks.get(number)
        receives = task is None or self.site in task.started.receivers
        if isinstance(event, TaskFinished) and not receives:
            yield self._wrong(event, "it is not a receiver of the result")
        if isinstance(event, ContributionTaken) and receives:
            yield self._wrong(event, "it is a receiver of the result")

    def _receives_aside(self) -> bool:
        """Whether a task is still to change the site's model."""
        return any(
            self.site in self.tasks[number].started.receivers for number in self.life.passive
        )

    def _take_step(self, event: Event, step: Step, was_connected: bool) -> Iterator[Finding]:
        match event:
            case ServerBegan() if not self.is_server:
                yield self._wrong(event, "it is not a server")
            case ComputeStarted(iteration=iteration):
                if iteration != self.iteration:
                    yield self._wrong(event, f"it has iteration {iteration}, not {self.iteration}")
                self.iteration = iteration + 1
            case ComputeFinished(iteration=iteration):
                self.is_new = True
                yield from self._check_iteration(event, iteration)
            case Ready():
                yield from self._check_promptness(event, step, self.allowed.follow_ns)
                yield from self._take_ready(event)
            case RoundFinished(rounds=rounds):
                self.rounds += 1
                if rounds != self.rounds:
                    yield self._wrong(event, f"it counts {rounds} rounds, not {self.rounds}")
            case RoundAlone(iteration=iteration):
                self.committed = iteration
                yield from self._check_iteration(event, iteration)
                yield from self._check_promptness(event, step, self.allowed.worker_ns)
                if self.life.connected:
                    yield self._wrong(event, "it had a controller")
            case LinkLost(peer=peer) | LinkFound(peer=peer):
                yield from self._check_link(event, peer)
            case ControllerLost() | ControllerFound():
                yield from self._check_promptness(event, step, self.allowed.follow_ns)
                if self.life.connected == was_connected:
                    yield self._wrong(event, "it logged the same before")
                self.lost_ns = event.t_ns
                if step.before is Doing.WAITING:  # it reports that it is ready
                    self.ready_ns = min(self.ready_ns, event.t_ns)
            case WorkerFinished(rounds=rounds):
                yield from self._check_promptness(event, step, self.allowed.worker_ns)
                self.has_left = True
                if rounds != self.rounds:
                    yield self._wrong(event, f"it counts {rounds} rounds, not {self.rounds}")
            case TaskEvent():
                yield from self._take_task_step(event, step)
        yield from self._finish_step(event, step)

    def _take_ready(self, event: Ready) -> Iterator[Finding]:
        self.ready_ns, self.committed = event.t_ns, event.iteration
        yield from self._check_iteration(event, event.iteration)
        if not self.life.connected and event.t_ns >= self.lost_ns + self.early_ns:
            yield self._wrong(event, "it had no controller")
        new, self.is_new = self.is_new, False  # else it is ready again after a drop
        if new and self._receives_aside():
            yield self._wrong(event, "a task was still to replace its model")

    def _take_task_step(self, event: TaskEvent, step: Step) -> Iterator[Finding]:
        """Check a step of a task in which the site is active."""
        match event:
            case TaskJoined(task=task):
                self.joins[task] += 1
                changes = self.tasks[task].changes if task in self.tasks else ()
                if self.joins[task] > 1 + sum(each.t_ns <= event.t_ns for each in changes):
                    yield self._wrong(event, "it had joined the task, which has no new plan")
                self.joined[task] = event.t_ns
                if step.before is Doing.DEAD:
                    yield self._wrong(event, "the worker is dead")
            case Contributed(task=task, iteration=iteration):
                yield from self._check_iteration(event, iteration)
                if task not in self.joined:
                    yield self._wrong(event, "it had not joined the task")
                elif not self.is_server:
                    since_ns = max(self.joined[task], self.ready_ns)
                    yield from self._check_contribution(event, since_ns)
            case TaskFinished() | ContributionTaken():
                yield from self._check_task(event)
                yield from self._check_end(event, event.task)
                if step.after is Doing.WAITING:  # it may be told so before it knows of the end
                    ended = self.tasks[event.task].all(TaskCompleted)
                    self.ready_ns = min((end.t_ns for end in ended), default=event.t_ns)
            case TaskDropped():
                yield from self._check_task(event)
            case Compared(similarity=similarity):
                yield from self._check_task(event)
                if not -1 <= similarity <= 1:
                    yield self._wrong(event, f"{similarity:g} is not a similarity")

    def _finish_step(self, event: Event, step: Step) -> Iterator[Finding]:
        """Judge the step by the table, and when the worker took it."""
        if isinstance(event, ComputeStarted | WorkerFinished):
            yield from self._check_idleness(event)
        if isinstance(event, RoundFinished | RoundAlone):
            pause_ns = self.beat_ns if isinstance(event, RoundAlone) else 0
            self.idle_ns = event.t_ns + pause_ns
        # Losses of many connections at once take their time.
        is_connection = isinstance(event, LinkLost | LinkFound | ControllerLost | ControllerFound)
        if step.after is Doing.COMPUTED and (step.before is not step.after or is_connection):
            self.computed_ns = event.t_ns
        if self.is_server and step.allowed and not isinstance(event, ServerBegan):
            yield self._wrong(event, "the site is a server")
        if not step.is_right:
            allowed = " or ".join(repr(str(each)) for each in step.allowed)
            text = f"the worker was {str(step.before)!r}; expected {allowed}"
            yield self._wrong(event, text)

    def _check_iteration(self, event: Event, iteration: int) -> Iterator[Finding]:
        if iteration != self.iteration - 1:
            yield self._wrong(event, f"it has iteration {iteration}, not {self.iteration - 1}")

    def _check_link(self, event: LinkLost | LinkFound, peer: str) -> Iterator[Finding]:
        """A link is lost and found by turns; a worker that was restarted begins without links."""
        if peer not in self.neighbours:
            yield self._wrong(event, f"{peer} is not a neighbour")
        is_found = isinstance(event, LinkFound)
        begins_without = self.restart_ns > 0 or not self.begins_whole
        if peer in self.lost and is_found != self.lost[peer]:
            yield self._wrong(event, f"it logged the same of {peer} before")
        elif peer not in self.lost and is_found and not begins_without:
            yield self._wrong(event, f"it had not lost {peer}")
        self.lost[peer] = isinstance(event, LinkLost)

    def _check_promptness(self, event: Event, step: Step, most_ns: int) -> Iterator[Finding]:
        """A worker that has computed is ready, or goes on without a task, at once."""
        waited = event.t_ns > self.computed_ns + most_ns and not self._receives_aside()
        if step.before is Doing.COMPUTED and waited:
            since = format_time(self.computed_ns)
            yield self._wrong(event, f"it might have logged that at {since}")

    def _check_idleness(self, event: Event) -> Iterator[Finding]:
        """A worker continues at once after a round."""
        if self.idle_ns is not None and event.t_ns > self.idle_ns + IDLE * self.allowed.worker_ns:
            yield self._wrong(event, f"it was idle since {format_time(self.idle_ns)}")
        self.idle_ns = None

    def _check_contribution(self, event: Contributed, since_ns: int) -> Iterator[Finding]:
        """A member that is ready, or passive, contributes when it has handed its chunks over."""
        outs = self.tasks[event.task].all(Sent) if event.task in self.tasks else ()
        handed_ns = HANDED_NS * sum(out.chunks for out in outs if out.site == self.site)
        since_ns = max(since_ns, self.computed_ns)
        if event.t_ns > since_ns + self.allowed.follow_ns + handed_ns:
            since = format_time(since_ns)
            yield self._wrong(event, f"it might have contributed at {since}")

    def _check_task(self, event: TaskEvent) -> Iterator[Finding]:
        if event.task != self.life.task:
            yield self._wrong(event, f"the worker was in task {self.life.task}")

    def _wrong(self, event: Event, why: str) -> Finding:
        place = f"{self.site} at {format_time(event.t_ns)}: {event_name(type(event))}"
        return fail(f"{place}: {why}")


def _check_exclusions(history: History, losses: Losses) -> Iterator[Finding]:
    """A worker that is excluded begins no further iteration in the same life."""
    begun = history.all(ComputeStarted)
    lives = [event for event in history.all(AgentChanged) if event.do == "kill"]
    for excluded in history.all(SiteExcluded):
        site, t_ns = excluded.worker, excluded.t_ns
        told_ns = t_ns + losses.detection_ns
        if losses.find(losses.without_controller(site), t_ns, told_ns):
            continue  # it may not have been told
        until_ns = min((e.t_ns for e in lives if e.who == site and e.t_ns > t_ns), default=math.inf)
        yield judged()
        for event in begun:
            if event.site == site and told_ns < event.t_ns < until_ns:
                when = format_time(event.t_ns)
                yield fail(f"{site} was excluded, but began iteration {event.iteration} at {when}")
                break


def _take_release(event: Event, ready_ns: int, releases_ns: list[int]) -> Iterator[Finding]:
    """A worker that continues alone was released since it was ready; use up the release.

    It is the last one: an earlier one may have been lost with the connection.
    """
    found = [t_ns for t_ns in releases_ns if ready_ns <= t_ns <= event.t_ns]
    if found:
        releases_ns.remove(found[-1])
    else:
        place = f"{event.site} at {format_time(event.t_ns)}"
        yield fail(f"{place}: it finished a round without a task, and was not released")
