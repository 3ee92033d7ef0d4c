"""What a finished run left, read as far as it is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from trunkline.harness.record.history import History
from trunkline.harness.record.run_folder import RunFolder
from trunkline.harness.report import outputs
from trunkline.harness.report.parts.report_parts import TABLES
from trunkline.harness.report.run_data import RunData
from trunkline.harness.report.tables.row import Row
from trunkline.harness.scenario.settings import Scenario


@dataclass(frozen=True)
class RunFiles:
    """A run's tables and verdict, which are in files, and its history, which is in its log.

    Nothing is computed that a file has. If the run was never judged, or if its tables are those of
    another version, they are computed from the log.
    """

    path: Path

    @cached_property
    def tables(self) -> Mapping[str, pd.DataFrame]:
        """The tables by name, with the types that their columns have when they are computed."""
        files = {row: self.path / "tables" / f"{row.table}.csv" for row in TABLES}
        found = {row: _read_table(row, file) for row, file in files.items() if file.exists()}
        known = all([*table] == [*row.columns()] for row, table in found.items())
        if not (known and self._is_judged):
            return self._data.tables
        return {row.table: table for row, table in found.items()}

    @cached_property
    def verdict(self) -> Mapping[str, Any]:
        """The content of `verdict.json`."""
        if self._is_judged:
            return RunFolder(self.path).read_json("verdict.json", missing={})
        return self._data.verdict.to_json()

    @property
    def scenario(self) -> Scenario:
        """The scenario."""
        return self._log[0]

    @property
    def history(self) -> History:
        """The history; it ends where the log could not be read."""
        return self._log[1]

    @property
    def _is_judged(self) -> bool:
        return (self.path / "verdict.json").exists()

    @cached_property
    def _log(self) -> tuple[Scenario, History]:
        if self._is_judged:
            return outputs.read_history(self.path)
        return self._data.scenario, self._data.history

    @cached_property
    def _data(self) -> RunData:
        return outputs.read(self.path)


def _read_table(row: type[Row], file: Path) -> pd.DataFrame:
    kinds = {name: kind for name, (kind, _) in row.columns().items()}
    empty = {name: [""] for name, kind in kinds.items() if kind != "str"}
    return pd.read_csv(file, dtype=kinds, keep_default_na=False, na_values=empty)
