"""From a finished run's folder to its tables, figures and verdict.

Only `events.jsonl` and `resolved.yaml` are read, so a report can be made again at any time, by a
later version, and a verdict never depends on what the run's own processes believed.
"""

from __future__ import annotations

import functools
import importlib
import io
import json
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path

import pandas as pd

from agents.bound import bound
from agents.fluid import estimate
from agents.plan import Plan
from harness import checks, event_lines, sums, tables
from harness.event_lines import EventError
from harness.events import TaskStarted
from harness.history import History, Sync, Task
from harness.network import payload_share
from harness.pages.run import Story, page
from harness.patience import patience
from harness.scenario import Scenario, load
from harness.store import RunFolder
from harness.tables import Forecast
from harness.verdict import Check, Rules, Verdict
from workloads.base import ELEMENT_BYTES, Order, Term, digest

CLOSE_UP_TASKS = 24
"""A run of more tasks than twice these gets a second Gantt chart, of its first so many tasks."""


def build(run_dir: Path) -> Verdict:
    """Make all that a run folder says of its run again, and return the verdict.

    That is `tables/`, `plots/`, `verdict.json` and `report.html`.

    A log with a line that is no event makes the verdict `fail` and nothing else.
    Raises StoreError, and ScenarioErrors for a `resolved.yaml` that is none.
    """
    folder = RunFolder(run_dir)
    text = folder.read_text("events.jsonl")
    folder.read_text("resolved.yaml")
    scenario = load(run_dir / "resolved.yaml")
    history, made = History.of(()), dict[str, pd.DataFrame]()
    try:
        history = History.of(event_lines.read(io.StringIO(text)))
    except EventError as error:
        verdict = Verdict.of([Check("the log is readable", "fail", str(error))])
    else:
        verdict = checks.judge(history, rules(scenario))
        made = _write_tables(folder, scenario, history)
    folder.write_json("verdict.json", verdict.to_json())
    _write_page(folder, scenario, verdict, history, made)
    return verdict


def rules(scenario: Scenario) -> Rules:
    """What the scenario promises, as the checks want it."""
    return Rules(
        topology=scenario.topology,
        task_s=scenario.limits.task_s,
        accuracy_percent=scenario.stop.accuracy_percent,
        expected_digest=_expected_digest(scenario),
        programs=_programs(scenario),
        patience_s=patience(scenario).patience_s,
        has_backup=scenario.failover.backup is not None,
    )


def forecaster(scenario: Scenario) -> Callable[[TaskStarted], Forecast]:
    """What a task should take on the scenario's overlay, by its plan; equal plans are one job.

    Estimate and bound count payload, so links have the rate that TCP's payload can get.
    """
    topology, share = scenario.topology, payload_share(scenario.network.mtu)
    discipline = scenario.scheme.discipline
    rates_mbps = {link: rate * share for link, rate in topology.rates_mbps().items()}
    delays_ms = topology.delays_ms()

    def control_s(site: str) -> float:
        path = topology.path(scenario.controller_site, site)
        return sum(delays_ms[hop] for hop in pairwise(path)) / 1e3

    @functools.lru_cache(maxsize=4096)
    def of_plan(forest: str, chunk_bytes: int, model_bytes: int) -> Forecast:
        plan = Plan.from_json(json.loads(forest))
        sizes = chunk_bytes, model_bytes
        fluid_s = estimate(plan, rates_mbps, *sizes, discipline=discipline)
        delayed_s = estimate(plan, rates_mbps, *sizes, delays_ms, discipline)
        told_s = max(map(control_s, plan.participants()))
        return Forecast(
            estimate_s=fluid_s,
            bound_s=bound(plan, rates_mbps, model_bytes),
            latency_s=delayed_s - fluid_s + told_s,
        )

    def forecast(started: TaskStarted) -> Forecast:
        return of_plan(json.dumps(started.forest), started.chunk_bytes, started.bytes)

    return forecast


def sync_bound(scenario: Scenario) -> Callable[[Sync], float | None]:
    """What no all-reduce of a program's could beat, in seconds; None for other operations."""
    share = payload_share(scenario.network.mtu)
    rates_mbps = {link: rate * share for link, rate in scenario.topology.rates_mbps().items()}

    @functools.cache
    def of_group(group: frozenset[str], size: int) -> float:
        sites = tuple(sorted(group))
        return bound(Plan(sites, sites, 1, ()), rates_mbps, size)

    def of_sync(sync: Sync) -> float | None:
        if sync.operation != "allreduce" or not sync.bytes:
            return None
        return of_group(frozenset(sync.begun_ns), sync.bytes)

    return of_sync


def _programs(scenario: Scenario) -> tuple[str, ...] | None:
    """The sites that run the scenario's own programs, None where agents run."""
    if not scenario.runs_programs:
        return None
    kind = importlib.import_module(f"workloads.{scenario.workload.kind}")
    return tuple(kind.placed(scenario.topology.site_names, scenario.workload.options))


def _expected_digest(scenario: Scenario) -> Callable[[Task], str | None] | None:
    """For a workload whose contributions have a closed form (`expected`), its exact results."""
    kind = importlib.import_module(f"workloads.{scenario.workload.kind}")
    if not hasattr(kind, "expected"):
        return None

    def of_task(task: Task) -> str | None:
        started = task.started
        terms = {
            event.site: Term(
                scenario.topology.rank(event.site),
                event.iteration,
                started.weights[event.site],
            )
            for event in task.inputs
        }
        elements = started.bytes // ELEMENT_BYTES
        parts: list[tuple[sums.Ranges, Order]] = [(((0, elements),), tuple(terms.values()))]
        if not kind.is_exact(started.weights.values()):
            parts = sums.parts(task, terms, elements)
        return (
            digest(kind.expected(scenario.seed, parts, started.scale, elements)) if parts else None
        )

    return of_task


def _write_tables(
    folder: RunFolder, scenario: Scenario, history: History
) -> dict[str, pd.DataFrame]:
    topology = scenario.topology
    sites = topology.site_names
    tasks = tables.tasks(history, forecaster(scenario), sync_bound(scenario))
    made = {
        "tasks": tasks,
        "workers": tables.workers(history, sites),
        "links": tables.links(history, topology),
        "accuracy": tables.accuracy(history),
        "run": tables.run(history, tasks, sites),
        "faults": tables.faults(history),
    }
    for name, table in made.items():
        folder.write_table(name, table)
    if scenario.runs_programs:
        made["links"] = tables.counted(made["links"], history)
    if scenario.outputs.plots:
        _draw(folder, scenario, history, made)
    return made


def _write_page(
    folder: RunFolder,
    scenario: Scenario,
    verdict: Verdict,
    history: History,
    made: Mapping[str, pd.DataFrame],
) -> None:
    environment = json.loads(folder.read_text("environment.json", missing="{}"))
    files = [
        str(path.relative_to(folder.path))
        for path in folder.path.glob("*/*.*")
        if path.parent.name in ("tables", "plots")
    ]
    story = Story(
        scenario=scenario,
        verdict=verdict,
        history=history,
        tables=made,
        environment=environment,
        given=folder.read_text("scenario.yaml", missing=""),
        resolved=folder.read_text("resolved.yaml"),
        files=sorted(files),
    )
    folder.write_text("report.html", page(story))


def _draw(
    folder: RunFolder, scenario: Scenario, history: History, made: Mapping[str, pd.DataFrame]
) -> None:
    from harness import plots  # matplotlib takes a second to load

    sites, tasks, accuracy = scenario.topology.site_names, made["tasks"], made["accuracy"]
    folder.write_figure("gantt", plots.gantt(history, sites))
    if len(tasks) > 2 * CLOSE_UP_TASKS:
        until_s = tasks["end_s"].fillna(tasks["start_s"])[:CLOSE_UP_TASKS].max()
        folder.write_figure("gantt-start", plots.gantt(history, sites, (0.0, until_s)))
    folder.write_figure("tasks", plots.task_times(tasks, history.faults))
    links = plots.link_utilisation(made["links"], sites, scenario.runs_programs)
    folder.write_figure("links", links)
    if len(accuracy):
        target = scenario.stop.accuracy_percent
        figure = plots.accuracy(accuracy, target, scenario.clock, history.faults)
        folder.write_figure("accuracy", figure)
