"""Reads `compute: {csv: FILE}` of a workload: measured times of steps, of one device or per site.

The file has a time per row, in seconds or with a unit. A first row may name its columns. `column`
chooses one of them for all sites; without it, a file with several columns has one for each site.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from typing import Any

from trunkline.harness.config import units
from trunkline.harness.config.document import Document, KeyPath, list_choices
from trunkline.harness.faults.fault_parts import FaultError
from trunkline.harness.faults.fault_syntax import Read

MOST_TIMES = 100_000
"""The most measured times of a column: `resolved.yaml` has them."""

PATH: KeyPath = ("workload", "compute")


def expand(source: Document, read: Read) -> None:
    """Write measured times in the place of the file's name; note what is wrong with the file."""
    workload = source.data.get("workload")
    given = workload.get("compute") if isinstance(workload, dict) else None
    if not isinstance(given, dict) or not isinstance(given.get("csv"), str):
        return
    if unknown := given.keys() - {"csv", "column"}:
        source.refuse((*PATH, min(unknown)), "unknown key: expected csv or column")
        workload["compute"] = 0
        return
    try:
        columns = _read_columns(read(given["csv"]), given["csv"])
        workload["compute"] = _choose(columns, given.get("column"))
    except FaultError as error:
        source.refuse((*PATH, "csv"), str(error))
        workload["compute"] = 0  # a right value, so that nothing else is said of it


def _choose(columns: Mapping[str, list[str]], column: Any) -> dict[str, Any]:
    """The times of one column, or of all, each for the site that its name is."""
    if column is None and len(columns) > 1:
        return {site: {"measured": times} for site, times in columns.items()}
    if column is None:
        column = next(iter(columns))
    if column not in columns:
        raise FaultError(f"column {column!r}: {list_choices(columns, str(column))}")
    return {"measured": columns[column]}


def _read_columns(text: str, name: str) -> dict[str, list[str]]:
    """The times by column. Raises FaultError with the line."""
    lines = [line for line in text.splitlines() if line.strip() and line.strip()[0] != "#"]
    rows = [[cell.strip() for cell in row] for row in csv.reader(io.StringIO("\n".join(lines)))]
    if not rows:
        raise FaultError(f"{name}: empty: expected a time of a step per row")
    heads = [str(number) for number in range(len(rows[0]))]
    if None in map(_read_time, rows[0]):
        heads, *rows = rows
    if len(set(heads)) != len(heads) or "" in heads:
        raise FaultError(f"{name}: expected a name for each column, each once")
    if not rows or len(rows) > MOST_TIMES:
        raise FaultError(f"{name}: {len(rows)} rows: expected 1 to {MOST_TIMES}")
    found: dict[str, list[str]] = {head: [] for head in heads}
    for number, row in enumerate(rows, 1):
        if len(row) != len(heads):
            raise FaultError(f"{name}: time {number}: {len(row)} cells, not {len(heads)}")
        for head, cell in zip(heads, row, strict=True):
            if not cell:
                continue
            if (time := _read_time(cell)) is None:
                raise FaultError(f"{name}: time {number}: {cell!r}: expected seconds, or 20 ms")
            found[head].append(time)
    return found


def _read_time(cell: str) -> str | None:
    """A time as a scenario has it; None if the cell has another text."""
    try:
        return units.render(units.parse_cell(cell, units.TIME_S, "s"), units.TIME_S)
    except units.QuantityError:
        return None
