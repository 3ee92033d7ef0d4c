"""The numbers of a run as tables (pure).

Times are seconds since the run's start on the run's clock. Unknown values are empty.
`harness.report.columns` says what each column means.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import pandas as pd

from trunkline.agents.events.event import Event
from trunkline.agents.events.lifecycle import Doing
from trunkline.agents.events.round_events import ComputeStarted, RoundAlone, RoundFinished
from trunkline.agents.events.run_events import RunFinished
from trunkline.agents.events.task_events import (
    Compared,
    Contributed,
    Discarded,
    Evaluated,
    Received,
    Routed,
    Sent,
    SiteExcluded,
    TaskDropped,
    TaskFinished,
    TaskJoined,
    TaskStarted,
)
from trunkline.agents.planning.plan import Directed, Edge
from trunkline.harness.background.flows import Flow
from trunkline.harness.checks.network.background_checks import count_payload
from trunkline.harness.record.branches import list_computed
from trunkline.harness.record.history import History, Sync, Task
from trunkline.harness.record.link_history import Conditions
from trunkline.harness.record.lives import Interval
from trunkline.harness.record.transfers import Transfer, transfers, union
from trunkline.harness.record.warm_up import WHOLE, Counted
from trunkline.harness.report import columns, manual_actions, mixing
from trunkline.harness.report.branches import branch_tables
from trunkline.harness.report.updates.server_rates import summarize_rates
from trunkline.harness.report.updates.update_tables import summarize
from trunkline.topologies.model import Topology


@dataclass(frozen=True, slots=True)
class Forecast:
    """A task's expected duration: the fluid estimate of its plan, and the bound of any plan.

    `latency_s` is the propagation to add to the estimate: of every hop of every chunk, and of the
    controller's message that starts the task.
    """

    estimate_s: float
    bound_s: float
    latency_s: float


def tabulate_tasks(
    history: History,
    forecast: Callable[[TaskStarted], Forecast],
    bound_s: Callable[[Sync], float | None] = lambda sync: None,
    counted: Counted = WHOLE,
) -> pd.DataFrame:
    """One row per task, in order of start; synchronizations that programs report come last.

    A task ends when its last member has installed the result, or when it is abandoned. The row of
    a program's synchronization has the operation's name as its plan.
    """
    rows: list[Mapping[str, Any]] = [
        {**_make_task_row(task, forecast(task.started)), "warm_up": place < counted.first_task}
        for place, task in enumerate(history.tasks)
    ]
    rows += [_make_sync_row(sync, bound_s(sync)) for sync in history.syncs]
    return columns.TASKS.frame(rows)


def tabulate_members(history: History) -> pd.DataFrame:
    """One row per task and member, in order of the tasks' starts and of the groups.

    Of several joins or contributions, such as after a member was lost, the first one counts.
    """
    return columns.MEMBERS.frame(
        _describe_member(task, site) for task in history.tasks for site in task.started.group
    )


def _describe_member(task: Task, site: str) -> dict[str, object]:
    steps: tuple[Sequence[Event], ...] = (
        task.all(TaskJoined), task.all(Contributed), task.all(TaskFinished), task.all(TaskDropped),
    )  # fmt: skip
    joined_s, contributed_s, finished_s, dropped_s = (
        next((event.t_ns / 1e9 for event in events if event.site == site), math.nan)
        for events in steps
    )
    return {
        "task": task.number,
        "site": site,
        "contributes": site in task.started.weights,
        "receives": site in task.started.receivers,
        "joined_s": joined_s,
        "contributed_s": contributed_s,
        "finished_s": finished_s,
        "dropped_s": dropped_s,
        "sync_s": finished_s - contributed_s,
    }


def tabulate_workers(history: History, sites: Iterable[str]) -> pd.DataFrame:
    """One row per site, in the given order.

    A worker computes, waits (from ready until it contributes or continues) and synchronizes (from
    its contribution until it installs the result, gives up or continues). Branches that it computes
    while a model arrives count as computing only. A server does none of these, and a worker may
    take part in other tasks meanwhile. Bytes include work for others' tasks.
    """
    spent_ns = _count_spent_ns(history)
    sent: Counter[str] = Counter()
    received: Counter[str] = Counter()
    for task in history.tasks:
        for out in task.all(Sent):
            sent[out.site] += out.bytes
        for into in task.all(Received):
            received[into.site] += into.bytes
    rounds = Counter(event.site for event in history.all(RoundFinished))
    alone = Counter(event.site for event in history.all(RoundAlone))
    similar: defaultdict[str, list[float]] = defaultdict(list)
    for compared in history.all(Compared):
        similar[compared.site].append(compared.similarity)
    excluded_ns: dict[str, int] = {}
    for event in history.all(SiteExcluded):
        excluded_ns.setdefault(event.worker, event.t_ns)
    return columns.WORKERS.frame(
        (
            {
                "site": site,
                "rounds": rounds[site],
                "compute_s": spent_ns[site, Doing.COMPUTING] / 1e9,
                "wait_s": spent_ns[site, Doing.WAITING] / 1e9,
                "sync_s": spent_ns[site, Doing.IN_TASK] / 1e9,
                "bytes_sent": sent[site],
                "bytes_received": received[site],
                "similarity": fmean(similar[site]) if similar[site] else None,
                "excluded_s": excluded_ns[site] / 1e9 if site in excluded_ns else None,
                "rounds_alone": alone[site],
            }
            for site in sites
        ),
    )


def tabulate_links(
    history: History, topology: Topology, flows: Sequence[Flow] = ()
) -> pd.DataFrame:
    """One row per directed link, in the topology's order; `flows` are the background traffic.

    A link is busy from a payload's first byte handed to it to the last byte off it. Goodput is
    payload over busy time, utilisation is goodput over the rate during that time. Both are empty
    for a link that carried nothing.
    """
    conditions = Conditions.of(history, topology)
    delays_ms = conditions.least_delays_ms()
    moved: defaultdict[Directed, list[Transfer]] = defaultdict(list)
    for transfer in conditions.on_links(transfers(history.tasks, delays_ms)):
        moved[transfer.src, transfer.dst].append(transfer)
    counted = {(c.src, c.dst): c for run in history.all(RunFinished) for c in run.links}
    background = count_payload(history, topology, flows)
    rows = []
    for link in topology.links:
        ends = (link.src, link.dst)
        spans = union((transfer.start_ns, transfer.end_ns) for transfer in moved[ends])
        busy_s = sum(end - start for start, end in spans) / 1e9
        size = sum(transfer.bytes for transfer in moved[ends])
        goodput_mbps = size * 8 / 1e6 / busy_s if busy_s else None
        room_bytes = conditions.capacity_bytes(ends, spans)
        counters = counted.get(ends)
        rows.append(
            {
                "src": link.src,
                "dst": link.dst,
                "rate_mbps": conditions.mean_rate_mbps(ends, history.end_ns),
                "delay_ms": delays_ms[ends],
                "bytes": size,
                "interface_bytes": counters.bytes if counters else None,
                "drops": counters.drops if counters else None,
                "busy_s": busy_s,
                "goodput_mbps": goodput_mbps,
                "utilisation_percent": goodput_mbps and 100 * size / room_bytes,
                "background_bytes": background[ends],
            }
        )
    return columns.LINKS.frame(rows)


def use_interface_counters(links: pd.DataFrame, history: History) -> pd.DataFrame:
    """The table of links with the interfaces' bytes as payload, for runs of programs.

    Agents log their payload, programs do not. A link counts as busy while any site synchronizes.
    """
    spans = union((sync.start_ns, sync.end_ns or history.end_ns) for sync in history.syncs)
    busy_s = sum(end - start for start, end in spans) / 1e9 or history.end_ns / 1e9
    table = links.assign(bytes=links["interface_bytes"].fillna(0).astype("int64"), busy_s=busy_s)
    table["goodput_mbps"] = table["bytes"] * 8 / 1e6 / busy_s if busy_s else 0.0
    return table.assign(utilisation_percent=100 * table["goodput_mbps"] / table["rate_mbps"])


def tabulate_accuracy(history: History) -> pd.DataFrame:
    """One row per evaluation, in order of time."""
    return columns.ACCURACY.frame(
        (
            {
                "t_s": event.t_ns / 1e9,
                "task": event.task,
                "site": event.site,
                "accuracy_percent": event.accuracy_percent,
                "loss": event.loss,
                "samples": event.samples,
            }
            for event in history.all(Evaluated)
        ),
    )


def tabulate_paths(history: History) -> pd.DataFrame:
    """One row per path that sites chose; no rows without auxiliary paths.

    An auxiliary path is not an edge of its task's plan. `share_percent` is the path's share of all
    bytes from its first site to its last.
    """
    used: defaultdict[tuple[Edge, bool], list[Routed]] = defaultdict(list)
    moved = Counter[Directed]()
    for task in history.tasks:
        edges = _collect_edges(task) if task.all(Routed) else set()
        for event in task.all(Routed):
            used[event.path, event.path not in edges].append(event)
            moved[event.path[0], event.path[-1]] += event.bytes
    return columns.PATHS.frame(
        (
            {
                "src": path[0],
                "dst": path[-1],
                "path": " ".join(path),
                "auxiliary": auxiliary,
                "tasks": len(events),
                "bytes": (size := sum(event.bytes for event in events)),
                "chunks": sum(event.chunks for event in events),
                "share_percent": 100 * size / moved[path[0], path[-1]],
            }
            for (path, auxiliary), events in sorted(used.items(), key=_sort_by_ends)
        ),
    )


def tabulate_run(
    history: History,
    tasks: pd.DataFrame,
    workers: Sequence[str],
    updates: pd.DataFrame | None = None,
    servers: pd.DataFrame | None = None,
    branches: pd.DataFrame | None = None,
    samples: Callable[[int | None], int] | None = None,
    counted: Counted = WHOLE,
) -> pd.DataFrame:
    """The whole run in one row; `tasks`, `updates` and so on are the tables of these names.

    `samples` gives those of an iteration with this batch, or with the workload's own for None.

    The `workers` are the sites that compute. The window begins after the warm-up and ends when the
    run was told to stop: other rounds do not count, and neither do tasks of the warm-up.
    """
    begin_ns, begin_s = counted.begin_ns, counted.begin_ns / 1e9
    tasks = tasks[~tasks["warm_up"]]
    done = tasks[tasks["outcome"] == "completed"]
    warm = done[len(done) // 2 :]  # the first tasks pay for TCP's slow start
    end_ns = max(begin_ns, history.stop_ns)
    rounds = Counter(e.site for e in history.all(RoundFinished) if begin_ns < e.t_ns <= end_ns)
    each = [rounds[site] for site in workers]
    evaluated = history.all(Evaluated)
    measured = [task for task in history.tasks[counted.first_task :] if task.outcome == "completed"]
    groups = (task.started.weights for task in measured if task.mixes)
    changes = sum(task.updates and (task.end_ns or 0) <= end_ns for task in measured)
    waited_ns = sum(
        max(0, span.end_ns - max(begin_ns, span.start_ns))
        for spans in history.phases.values()
        for span in spans
        if span.doing is Doing.WAITING
    )
    row = {
        "tasks": len(done),
        "abandoned": int((tasks["outcome"] == "abandoned").sum()),
        "task_s": done["duration_s"].mean(),
        "task_median_s": done["duration_s"].median(),
        "task_warm_s": warm["duration_s"].mean(),
        "estimate_s": done["estimate_s"].mean(),
        "latency_s": done["latency_s"].mean(),
        "expected_warm_s": (warm["estimate_s"] + warm["latency_s"]).mean(),
        "bound_s": done["bound_s"].mean(),
        "warm_up_s": begin_s,
        "window_s": (end_ns - begin_ns) / 1e9,
        "rounds": sum(each) / len(each),
        "rounds_least": min(each),
        "samples_per_s": _count_samples(history, begin_ns, end_ns, samples) if samples else None,
        "updates": changes,
        "update_s": (end_ns - begin_ns) / 1e9 / changes if changes else None,
        "rho": mixing.compute_rho(groups, workers),
        "wait_s": waited_ns / 1e9 / sum(rounds.values()) if rounds else None,
        **summarize(_leave_out(updates, "t_s", begin_s)),
        **summarize_rates(_leave_out(servers, "t_s", begin_s), end_ns / 1e9),
        **branch_tables.summarize(branches, history, begin_s),
        "bytes_sent": int(tasks["bytes_sent"].sum()),
        "accuracy_percent": evaluated[-1].accuracy_percent if evaluated else None,
        "ended": manual_actions.describe_end(history),
        "by_hand": manual_actions.describe_actions(history),
    }
    return columns.RUN.frame([row])


def _leave_out(table: pd.DataFrame | None, column: str, begin_s: float) -> pd.DataFrame | None:
    """A table without the rows of the warm-up."""
    return table if table is None or not begin_s else table[table[column] >= begin_s]


def _count_samples(
    history: History, begin_ns: int, end_ns: int, samples: Callable[[int | None], int]
) -> float | None:
    """The samples of the rounds that ended after `begin_ns` and up to `end_ns`, per second."""
    batches: dict[str, int | None] = {}
    total = 0
    for event in history.events:
        if isinstance(event, ComputeStarted):
            batches[event.site] = event.batch
        elif isinstance(event, RoundFinished) and begin_ns < event.t_ns <= end_ns:
            total += samples(batches.get(event.site))
    return total * 1e9 / (end_ns - begin_ns) if end_ns > begin_ns else None


def _count_spent_ns(history: History) -> Counter[tuple[str, Doing]]:
    """The time that each site computed, and that it waited or synchronized without computing."""
    spans: defaultdict[tuple[str, Doing], list[Interval]] = defaultdict(list)
    for site, done in history.phases.items():
        for phase in done:
            spans[site, phase.doing].append((phase.start_ns, phase.end_ns))
    for branch in list_computed(history):
        spans[branch.site, Doing.COMPUTING].append((branch.start_ns, branch.end_ns))
    spent_ns: Counter[tuple[str, Doing]] = Counter()
    for (site, doing), intervals in tuple(spans.items()):
        computing = spans[site, Doing.COMPUTING]
        spent_ns[site, doing] = _measure_ns(computing)
        if doing is not Doing.COMPUTING:
            spent_ns[site, doing] = _measure_ns([*intervals, *computing]) - _measure_ns(computing)
    return spent_ns


def _measure_ns(intervals: Iterable[Interval]) -> int:
    return sum(end_ns - start_ns for start_ns, end_ns in union(intervals))


def _sort_by_ends(item: tuple[tuple[Edge, bool], Any]) -> tuple[str, str, bool, Edge]:
    """A sort key: first site, last site, then edges of the plan before auxiliary paths."""
    (path, auxiliary), _ = item
    return path[0], path[-1], auxiliary, path


def _collect_edges(task: Task) -> set[Edge]:
    """The edges of the task's plan and of all plans that replaced it."""
    return {edge for block in task.blocks for edge in (*block.in_edges, *block.out_edges)}


def _make_task_row(task: Task, forecast: Forecast) -> Mapping[str, Any]:
    started = task.started
    return {
        "task": started.task,
        "plan": started.plan,
        "policy": started.policy,
        "group": " ".join(started.group),
        "bytes": started.bytes,
        "bytes_sent": sum(sent.bytes for sent in task.all(Sent)),
        "bytes_discarded": sum(discarded.bytes for discarded in task.all(Discarded)),
        "start_s": started.t_ns / 1e9,
        "end_s": None if task.end_ns is None else task.end_ns / 1e9,
        "duration_s": task.duration_s,
        "estimate_s": forecast.estimate_s,
        "latency_s": forecast.latency_s,
        "bound_s": forecast.bound_s,
        "outcome": task.outcome,
    }


def _make_sync_row(sync: Sync, bound_s: float | None) -> Mapping[str, Any]:
    return {
        "task": sync.number,
        "plan": sync.operation,
        "policy": "program",
        "group": " ".join(sorted(sync.begun_ns)),
        "bytes": sync.bytes,
        "start_s": sync.start_ns / 1e9,
        "end_s": None if sync.end_ns is None else sync.end_ns / 1e9,
        "duration_s": sync.duration_s,
        "bound_s": bound_s,
        "outcome": "unfinished" if sync.end_ns is None else "completed",
        "warm_up": False,
    }
