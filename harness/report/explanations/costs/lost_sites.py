"""The tasks that began while a site counted as lost (pure)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from trunkline.agents.events.causes import SiteLost
from trunkline.agents.events.connection_events import WorkerFound, WorkerLost
from trunkline.agents.events.task_events import TaskStarted
from trunkline.harness.record.history import History
from trunkline.harness.report.explanations.fault_search import FaultSearch


@dataclass(frozen=True, slots=True)
class Absence:
    """A site counted as lost at a controller, `until_ns` or to the end of the run (None).

    `missed` is the number of tasks that this controller started meanwhile without the site.
    """

    site: str
    since_ns: int
    until_ns: int | None
    missed: int


def list_absences(history: History) -> Iterator[Absence]:
    """When sites counted as lost and missed tasks, in order of the ends."""
    since_ns: dict[tuple[str, str], int] = {}
    missed: dict[tuple[str, str], int] = {}
    for event in history.events:
        match event:
            case WorkerLost():
                since_ns.setdefault((event.site, event.worker), event.t_ns)
            case WorkerFound() if (who := (event.site, event.worker)) in since_ns:
                if count := missed.pop(who, 0):
                    yield Absence(event.worker, since_ns[who], event.t_ns, count)
                del since_ns[who]
            case TaskStarted():
                for site, worker in since_ns:
                    if site == event.site and worker not in event.group:
                        missed[site, worker] = missed.get((site, worker), 0) + 1
    for (_, worker), count in missed.items():
        yield Absence(worker, since_ns[_, worker], None, count)


def find_absences(history: History, search: FaultSearch) -> dict[int, list[Absence]]:
    """The absences behind which there is a fault, by its number."""
    found = defaultdict[int, list[Absence]](list)
    for absence in list_absences(history):
        span = absence.since_ns, absence.since_ns
        if (fault := search.find_behind(SiteLost(absence.site), (), span)) is not None:
            found[fault].append(absence)
    return dict(found)


def forms_groups(history: History) -> bool:
    """Whether a policy chooses who is in a task: groups differ by more than lost sites."""
    lost: set[tuple[str, str]] = set()
    groups: set[frozenset[str]] = set()
    for event in history.events:
        match event:
            case WorkerLost():
                lost.add((event.site, event.worker))
            case WorkerFound():
                lost.discard((event.site, event.worker))
            case TaskStarted():
                away = {worker for site, worker in lost if site == event.site}
                groups.add(frozenset({*event.group} | away))
    return len(groups) > 1
