"""All features of reports (pure)."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from trunkline.harness.record.history import History
from trunkline.harness.report.pages.frame import Section
from trunkline.harness.report.parts import (
    accuracy_part,
    awareness_part,
    background_part,
    branches_part,
    calls_part,
    faults_part,
    paths_part,
    programs_part,
    updates_part,
)
from trunkline.harness.report.parts.part import Part
from trunkline.harness.report.run_data import RunData
from trunkline.harness.scenario.settings import Scenario

PARTS = (
    background_part.PART,
    updates_part.PART,
    branches_part.PART,
    accuracy_part.PART,
    faults_part.PART,
    programs_part.PART,
    calls_part.PART,
    awareness_part.PART,
    paths_part.PART,
)
"""Every feature, in the order of its sections on the page."""


def list_parts(scenario: Scenario, history: History) -> list[Part]:
    """The features that a run has."""
    return [part for part in PARTS if part.applies(scenario, history)]


def make_tables(scenario: Scenario, history: History) -> dict[str, pd.DataFrame]:
    """The tables of a run's features, by name."""
    parts = list_parts(scenario, history)
    return {name: table for part in parts for name, table in part.tables(scenario, history).items()}


def list_sections(data: RunData) -> Iterator[Section]:
    """The sections of a run's features."""
    for part in list_parts(data.scenario, data.history):
        yield from part.sections(data)
