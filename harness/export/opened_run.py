"""A finished run for Python and notebooks: its tables as data frames, its verdict, its scenario."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from trunkline.harness.config import document
from trunkline.harness.export.rates_over_time import (
    find_edges_ns,
    tabulate_activity,
    tabulate_link_rates,
)
from trunkline.harness.export.run_files import RunFiles
from trunkline.harness.record.run_folder import RunFolder
from trunkline.harness.report.pages.markup import tag


class NoTableError(KeyError):
    """A run has no table of this name; the text says which there are."""

    def __str__(self) -> str:
        return str(self.args[0])  # a KeyError would show it in quotes


@dataclass(frozen=True, repr=False)
class Run(Mapping[str, pd.DataFrame]):
    """A run's tables by name: `run["tasks"]` is a data frame of `tables/tasks.csv`.

    Tables and verdict are read when they are asked for first: from the run's files, or if the run
    was never judged, from its event log. `docs/tables.md` has the meaning of every column.
    """

    path: Path

    def __getitem__(self, table: str) -> pd.DataFrame:
        tables = self._files.tables
        if table not in tables:
            raise NoTableError(_describe_missing(table, tables))
        return tables[table].copy()

    def __iter__(self) -> Iterator[str]:
        return iter(self._files.tables)

    def __len__(self) -> int:
        return len(self._files.tables)

    @property
    def verdict(self) -> str:
        """`pass`, `fail` or `unknown`."""
        return str(self._files.verdict["verdict"])

    @cached_property
    def scenario(self) -> dict[str, Any]:
        """The scenario with every value filled in, as in `resolved.yaml`."""
        text = RunFolder(self.path).read_text("resolved.yaml")
        found: dict[str, Any] = document.read(text, "resolved.yaml").data
        return found

    def link_rates(self, step_s: float | None = None) -> pd.DataFrame:
        """What links carried in Mbit/s: a row per step of time, a column per link, (src, dst).

        The index `t_s` is the start of each step. Steps last `step_s`, or a 200th of the run.
        In a run of agents it is payload, which the log has by first and last byte of a transfer:
        bytes are spread over the time in between. In a run of programs it is what the interfaces
        counted, headers included.
        """
        return tabulate_link_rates(self._files, find_edges_ns(self._files, step_s))

    def activity(self, step_s: float | None = None) -> pd.DataFrame:
        """The share of time that sites spent in each activity, from 0 to 1.

        Columns are (site, activity), with `computing`, `waiting` and `in a task`; in a run of
        programs with `computing` and `in a call`. Rows are those of `link_rates`.
        """
        return tabulate_activity(self._files, find_edges_ns(self._files, step_s))

    def __repr__(self) -> str:
        return f"<Run {self._name}: {self.verdict}, tables {', '.join(self)}>"

    def _repr_html_(self) -> str:
        """What a notebook shows: the verdict, the numbers of the run, and its tables."""
        (numbers,) = self["run"].to_dict("records")
        shown = {str(key): _write(value) for key, value in numbers.items()}
        rows = [tag("tr", tag("th", key), tag("td", text)) for key, text in shown.items() if text]
        bad = ("fail", "unknown")
        checks = [each for each in self._files.verdict["checks"] if each["outcome"] in bad]
        sizes = ", ".join(f"{name} ({len(table)})" for name, table in self.items())
        return tag(
            "div",
            tag("p", tag("b", self._name), f": {self.verdict}"),
            [tag("p", f"{each['name']}: {each['detail']}") for each in checks],
            tag("table", rows),
            tag("p", f"tables (rows): {sizes}"),
        )

    def _ipython_key_completions_(self) -> list[str]:
        """What Tab completes after `run[`."""
        return list(self)

    @property
    def _name(self) -> str:
        return "/".join(self.path.parts[-2:])

    @cached_property
    def _files(self) -> RunFiles:
        return RunFiles(self.path)


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
    latest = Path("runs") / folder / "latest"
    hint = f"did you mean {latest}? " if folder.parts and latest.exists() else ""
    wanted = f"{hint}expected a run's folder, such as runs/quickstart/latest"
    raise FileNotFoundError(f"{folder}: no such run: {wanted}")


def _describe_missing(name: str, tables: Mapping[str, pd.DataFrame]) -> str:
    holders = [table for table, frame in tables.items() if name in frame]
    column = f"it is a column of {', '.join(holders)}: " if holders else ""
    choices = document.list_choices(tables, None if holders else name)
    return f"{name}: no such table: {column}{choices}"


def _write(value: Any) -> str:
    if pd.isna(value):
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)
