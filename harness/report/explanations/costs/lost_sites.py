"""When sites counted as lost, and the tasks that they missed (pure)."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from trunkline.agents.events.causes import SiteLost
from trunkline.agents.events.connection_events import WorkerFound, WorkerLost
from trunkline.agents.events.task_events import TaskStarted
from trunkline.harness.record.history import History
from trunkline.harness.report.explanations.fault_search import FaultSearch


@dataclass(frozen=True, slots=True)
class Absence:
    """A site counted as lost at a controller, `until_ns` or to the end of the run (None).

    `missed` is the number of tasks of its group that this controller started without it.
    """

    site: str
    since_ns: int
    until_ns: int | None
    missed: int

    @property
    def seconds(self) -> float:
        """How long it lasted; for ever, if the site was not found again."""
        return math.inf if self.until_ns is None else (self.until_ns - self.since_ns) / 1e9


def list_absences(history: History) -> Iterator[Absence]:
    """When sites counted as lost, in order of the ends; the tasks are those of their groups.

    A task is of a site's group if the run had a task of the same members and this site.
    """
    groups = {frozenset(task.started.group) for task in history.tasks}
    since_ns: dict[tuple[str, str], int] = {}
    missed: dict[tuple[str, str], int] = {}
    for event in history.events:
        match event:
            case WorkerLost():
                since_ns.setdefault((event.site, event.worker), event.t_ns)
            case WorkerFound() if (who := (event.site, event.worker)) in since_ns:
                yield Absence(event.worker, since_ns.pop(who), event.t_ns, missed.pop(who, 0))
            case TaskStarted(site=controller):
                lost = {worker for site, worker in since_ns if site == controller}
                for worker in lost.difference(event.group):
                    others = lost.difference({worker})
                    if _belongs(worker, {*event.group}, others, groups):
                        missed[controller, worker] = missed.get((controller, worker), 0) + 1
    for who, t_ns in since_ns.items():
        yield Absence(who[1], t_ns, None, missed.get(who, 0))


def _belongs(
    site: str, group: set[str], others: Collection[str], groups: Collection[frozenset[str]]
) -> bool:
    """Whether a site would be in a group of these if it were there; others are lost, too."""
    with_it = frozenset({*group, site})
    return any(with_it <= each and each - with_it <= {*others} for each in groups)


def find_absences(history: History, search: FaultSearch) -> dict[int, list[Absence]]:
    """The absences behind which there is a fault, by its number."""
    found = defaultdict[int, list[Absence]](list)
    for absence in list_absences(history):
        span = absence.since_ns, absence.since_ns
        if (fault := search.find_behind(SiteLost(absence.site), (), span)) is not None:
            found[fault].append(absence)
    return dict(found)
