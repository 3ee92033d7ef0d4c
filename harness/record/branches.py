"""The forward computations of branches in the order of the log, with their arrivals (pure)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from trunkline.agents.events.fault_events import AgentChanged
from trunkline.agents.events.round_events import BranchArrived, BranchComputed, ComputeFinished
from trunkline.agents.events.task_events import Contributed, TaskDropped
from trunkline.harness.record.history import History, Task
from trunkline.harness.record.lives import Interval


@dataclass(frozen=True, slots=True)
class Computed:
    """The forward computation of one branch at one site.

    `task` brought its parameters, at `arrived_ns`; both are None if they were here before. Before
    it the site waited for `stall_ns`: since the branch before, or since it had joined the task.
    `kept` tells whether the site has finished the iteration with it. If not, the site has forgotten
    it with the task, or was killed, or the log ends before.
    """

    site: str
    iteration: int
    branch: int
    start_ns: int
    end_ns: int
    task: int | None
    arrived_ns: int | None
    stall_ns: int
    kept: bool = False


def list_computed(history: History) -> list[Computed]:
    """Every computation of a branch, in order of its end."""
    arrived_ns = {
        (event.site, event.task, event.branch): event.t_ns for event in history.all(BranchArrived)
    }
    free_ns = _find_joined_ns(history)
    found: list[Computed] = []
    for event in history.all(BranchComputed):
        arrival, stall_ns = None, 0
        if event.task is not None:
            key = event.site, event.task
            # Both times are those of one moment. That of the log is up to microseconds later.
            arrival = min(arrived_ns.get((*key, event.branch), event.start_ns), event.start_ns)
            stall_ns = max(0, event.start_ns - free_ns.get(key, event.start_ns))
            free_ns[key] = event.end_ns
        where = event.site, event.iteration, event.branch
        found.append(Computed(*where, event.start_ns, event.end_ns, event.task, arrival, stall_ns))
    kept = _find_kept(history)
    return [replace(done, kept=index in kept) for index, done in enumerate(found)]


def list_waits(history: History) -> Iterator[tuple[str, Interval]]:
    """Every time in which a site waited for a branch, also for one that never came.

    Such a wait ends when the site gives the task up, when it is killed, or with the log.
    """
    free_ns = _find_joined_ns(history)
    for done in list_computed(history):
        if done.task is not None:
            yield done.site, (done.start_ns - done.stall_ns, done.start_ns)
            free_ns[done.site, done.task] = done.end_ns
    arrived = {(event.site, event.task, event.branch) for event in history.all(BranchArrived)}
    last = max((branch for _, _, branch in arrived), default=0)
    handed_out = {task for _, task, _ in arrived}
    for task in (task for task in history.tasks if task.number in handed_out):
        for site in task.started.receivers:
            is_whole = all((site, task.number, branch) in arrived for branch in range(last + 1))
            since_ns = free_ns.get((site, task.number))
            if since_ns is not None and not is_whole:
                end_ns = _find_end_ns(history, site, task, since_ns)
                yield site, (min(since_ns, end_ns), end_ns)


def _find_joined_ns(history: History) -> dict[tuple[str, int], int]:
    """When each site joined each task."""
    return {
        (event.site, task.number): event.t_ns
        for task in history.tasks
        for event in task.all(Contributed)
    }


def _find_end_ns(history: History, site: str, task: Task, since_ns: int) -> int:
    """When a site that waits for branches of a task no longer does."""
    ends_ns = [event.t_ns for event in task.all(TaskDropped) if event.site == site]
    kills = (each for each in history.all(AgentChanged) if (each.who, each.do) == (site, "kill"))
    ends_ns += [each.t_ns for each in kills if each.t_ns >= since_ns]
    return min(ends_ns, default=history.active_end_ns)


def _find_kept(history: History) -> set[int]:
    """The indexes of the computations of branches with which an iteration was finished."""
    kept: set[int] = set()
    steps: dict[str, tuple[tuple[int, int | None], list[int]]] = {}  # what each site computes
    count = 0
    for event in history.events:
        match event:
            case BranchComputed(site=site, iteration=iteration, task=task):
                if site not in steps or steps[site][0] != (iteration, task):
                    steps[site] = (iteration, task), []
                steps[site][1].append(count)
                count += 1
            case ComputeFinished(site=site, iteration=iteration):
                (computed, _), rows = steps.pop(site, ((-1, None), []))
                if computed == iteration:
                    kept.update(rows)
            case TaskDropped(site=site, task=task):
                if site in steps and steps[site][0][1] == task:
                    del steps[site]
            case AgentChanged(who=who, do="kill"):
                steps.pop(who, None)
    return kept
