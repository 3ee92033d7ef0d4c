"""What the agents promise: each event of a run is compared with it at once.

`docs/failover.md` states the promises. `Promises.on_event` raises BrokenPromiseError at the first
event that breaks one.
"""

import functools
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from trunkline.agents.events.causes import BudgetSpent, Halting
from trunkline.agents.events.connection_events import BackupTookOver, ControllerLost, WorkerLost
from trunkline.agents.events.event import Event
from trunkline.agents.events.round_events import Ready, RoundAlone, RoundFinished, WorkerFinished
from trunkline.agents.events.task_events import (
    Contributed,
    TaskAbandoned,
    TaskCompleted,
    TaskDropped,
    TaskFinished,
    TaskHalted,
    TaskRearranged,
    TaskReplanned,
    TaskStarted,
)
from trunkline.workloads.synthetic import is_exact


class BrokenPromiseError(AssertionError):
    """A promise is broken; the message says which."""


@dataclass
class Task:
    """What is known of a task, from the events so far. Times are in seconds."""

    started: TaskStarted
    offered: dict[str, int]
    inputs: dict[str, int] = field(default_factory=dict)
    joined: set[str] = field(default_factory=set)
    joined_s: dict[str, float] = field(default_factory=dict)
    finished: dict[str, str] = field(default_factory=dict)
    dropped: set[str] = field(default_factory=set)
    ended: list[str] = field(default_factory=list)
    losses: list[str] = field(default_factory=list)
    halts: list[Halting] = field(default_factory=list)
    replans: Counter[str] = field(default_factory=Counter)

    @property
    def open(self) -> bool:
        """Whether a member has not heard the end, or no controller has ended the task."""
        return not self.ended or bool(self.joined_s)


@dataclass
class Promises:
    """The state of all tasks.

    `reaches(controller, site)` is asked when a task is abandoned or gets new blocks, and then
    `blocks(site, task)`: how many block numbers of the task a site knows.
    `contribution(rank, iteration)` is what a site puts into a task. If contributions are not
    `exact`, which are whole numbers, a result may differ from the sum by rounding, but not from the
    result of another member. A task takes at most `soon_s` from `mended_s` on.
    """

    sites: tuple[str, ...]
    task_s: float
    replans: int
    soon_s: float
    contribution: Callable[[int, int], np.ndarray]
    exact: bool = True
    reaches: Callable[[str, str], bool] = lambda controller, site: True
    blocks: Callable[[str, int], int] = lambda site, task: 0
    tasks: dict[int, Task] = field(default_factory=dict)
    kept: dict[str, str] = field(default_factory=dict)
    ready: set[str] = field(default_factory=set)
    latest: dict[str, int] = field(default_factory=dict)
    mended_s: float = math.inf

    def on_event(self, event: Event, model: np.ndarray | None) -> None:
        """Note an event; `model` is the present model of the site that logs it."""
        match event:
            case TaskStarted():
                self._on_started(event)
            case Contributed():
                self._on_contributed(event)
            case TaskFinished():
                self._on_finished(event, model)
            case TaskDropped():
                self._on_dropped(event)
            case TaskCompleted():
                self._on_completed(event)
            case TaskHalted():
                self.tasks[event.task].halts.append(event.cause)
            case TaskReplanned():
                self._on_replanned(event)
                self._check_numbers(event)
            case TaskRearranged():
                self._check_numbers(event)
            case TaskAbandoned():
                self._on_abandoned(event)
            case BackupTookOver():
                self._begin_term(event.site)
            case WorkerLost():
                self._on_lost(event.worker, f"{event.site} lost {event.worker}")
            case ControllerLost():
                self._on_lost(event.site, f"{event.site} lost its controller")
            case Ready():
                self.ready.add(event.site)
                self.latest[event.site] = event.iteration
            case RoundFinished() | RoundAlone() | WorkerFinished():
                self.ready.discard(event.site)
        reason = getattr(event, "reason", "")
        check("sent garbage" not in reason, f"{event.site}: {reason}")

    def on_killed(self, name: str) -> None:
        """An agent is killed: its model and its state are gone."""
        self.ready.discard(name)
        for task in self.tasks.values():
            if name in task.started.group or name not in self.sites:
                self._note_loss(task, f"{name} was killed")
            task.joined_s.pop(name, None)
            task.finished.pop(name, None)
        self._begin_term(name)

    def _begin_term(self, controller: str) -> None:
        """It does not know how often a task was planned anew before."""
        for task in self.tasks.values():
            task.replans.pop(controller, None)

    def at_end(self) -> None:
        """The run is over."""
        for number, task in self.tasks.items():
            check(not task.joined_s, f"task {number}: {set(task.joined_s)} never left it")
            check(task.ended or task.losses, f"task {number} was ended by no controller")
        check(not self.ready, f"{self.ready} are ready and got no answer")

    def _note_loss(self, task: Task, loss: str) -> None:
        if task.open:
            task.losses.append(loss)

    # -- tasks --------------------------------------------------------------------------------

    def _on_started(self, event: TaskStarted) -> None:
        check(event.task not in self.tasks, f"{event.site} starts a second task {event.task}")
        offered = {site: self.latest[site] for site in event.group if site in self.latest}
        self.tasks[event.task] = Task(event, offered)

    def _on_contributed(self, event: Contributed) -> None:
        task = self.tasks[event.task]
        check(event.site in task.started.group, f"{event.site} is not a member of {event.task}")
        check(event.site not in task.joined, f"{event.site} contributes twice to {event.task}")
        early = task.inputs.get(event.site, event.iteration)
        check(early == event.iteration, f"{event.site} offered {early}: {event}")
        task.joined.add(event.site)
        task.inputs[event.site] = event.iteration
        task.joined_s[event.site] = event.t_ns / 1e9
        self.kept[event.site] = event.digest
        self.ready.discard(event.site)

    def _on_finished(self, event: TaskFinished, model: np.ndarray) -> None:
        task = self.tasks[event.task]
        self._leave(task, event)
        for site in task.started.weights.keys() - task.inputs.keys():
            # Its contribution came early: it is that of its last round before it hears of the task.
            check(site in task.offered, f"task {event.task} has a result without {site}")
            task.inputs[site] = task.offered[site]
        total = sum(
            np.float64(task.started.weights[site])
            * self.contribution(self.sites.index(site), iteration)
            for site, iteration in task.inputs.items()
        )
        wanted = total.astype(np.float32) * np.float32(task.started.scale)
        whole = self.exact and is_exact(task.started.weights.values())
        same = np.array_equal if whole else functools.partial(np.allclose, rtol=1e-4)
        check(same(wanted, model), f"{event.site} installs a wrong sum for task {event.task}")
        task.finished[event.site] = event.digest
        check(len(set(task.finished.values())) == 1, f"task {event.task} has different results")
        self._check_split(task, event)

    def _on_dropped(self, event: TaskDropped) -> None:
        task = self.tasks[event.task]
        self._leave(task, event)
        check(
            event.digest == self.kept[event.site],
            f"{event.site} drops task {event.task} and has another model than before",
        )
        task.dropped.add(event.site)
        self._check_split(task, event)

    def _leave(self, task: Task, event: Event) -> None:
        joined_s = task.joined_s.pop(event.site, None)
        check(joined_s is not None, f"{event.site} is not in task {event.task}: {event}")
        self._check_time(event, joined_s)

    def _check_time(self, event: Event, start_s: float) -> None:
        """A task ends soon after everything was mended; it does not wait for its budget's end."""
        waited_s = event.t_ns / 1e9 - max(start_s, self.mended_s)
        check(waited_s <= self.soon_s, f"{event.site} waited {waited_s:.0f} s: {event}")

    def _on_replanned(self, event: TaskReplanned) -> None:
        if event.holder is None:
            task = self.tasks[event.task]
            spent = isinstance(task.halts[-1], BudgetSpent)
            check(not spent, f"task {event.task} is planned anew after its budget")
            task.replans[event.site] += 1
            check(task.replans[event.site] <= self.replans, f"too many plans: {event}")

    def _check_numbers(self, event: TaskReplanned | TaskRearranged) -> None:
        """No number means two blocks: a member takes chunks of one for chunks of the other."""
        for site in self.tasks[event.task].started.group:
            if self.reaches(event.site, site):
                known = self.blocks(site, event.task)
                check(known <= event.first, f"{site} knows {known} blocks: {event}")

    def _excused(self, task: Task, event: Event) -> bool:
        """Whether somebody was lost during the task, or its budget was spent."""
        return bool(task.losses) or event.t_ns - task.started.t_ns >= self.task_s * 1e9

    def _check_split(self, task: Task, event: Event) -> None:
        check(
            not task.finished or not task.dropped or self._excused(task, event),
            f"task {task.started.task} is split: {set(task.finished)} have its result,"
            f" {task.dropped} gave it up, and no agent was lost",
        )

    def _on_completed(self, event: TaskCompleted) -> None:
        task = self.tasks[event.task]
        task.ended.append(event.site)
        self._check_time(event, task.started.t_ns / 1e9)
        if len(task.ended) > 1:  # a new controller may end a task again
            return
        waiting = set(task.started.group) - set(event.without) - task.finished.keys()
        waiting -= self._killed_since(task, waiting)
        check(not waiting, f"task {event.task} is completed before {waiting} finished")
        check(
            not event.without or self._excused(task, event),
            f"task {event.task} is completed without {event.without}, and no agent was lost",
        )

    def _killed_since(self, task: Task, sites: set[str]) -> set[str]:
        return {site for site in sites if f"{site} was killed" in task.losses}

    def _on_abandoned(self, event: TaskAbandoned) -> None:
        task = self.tasks[event.task]
        task.ended.append(event.site)
        self._check_time(event, task.started.t_ns / 1e9)
        for site in task.finished if len(task.ended) == 1 else ():
            check(
                not self.reaches(event.site, site),
                f"{event.site} abandons task {event.task}, which {site} has finished",
            )

    def _on_lost(self, site: str, loss: str) -> None:
        for task in self.tasks.values():
            if site in task.started.group:
                self._note_loss(task, loss)


def check(holds: object, message: str) -> None:
    """Raise an error unless a promise holds."""
    if not holds:
        raise BrokenPromiseError(message)
