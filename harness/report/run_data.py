"""The data of a finished run, of which its report is made (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pandas as pd

from trunkline.harness.checks.verdict import Verdict
from trunkline.harness.record.history import History
from trunkline.harness.record.warm_up import Counted, select_counted
from trunkline.harness.report.tables.link_table import use_interface_counters
from trunkline.harness.scenario.settings import Scenario

if TYPE_CHECKING:
    from trunkline.harness.report.explanations.costs.measured_costs import Measured

Outputs = Mapping[tuple[str, str], str]
"""(program, `out` or `err`) -> the end of what the program wrote there."""


@dataclass(frozen=True, slots=True)
class RunData:
    """The data of a run; `history` ends, and may be empty, where its log could not be read.

    `given` is the scenario's original text, `resolved` the text with every value filled in,
    `outputs` the end of what programs wrote, `measured` what the faults cost it, or None.
    """

    scenario: Scenario
    verdict: Verdict
    history: History
    tables: Mapping[str, pd.DataFrame]
    environment: Mapping[str, Any]
    given: str
    resolved: str
    outputs: Outputs = field(default_factory=dict)
    measured: Measured | None = None

    @property
    def counted(self) -> Counted:
        """What the results of the run count."""
        return Counted.of(self.history, self.scenario.warm_up)

    @property
    def completed(self) -> pd.DataFrame:
        """The rows of completed tasks that the results count."""
        return select_counted(self.tables["tasks"], "completed")

    @property
    def links(self) -> pd.DataFrame:
        """The table of links; for programs with the interfaces' bytes."""
        links = self.tables["links"]
        return use_interface_counters(links, self.history) if self.scenario.runs_programs else links
