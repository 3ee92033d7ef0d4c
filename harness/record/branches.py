"""The forward computations of branches in the order of the log, with their arrivals (pure)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from trunkline.agents.events.round_events import BranchArrived, BranchComputed
from trunkline.harness.record.history import History


@dataclass(frozen=True, slots=True)
class Computed:
    """The forward computation of one branch at one site.

    `task` brought its parameters, at `arrived_ns`; both are None if they were here before.
    """

    site: str
    iteration: int
    branch: int
    start_ns: int
    end_ns: int
    task: int | None
    arrived_ns: int | None


def list_computed(history: History) -> Iterator[Computed]:
    """Every computation of a branch, in order of its end."""
    arrived_ns = {
        (event.site, event.task, event.branch): event.t_ns for event in history.all(BranchArrived)
    }
    for event in history.all(BranchComputed):
        arrival = None
        if event.task is not None:
            arrival = arrived_ns.get((event.site, event.task, event.branch))
        where = event.site, event.iteration, event.branch
        yield Computed(*where, event.start_ns, event.end_ns, event.task, arrival)
