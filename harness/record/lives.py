"""What each site did at which time (pure)."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Literal

from trunkline.agents.events.event import Event, TaskEvent
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
from trunkline.agents.events.task_events import (
    Contributed,
    ContributionTaken,
    TaskDropped,
    TaskFinished,
)
from trunkline.harness.record.history import History, Task

Doing = Literal["compute", "wait", "sync"]


@dataclass(frozen=True, slots=True)
class Phase:
    """The activity of a worker from `start_ns` to `end_ns`; `task` is set for `sync` only."""

    doing: Doing
    start_ns: int
    end_ns: int
    task: int | None = None


def phases(history: History) -> dict[str, tuple[Phase, ...]]:
    """The phases of every worker, by site, in order of time. Open phases end with the log.

    A killed worker has no phases until it is started again. A task in which a worker is passive
    does not interrupt it, so a server has no phases.
    """
    found: defaultdict[str, list[Phase]] = defaultdict(list)
    doing: dict[str, Phase] = {}
    tasks = {task.number: task for task in history.tasks}
    for event in history.events:
        site = event.site
        task_ = tasks.get(event.task) if isinstance(event, TaskEvent) else None
        if task_ is not None and _is_aside(event, task_, doing.get(site)):
            continue
        match event:
            case ComputeStarted():
                begun: Phase | None = Phase("compute", event.t_ns, event.t_ns)
            case Ready():
                begun = Phase("wait", event.t_ns, event.t_ns)
            case Contributed(task=task) | SyncStarted(task=task):
                begun = Phase("sync", event.t_ns, event.t_ns, task)
            case TaskFinished() | ContributionTaken() if task_ is not None and task_.waits:
                begun = Phase("wait", event.t_ns, event.t_ns)
            case (
                ComputeFinished()
                | SyncFinished()
                | TaskFinished()
                | ContributionTaken()
                | TaskDropped()
                | RoundFinished()
                | RoundAlone()
                | WorkerFinished()
            ):
                begun = None
            case AgentChanged(who=who, do="kill"):
                site, begun = who, None
            case _:
                continue
        _end(doing.pop(site, None), event.t_ns, found[site])
        if begun is not None:
            doing[site] = begun
    for site, phase in doing.items():
        _end(phase, history.end_ns, found[site])
    return {site: tuple(spans) for site, spans in found.items()}


def _is_aside(event: Event, task: Task, phase: Phase | None) -> bool:
    """Whether a task's event is of a passive member, or of one that has gone on already."""
    if task.is_passive(event.site):
        return True
    over = isinstance(event, ContributionTaken | TaskDropped)
    return over and task.started.roles is not None and (phase is None or phase.task != task.number)


def _end(phase: Phase | None, now_ns: int, into: list[Phase]) -> None:
    if phase is not None:
        into.append(Phase(phase.doing, phase.start_ns, now_ns, phase.task))
