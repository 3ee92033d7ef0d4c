"""A run as a trace for Perfetto: tracks of tasks, sites, links and faults.

    tasks   a slice per row of `tables/tasks.csv`; accuracy and loss as curves
    sites   what each site did: its phases, or its programs, their steps and their calls
    links   a slice per transfer on each directed link; for programs curves of their rates
    faults  an instant for the start and one for the end of each fault

A flow joins the slices of a task: its own, those of its members, and its transfers, in order of
time. Slices of the same track that overlap lie on further lanes (see `trace_tracks`).
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

import pandas as pd

from trunkline.agents.events.event import Event
from trunkline.agents.events.lifecycle import Doing
from trunkline.agents.events.round_events import ComputeStarted
from trunkline.harness.export.rates_over_time import STEPS, find_edges_ns, tabulate_link_rates
from trunkline.harness.export.run_files import RunFiles
from trunkline.harness.export.trace_tracks import Group, Place, Slice, TraceEvent, make_flow
from trunkline.harness.record.link_history import Conditions
from trunkline.harness.record.lives import Interval
from trunkline.harness.record.transfers import transfers
from trunkline.harness.report.activity import find_task_spans

MAX_VALUES = 100_000
"""About the most values of the curves of all links: many links get fewer steps each."""

MIN_STEPS = 20

FIRST_LANE = 10
"""Beyond the numbers of groups: a thread with the number of its process is its main thread."""

PHASES = {Doing.COMPUTING: "compute", Doing.WAITING: "wait for a group"}


def make_trace(run: RunFiles) -> dict[str, Any]:
    """The trace of a run, in the format's form of a JSON object."""
    numbers = itertools.count(FIRST_LANE)
    tasks, sites, links, faults = groups = [
        Group(pid, name, numbers)
        for pid, name in enumerate(("tasks", "sites", "links", "faults"), 1)
    ]
    runs_programs = run.scenario.runs_programs
    for link in () if runs_programs else run.scenario.topology.links:
        links.add_track(f"{link.src} -> {link.dst}")
    done = _list_programs(run) if runs_programs else _list_phases(run)
    places: defaultdict[int, list[Place]] = defaultdict(list)
    for group, slices in (
        (tasks, _list_tasks(run)),
        (sites, done),
        (links, _list_transfers(run)),
    ):
        for task, place in group.add_slices(slices):
            places[task].append(place)
    _add_evaluations(tasks, run)
    if runs_programs:
        _add_rates(links, run)
    _add_faults(faults, run)
    events: list[TraceEvent] = [each for group in groups for each in group.describe()]
    events += [each for group in groups for each in group.events]
    for task, through in places.items():
        events += make_flow(task, f"task {task}", through)
    about = {"scenario": run.scenario.name, "verdict": run.verdict["verdict"]}
    return {"traceEvents": events, "displayTimeUnit": "ms", "otherData": about}


def _list_tasks(run: RunFiles) -> Iterator[Slice]:
    """The rows of the table of tasks; one that never ended lasts until all sites had finished."""
    for row in _rows(run.tables["tasks"]):
        yield Slice(
            track="tasks",
            name=f"task {row['task']} {row['plan']}",
            start_ns=_to_ns(row["start_s"]),
            end_ns=_end_ns(row.get("end_s"), run),
            kind="task",
            values=row,
            task=row["task"],
        )


def _list_phases(run: RunFiles) -> Iterator[Slice]:
    """What each site of a run of agents did, and then what it did for tasks besides."""
    besides = _list_help(run)
    for site in run.scenario.topology.site_names:
        for phase in run.history.phases.get(site, ()):
            yield Slice(
                track=site,
                name=PHASES.get(phase.doing, f"task {phase.task}"),
                start_ns=phase.start_ns,
                end_ns=phase.end_ns,
                kind="site",
                values=_name_iteration(phase.begun),
                task=phase.task,
            )
        yield from besides[site]
        if "branches" in run.tables:
            found = run.tables["branches"]
            for row in _rows(found[found["site"] == site]):
                yield Slice(
                    track=f"{site}: branches",
                    name=row["name"],
                    start_ns=_to_ns(row["start_s"]),
                    end_ns=_to_ns(row["end_s"]),
                    kind="branch",
                    values=row,
                )


def _list_help(run: RunFiles) -> dict[str, list[Slice]]:
    """By site, when it moved payload of tasks in which it is no active member, as servers do."""
    found: defaultdict[str, list[Slice]] = defaultdict(list)
    for task in run.history.tasks:
        spans: defaultdict[str, list[Interval]] = defaultdict(list)
        for (site, _), span in find_task_spans(task).items():
            if site not in task.started.group or task.is_passive(site):
                spans[site].append(span)
        for site, moved in spans.items():
            found[site].append(
                Slice(
                    track=f"{site}: for others",
                    name=f"task {task.number}",
                    start_ns=min(start_ns for start_ns, _ in moved),
                    end_ns=max(end_ns for _, end_ns in moved),
                    kind="help",
                    task=task.number,
                )
            )
    return found


def _list_programs(run: RunFiles) -> Iterator[Slice]:
    """What the programs of each site did: synchronizations, steps and calls, if they report any."""
    history, programs = run.history, run.tables["programs"]
    for site in run.scenario.topology.site_names:
        for row in _rows(programs[programs["site"] == site]):
            for start_ns, end_ns in history.programs.runs(row["program"]):
                span = {"start_ns": start_ns, "end_ns": end_ns}
                yield Slice(track=row["program"], name="run", **span, kind="program", values=row)
        for phase in history.phases.get(site, ()):
            yield Slice(
                track=f"{site}: computing",
                name="compute",
                start_ns=phase.start_ns,
                end_ns=phase.end_ns,
                kind="site",
                values=_name_iteration(phase.begun),
            )
        for sync in history.syncs:
            if site in sync.begun_ns:
                yield Slice(
                    track=f"{site}: synchronizations",
                    name=f"task {sync.number} {sync.operation}",
                    start_ns=sync.begun_ns[site],
                    end_ns=sync.ended_ns.get(site, history.active_end_ns),
                    kind="site",
                    task=sync.number,
                )
        yield from _list_rows(run, "steps", site)
        yield from _list_rows(run, "calls", site)


def _list_rows(run: RunFiles, table: str, site: str) -> Iterator[Slice]:
    """The steps or the calls of a site, with a track per process and thread."""
    found = run.tables.get(table)
    numbered = (
        set()
        if found is None or table != "steps"
        else {row["program"] for row in _rows(found) if "step" in row}
    )
    for row in _rows(found[found["site"] == site]) if found is not None else ():
        process = f" of process {row['process']}" if "process" in row else ""
        thread = f", thread {row['thread']}" if "thread" in row else ""
        unnumbered = "before its first step" if row.get("program") in numbered else "whole run"
        step = f"step {row['step']}" if "step" in row else unnumbered
        duration_s = row.get("duration_s")
        yield Slice(
            track=f"{site}: {table}{process}{thread}",
            name=row.get("call", step),
            start_ns=_to_ns(row["start_s"]),
            end_ns=_end_ns(None if duration_s is None else row["start_s"] + duration_s, run),
            kind=table[:-1],
            values=row,
        )


def _list_transfers(run: RunFiles) -> Iterator[Slice]:
    """Every transfer on every link of its path, as `tables/links.csv` counts them."""
    conditions = Conditions.of(run.history, run.scenario.topology)
    moved = transfers(run.history.tasks, conditions.least_delays_ms)
    for each in conditions.on_links(moved):
        yield Slice(
            track=f"{each.src} -> {each.dst}",
            name=f"task {each.task} {each.phase}",
            start_ns=each.start_ns,
            end_ns=each.end_ns,
            kind="transfer",
            values={"bytes": each.bytes},
            task=each.task,
        )


def _add_rates(links: Group, run: RunFiles) -> None:
    """What links carried in each step in a run of programs, whose transfers are not known."""
    count = len(run.scenario.topology.links)
    steps = min(STEPS, max(MIN_STEPS, MAX_VALUES // max(1, count)))
    rates = tabulate_link_rates(run, find_edges_ns(run, steps=steps))
    times_ns = [_to_ns(t_s) for t_s in rates.index]
    for link in run.scenario.topology.links:
        before = 0.0
        for t_ns, rate_mbps in zip(times_ns, rates[link.src, link.dst], strict=True):
            if rate_mbps != before:
                values = {"Mbit/s": round(rate_mbps, 6)}
                links.add_count(f"{link.src} -> {link.dst}", t_ns, values)
            before = rate_mbps


def _add_evaluations(tasks: Group, run: RunFiles) -> None:
    for row in _rows(run.tables["accuracy"]):
        for column in ("accuracy_percent", "loss"):
            if column in row:
                tasks.add_count(column, _to_ns(row["t_s"]), {"value": row[column]})


def _add_faults(faults: Group, run: RunFiles) -> None:
    for row in _rows(run.tables["faults"]):
        for moment, words in (("start_s", ""), ("end_s", "end of ")):
            if moment in row:
                name = f"{words}{row['text']}"
                faults.add_instant("faults", name, _to_ns(row[moment]), row)


def _name_iteration(begun: Event | None) -> dict[str, int]:
    return {"iteration": begun.iteration} if isinstance(begun, ComputeStarted) else {}


def _rows(table: pd.DataFrame) -> Iterable[dict[str, Any]]:
    """The rows of a table without their empty cells."""
    for row in table.to_dict("records"):
        yield {str(name): value for name, value in row.items() if not pd.isna(value)}


def _to_ns(time_s: float) -> int:
    return round(time_s * 1e9)


def _end_ns(time_s: float | None, run: RunFiles) -> int:
    """The end of something; without one, the time when all sites had finished."""
    return run.history.active_end_ns if time_s is None else _to_ns(time_s)
