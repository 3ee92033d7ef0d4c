"""All features of reports (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pandas as pd

from trunkline.harness.background.flows import list_flows
from trunkline.harness.record.history import History
from trunkline.harness.record.warm_up import Counted
from trunkline.harness.report.pages.frame import Section
from trunkline.harness.report.parts import (
    accuracy_part,
    awareness_part,
    background_part,
    branches_part,
    calls_part,
    charges_part,
    faults_part,
    paths_part,
    programs_part,
    updates_part,
)
from trunkline.harness.report.parts.part import Part
from trunkline.harness.report.run_data import RunData
from trunkline.harness.report.tables.forecasts import make_forecaster, make_sync_bound
from trunkline.harness.report.tables.link_table import LinkRow, tabulate_links
from trunkline.harness.report.tables.row import Row
from trunkline.harness.report.tables.run_table import RunRow, tabulate_run
from trunkline.harness.report.tables.task_tables import (
    MemberRow,
    TaskRow,
    tabulate_members,
    tabulate_tasks,
)
from trunkline.harness.report.tables.worker_table import WorkerRow, tabulate_workers
from trunkline.harness.scenario.settings import Scenario

PARTS = (
    background_part.PART,
    updates_part.PART,
    branches_part.PART,
    accuracy_part.PART,
    faults_part.PART,
    programs_part.PART,
    calls_part.PART,
    charges_part.PART,
    awareness_part.PART,
    paths_part.PART,
)
"""Every feature, in the order of its sections on the page."""

TABLES = tuple(
    Row.every[name]
    for name in (
        "tasks", "members", "workers", "links", "accuracy", "faults", "run", "paths", "probes",
        "clocks", "background", "updates", "servers", "branches", "programs", "sites", "traffic",
        "calls", "steps", "charges",
    )
)  # fmt: skip
"""The classes of the rows of all tables, in the order of the docs."""


def list_parts(scenario: Scenario, history: History) -> list[Part]:
    """The features that a run has."""
    return [part for part in PARTS if part.applies(scenario, history)]


def make_tables(scenario: Scenario, history: History) -> dict[str, pd.DataFrame]:
    """The tables of a run, by name."""
    sites, logs_payload = scenario.topology.site_names, not scenario.runs_programs
    flows, counted = list_flows(scenario.background), Counted.of(history, scenario.warm_up)
    forecasts = make_forecaster(scenario), make_sync_bound(scenario)
    tables: dict[type[Row], Iterable[Row]] = {
        TaskRow: tabulate_tasks(history, *forecasts, counted),
        WorkerRow: tabulate_workers(history, sites, logs_payload),
        LinkRow: tabulate_links(history, scenario.topology, flows, logs_payload),
        MemberRow: tabulate_members(history),
    }
    if scenario.runs_programs:
        del tables[MemberRow]
    for part in list_parts(scenario, history):
        tables |= part.tables(scenario, history)
    found = {row.table: row.frame(rows) for row, rows in tables.items()}
    run = tabulate_run(
        history,
        found["tasks"],
        scenario.workers,
        updates=found.get("updates"),
        servers=found.get("servers"),
        branches=found.get("branches"),
        samples=scenario.samples,
        counted=counted,
        stop=scenario.stop,
        logs_payload=logs_payload,
    )
    return {**found, RunRow.table: RunRow.frame([run])}


def list_sections(data: RunData) -> Iterator[Section]:
    """The sections of a run's features."""
    for part in list_parts(data.scenario, data.history):
        yield from part.sections(data)
