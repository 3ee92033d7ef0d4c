"""Tables of traces in files that other programs have written: CSV, TSV, words (pure).

Cells are separated by semicolons, tabs, `|`, commas or spaces. A first row whose first cell is
neither a number nor a date names the columns; so does a comment before the first row, if it has as
many words and one of them is a time. Lines that begin with `#` are skipped. A number may have a
decimal comma, unless commas separate the cells. `nan`, `null`, `-` and the like are empty cells.
"""

from __future__ import annotations

import csv
import functools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from trunkline.harness.faults.fault_parts import FaultError
from trunkline.harness.faults.recorded.trace_columns import find_time

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
    """The names of a table's columns, empty without a header row, their place, its other rows."""

    names: tuple[str, ...]
    where: str
    rows: Sequence[Row]


@functools.lru_cache(maxsize=1)
def read_table(text: str, name: str, positions: Sequence[str] = ()) -> Table:
    """Read the table in a file's text; `name` is its name in errors.

    With `positions`, the second cell tells whether there is a header row, and these are the columns
    if there is none.

    Raises:
        FaultError: there are no rows, or a row has more cells than the header row.
    """
    if re.match(r"\s*[{\[<]", text):
        raise FaultError(f"{name}: JSON or XML: expected rows with cells, such as CSV")
    numbered = enumerate(map(str.strip, text.removeprefix("\ufeff").split("\n")), 1)
    lines = [(f"{name}:{number}", line) for number, line in numbered if line.strip(",;|\t ")]
    lines = [each for each in lines if not re.fullmatch("sep=.", each[1])]  # of Excel
    start = next((i for i, (_, line) in enumerate(lines) if line[0] != "#"), None)
    if start is None:
        raise FaultError(f"{name}: empty: expected a row or more")
    separator = _find_separator(lines[start][1])
    rows = [(where, _split(line, separator)) for where, line in lines[start:] if line[0] != "#"]
    where, first = rows[0]
    cells = first[1:2] if positions else first
    if not re.match(r"[-+.0-9]", next(filter(None, cells), "0")):
        if not rows[1:]:
            raise FaultError(f"{where}: no rows: expected one or more")
        return _check_width(Table(tuple(first), where, rows[1:]))
    for place, line in lines[max(0, start - 1) : start]:  # a comment
        names = _split(line.lstrip("# "), separator)
        if len(names) == len(first) and any(map(find_time, names)):
            return _check_width(Table(tuple(names), place, rows))
    return _check_width(Table(tuple(positions[: len(first)]), where, rows))


def list_cells(rows: Iterable[Row], column: int) -> list[tuple[str, str]]:
    """(file:line, cell) of a column; the cell is empty in rows that are shorter."""
    return [(where, row[column] if column < len(row) else "") for where, row in rows]


def _check_width(table: Table) -> Table:
    """The table. Raises FaultError if a row has a cell beyond its columns."""
    width = len(table.names)
    for where, row in table.rows:
        if width and any(row[width:]):
            allowed = f"expected {width} as in the header row"
            raise FaultError(f"{where}: {len(row)} cells: {allowed}")
    return table


def _find_separator(line: str) -> str:
    """The separator of cells; empty for spaces, and for lines with one cell."""
    if _WORDS_WITH_COMMAS.fullmatch(line):
        return ""
    return next((each for each in (";", "\t", "|", ",") if each in line), "")


def _split(line: str, separator: str) -> list[str]:
    if separator:
        cells = next(csv.reader([line], delimiter=separator, skipinitialspace=True))
    else:
        cells = next(csv.reader([" ".join(line.split())], delimiter=" "), [])
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
