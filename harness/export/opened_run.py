"""A finished run for Python and notebooks: its tables as data frames, its verdict, its scenario."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from trunkline.harness.export.rates_over_time import (
    find_edges_ns,
    tabulate_activity,
    tabulate_link_rates,
)
from trunkline.harness.record.run_folder import RunFolder
from trunkline.harness.report import outputs
from trunkline.harness.report.pages.markup import tag
from trunkline.harness.report.parts.report_parts import TABLES
from trunkline.harness.report.run_data import RunData
from trunkline.harness.report.tables.row import Row


@dataclass(frozen=True, repr=False)
class Run(Mapping[str, pd.DataFrame]):
    """A run's tables by name: `run["tasks"]` is a data frame of `tables/tasks.csv`.

    Tables and verdict are read when they are asked for first: from the run's files, or if the run
    was never judged, from its event log. `docs/tables.md` has the meaning of every column.
    """

    path: Path

    def __getitem__(self, table: str) -> pd.DataFrame:
        return self._tables[table]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tables)

    def __len__(self) -> int:
        return len(self._tables)

    @cached_property
    def verdict(self) -> str:
        """`pass`, `fail` or `unknown`."""
        return str(self._judgement["verdict"])

    @cached_property
    def scenario(self) -> dict[str, Any]:
        """The scenario with every value filled in, as in `resolved.yaml`."""
        found: dict[str, Any] = yaml.safe_load(RunFolder(self.path).read_text("resolved.yaml"))
        return found

    def link_rates(self, step_s: float | None = None) -> pd.DataFrame:
        """What links carried in Mbit/s: a row per step of time, a column per link, (src, dst).

        The index `t_s` is the start of each step. Steps last `step_s`, or a 200th of the run.
        In a run of agents it is payload, which the log has by first and last byte of a transfer:
        bytes are spread over the time in between. In a run of programs it is what the interfaces
        counted, headers included.
        """
        return tabulate_link_rates(self._data, find_edges_ns(self._data, step_s))

    def activity(self, step_s: float | None = None) -> pd.DataFrame:
        """The share of time that sites spent computing, waiting and in tasks, from 0 to 1.

        Columns are (site, activity), with `computing`, `waiting` and `in a task`. Rows are those of
        `link_rates`.
        """
        return tabulate_activity(self._data, find_edges_ns(self._data, step_s))

    def __repr__(self) -> str:
        return f"<Run {self.path}: {self.verdict}, tables {', '.join(self)}>"

    def _repr_html_(self) -> str:
        """What a notebook shows: the verdict, the numbers of the run, and its tables."""
        (numbers,) = self["run"].to_dict("records")
        known = {str(key): value for key, value in numbers.items() if not pd.isna(value)}
        rows = [tag("tr", tag("th", key), tag("td", _write(known[key]))) for key in known]
        sizes = ", ".join(f"{name} ({len(table)})" for name, table in self.items())
        return tag(
            "div",
            tag("p", tag("b", str(self.path)), f": {self.verdict}"),
            [tag("p", problem) for problem in self._judgement.get("problems", ())],
            tag("table", rows),
            tag("p", f"tables (rows): {sizes}"),
        )

    def _ipython_key_completions_(self) -> list[str]:
        """What Tab completes after `run[`."""
        return list(self)

    @cached_property
    def _data(self) -> RunData:
        return outputs.read(self.path)

    @cached_property
    def _judgement(self) -> Mapping[str, Any]:
        kept = RunFolder(self.path).read_json("verdict.json", missing={})
        return kept or self._data.verdict.to_json()

    @cached_property
    def _tables(self) -> Mapping[str, pd.DataFrame]:
        if not (self.path / "verdict.json").exists():
            return self._data.tables
        files = {row: self.path / "tables" / f"{row.table}.csv" for row in TABLES}
        return {row.table: _read_table(row, file) for row, file in files.items() if file.exists()}


def open_run(path: str | Path) -> Run:
    """Open the folder of a run that has ended, such as `runs/quickstart/latest`.

    Raises FileNotFoundError if there is no run, or one without events.
    """
    folder = Path(path)
    if RunFolder(folder).has_events():
        return Run(folder.resolve())
    if (folder / "latest").exists():
        raise FileNotFoundError(f"{folder}: has several runs: did you mean {folder / 'latest'}?")
    if (folder / "scenario.yaml").exists():
        raise FileNotFoundError(f"{folder}: this run has no events: expected one that began")
    wanted = "expected a run's folder, such as runs/quickstart/latest"
    raise FileNotFoundError(f"{folder}: no such run: {wanted}")


def _read_table(row: type[Row], file: Path) -> pd.DataFrame:
    """A table with the types that its columns have when they are computed."""
    kinds = {name: kind for name, (kind, _) in row.columns().items()}
    empty = {name: [""] for name, kind in kinds.items() if kind != "str"}
    return pd.read_csv(file, dtype=kinds, keep_default_na=False, na_values=empty)


def _write(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
