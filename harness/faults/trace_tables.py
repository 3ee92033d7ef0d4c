"""Tables in files that other programs have written: CSV, TSV, words, JSON (pure).

Cells are separated by semicolons, tabs, `|`, commas or spaces. A first row whose first cell is
neither a number nor a date names the columns. Lines that begin with `#` are skipped. JSON is a list
of objects, an object of columns, an object in each line, or the report of iperf3. A number may have
a decimal comma, unless commas separate the cells. `nan`, `null`, `-` and the like are empty cells.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import starmap
from typing import Any

from trunkline.harness.faults.fault_types import FaultError

Row = tuple[str, list[str]]
"""(file:line, cells)."""

_EMPTY = ("", "-", "nan", "na", "n/a", "null", "none", "nat")
_WORDS_WITH_COMMAS = re.compile(r"[0-9]+(,[0-9]+)?(\s+[0-9]+(,[0-9]+)?)+")
_DECIMAL_COMMA = re.compile(r"(-?[0-9]+(?:\.[0-9]{3})*),([0-9]+)(\s*[A-Za-z%].*)?")
_THOUSANDS = re.compile(r"[0-9]{1,3}(,[0-9]{3})+(\.[0-9]+)?")
_DAY = re.compile(r"[0-9]{4}[-./][0-9]{2}[-./][0-9]{2}")
_CLOCK = re.compile(r"[0-9]{1,2}:[0-9]{2}(:[0-9.]+)?\S*")


@dataclass(frozen=True, slots=True)
class Table:
    """The names of a table's columns, empty without a header row, and its other rows."""

    names: tuple[str, ...]
    rows: Sequence[Row]


def read_table(text: str, name: str) -> Table:
    """Read the table in a file's text; `name` is its name in errors.

    Raises:
        FaultError: there are no rows, or a row has more cells than the first one.
    """
    text = text.removeprefix("\ufeff")
    if text.lstrip()[:1] in ("{", "["):
        return _read_json(text, name)
    rows = [
        (f"{name}:{number}", line)
        for number, line in enumerate(text.splitlines(), 1)
        if line.strip() and not line.lstrip().startswith("#")
    ]
    if not rows:
        raise FaultError(f"{name}: empty: expected a row or more")
    separator = _find_separator(rows[0][1].strip())
    cells = [(where, _split(line, separator)) for where, line in rows]
    width = len(cells[0][1])
    for where, row in cells:
        if len(row) > width and any(row[width:]):
            raise FaultError(f"{where}: {len(row)} cells: expected {width} as in the first row")
    where, first = cells[0]
    begin = next((cell for cell in first if cell), "")
    if re.match(r"[-+.0-9]", begin):
        return Table((), cells)
    if not cells[1:]:
        raise FaultError(f"{where}: no rows: expected one or more")
    return Table(tuple(first), cells[1:])


def _find_separator(line: str) -> str:
    """The separator of cells; empty for spaces, and for lines with one cell."""
    if _WORDS_WITH_COMMAS.fullmatch(line):
        return ""
    return next((each for each in (";", "\t", "|", ",") if each in line), "")


def _split(line: str, separator: str) -> list[str]:
    if separator:
        cells = next(csv.reader([line], delimiter=separator, skipinitialspace=True))
    else:
        cells = line.split()
        if len(cells) > 1 and _DAY.fullmatch(cells[0]) and _CLOCK.fullmatch(cells[1]):
            cells[:2] = [" ".join(cells[:2])]
    return [_clean(cell.strip(), separator) for cell in cells]


def _clean(cell: str, separator: str) -> str:
    if "," in cell:
        if separator == "," and _THOUSANDS.fullmatch(cell):
            return cell.replace(",", "")
        if match := _DECIMAL_COMMA.fullmatch(cell):
            return f"{match[1].replace('.', '')}.{match[2]}{match[3] or ''}"
    return "" if cell.lower() in _EMPTY else cell


def _read_json(text: str, name: str) -> Table:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as whole:
        try:  # an object in each line
            found = [json.loads(line) for line in text.splitlines() if line.strip()]
        except (ValueError, RecursionError):
            raise FaultError(f"{name}: neither CSV nor JSON: {whole}") from None
    if isinstance(found, dict) and isinstance(found.get("intervals"), list):
        found = list(filter(None, map(_read_iperf, found["intervals"])))
    elif isinstance(found, dict):
        columns = {key: _list_values(values) for key, values in found.items()}
        columns = {key: values for key, values in columns.items() if values}
        found = [
            dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=False)
        ]
    if not isinstance(found, list) or not found or not all(isinstance(x, dict) for x in found):
        raise FaultError(f"{name}: expected a JSON list of objects, or the report of iperf3")
    names = tuple(dict.fromkeys(str(key) for row in found for key in row))
    rows = starmap(lambda number, row: (f"{name}: row {number}", row), enumerate(found, 1))
    return Table(names, [(where, [_write(row.get(key)) for key in names]) for where, row in rows])


def _list_values(column: Any) -> list[Any]:
    """The values of a column: pandas writes an object of rows."""
    if isinstance(column, dict):
        return list(column.values())
    return column if isinstance(column, list) else []


def _write(value: Any) -> str:
    return _clean("" if isinstance(value, dict | list | None) else str(value), "")


def _read_iperf(interval: Any) -> dict[str, Any]:
    """The values of an interval of iperf3; empty if it is one to warm up."""
    values = interval.get("sum") if isinstance(interval, dict) else None
    if not isinstance(values, dict) or values.get("omitted"):
        return {}
    words = {"start": "time", "bits_per_second": "rate (bit/s)", "jitter_ms": "jitter (ms)",
             "lost_percent": "loss (%)"}  # fmt: skip
    return {word: values[key] for key, word in words.items() if key in values}


def list_cells(rows: Iterable[Row], column: int) -> list[tuple[str, str]]:
    """(file:line, cell) of a column; the cell is empty in rows that are shorter."""
    return [(where, row[column] if column < len(row) else "") for where, row in rows]
