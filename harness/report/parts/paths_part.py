"""The paths that sites chose, in a report (pure)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from trunkline.agents.events.task_events import Routed
from trunkline.agents.planning.plan import Directed, Edge
from trunkline.harness.record.history import History
from trunkline.harness.report.parts.part import Part
from trunkline.harness.report.tables.row import Row, column


class PathRow(Row, table="paths"):
    """One row per path that sites chose; only with auxiliary paths (`scheme.auxiliary`)."""

    src: str = column("its first site")
    dst: str = column("its last site")
    path: str = column("all its sites")
    auxiliary: bool = column("whether it is an auxiliary path, not an edge of the plan")
    tasks: int = column("tasks that used it")
    bytes: int = column("payload that took it")
    chunks: int = column("chunks that took it")
    share_percent: float = column("its share of all bytes from its first site to its last")


def tabulate_paths(history: History) -> Iterator[PathRow]:
    """One row per path that sites chose: by first and last site, edges of the plan first.

    An auxiliary path is not an edge of its task's plan, or of a plan that replaced it.
    """
    used: defaultdict[tuple[Edge, bool], list[Routed]] = defaultdict(list)
    moved = Counter[Directed]()
    for task in history.tasks:
        blocks = task.blocks if task.all(Routed) else ()
        edges = {edge for block in blocks for edge in (*block.in_edges, *block.out_edges)}
        for event in task.all(Routed):
            used[event.path, event.path not in edges].append(event)
            moved[event.path[0], event.path[-1]] += event.bytes
    for path, auxiliary in sorted(used, key=lambda key: (key[0][0], key[0][-1], key[1], key[0])):
        events = used[path, auxiliary]
        size = sum(event.bytes for event in events)
        yield PathRow(
            src=path[0],
            dst=path[-1],
            path=" ".join(path),
            auxiliary=auxiliary,
            tasks=len(events),
            bytes=size,
            chunks=sum(event.chunks for event in events),
            share_percent=100 * size / moved[path[0], path[-1]],
        )


PART = Part(
    applies=lambda scenario, history: scenario.scheme.has_paths,
    tables=lambda scenario, history: {PathRow: tabulate_paths(history)},
)
