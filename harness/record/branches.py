"""The forward computations of branches in the order of the log, with their arrivals (pure)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from trunkline.agents.events.round_events import BranchArrived, BranchComputed
from trunkline.harness.record.history import History


@dataclass(frozen=True, slots=True)
class Computed:
    """The forward computation of one branch at one site.

    `task` brought its parameters, at `arrived_ns`; both are None if they were here before. Before
    it the site waited for `stall_ns`: since the branch before, or since it had joined the task.
    """

    site: str
    iteration: int
    branch: int
    start_ns: int
    end_ns: int
    task: int | None
    arrived_ns: int | None
    stall_ns: int


def list_computed(history: History) -> Iterator[Computed]:
    """Every computation of a branch, in order of its end."""
    arrived_ns = {
        (event.site, event.task, event.branch): event.t_ns for event in history.all(BranchArrived)
    }
    free_ns: dict[tuple[str, int], int] = {
        (event.site, task.number): event.t_ns
        for task in history.tasks
        for event in task.contributed
    }
    for event in history.all(BranchComputed):
        arrival, stall_ns = None, 0
        if event.task is not None:
            key = event.site, event.task
            arrival = arrived_ns.get((*key, event.branch))
            stall_ns = max(0, event.start_ns - free_ns.get(key, event.start_ns))
            free_ns[key] = event.end_ns
        where = event.site, event.iteration, event.branch
        yield Computed(*where, event.start_ns, event.end_ns, event.task, arrival, stall_ns)
