"""Tables of numbers on a page, and the comments that say what made them (pure).

A comment before a table names it and the command that makes it:

    <!-- table: group-size
    $ trunkline reproduce r2sp/18 --fluid --trials 1 --set 'stop.time=180 s'
    show: fluid rounds
    corner: clients in a group
    columns: {2: "64", 4: "32", 8: "16"}
    rows: {rounds: }
    made: 2026-11-23 14:05 at 1dac291
    -->

After the commands follows YAML. `rows` and `columns` map the labels of the table to what they
select: values of varied keys as `--vary` has them, or a part of a mapping (`{plan: crew}`); several
values are a list. `run 2` selects the second command. A mapping `{of: VALUES, show: QUANTITY}` also
sets what is shown. A cell is the one result that its row and its column select. `by hand` keeps the
cells that the page has: values of the paper, which the label names. A label with ` | ` is more than
one column, and so is `corner`, the title of the labels.

QUANTITY is `[fluid] COLUMN [ratio | speed-up | ms]`: a column of tables/cells.csv or, with `fluid`,
of tables/fluid.csv; its ratio to the first cell, or the inverse; milliseconds for a column in s.

The table of a script is what it prints: without rows and columns. A table that nothing measures or
computes has `specification: WHAT` instead of a command; `made` is its last change.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

import yaml
from pydantic import BaseModel, Field, ValidationError, model_validator

BY_HAND = "by hand"
TINY = 1e-9
"""Relative width below which an interval is the rounding of equal values."""
TABLE = re.compile(
    r"^```.*?^```$"  # tables of fenced blocks are none
    r"|(?P<comment>^<!-- table:(?P<name>[^\n]*)\n(?P<text>((?!-->)[^\n]*\n)*)-->\n)?"
    r"(?P<rows>(^\|[^\n]*\n)+)"
    r"|(?P<bad>^<!-- table:[^\n]*)",
    re.MULTILINE | re.DOTALL,
)
COUNTS = ("trials", "met", "pass")
"""Quantities that are whole numbers: `met` counts the trials that met all expectations."""
Show = Annotated[str, Field(pattern=r"^((fluid )?\w+( ratio| speed-up| ms)?)?$")]
Result = tuple[Sequence[str], Mapping[str, float]]
"""The values of a cell's keys, and its numbers: `x`, `x_low`, `x_ratio`, `fluid x` and so on."""


class MarkerError(ValueError):
    """A comment or its table is wrong; the text says where, what, and what is allowed."""


class Line(BaseModel, extra="forbid"):
    """A row or a column: the values that it selects, and what it shows ("" if open)."""

    of: tuple[str, ...] = ()
    show: Show = ""
    by_hand: bool = False

    @model_validator(mode="before")
    @classmethod
    def _read(cls, data: Any) -> Any:
        if data == BY_HAND:
            return {"by_hand": True}
        data = data if isinstance(data, dict) else {"of": data}
        of = data.get("of") or ()
        return data | {"of": (of,) if isinstance(of, str) else of}


class Marker(BaseModel, extra="forbid"):
    """What the comment before a table says."""

    name: Annotated[str, Field(pattern="^[a-z0-9-]+$")]
    commands: tuple[str, ...]
    specification: str = ""
    corner: str = ""
    show: Show = ""
    rows: dict[str, Line] = {}
    columns: dict[str, Line] = {}
    made: Annotated[str, Field(pattern=r"^(\d{4}-\d\d-\d\d( \d\d:\d\d)?( at \w+\+?)?)?$")] = ""

    @property
    def heads(self) -> list[str]:
        """The cells of the table's first row."""
        return [*split(self.corner), *map(str.strip, self.columns)]

    def list_cells(self) -> Iterator[tuple[str, str, tuple[str, ...], str]]:
        """Row, column, selected values and quantity of each cell that a command makes."""
        for row, line in self.rows.items():
            for column, other in self.columns.items():
                if not (line.by_hand or other.by_hand):
                    yield row, column, line.of + other.of, line.show or other.show or self.show


def find_tables(text: str) -> Iterator[tuple[Marker | None, list[str]]]:
    """The tables of a page: their comments and rows. Raises MarkerError."""
    for found in TABLE.finditer(text):
        if found["bad"]:
            raise MarkerError(f"{found['bad']}: expected --> and a table in the next line")
        if found["rows"]:
            yield _read_marker(found) if found["comment"] else None, found["rows"].splitlines()


def _read_marker(found: re.Match[str]) -> Marker:
    name, text = found["name"].strip(), re.sub(r" *\\\n *", " ", found["text"])
    commands = re.findall(r"^\$ (.*)", text, re.MULTILINE)
    try:
        # All values stay texts.
        data = yaml.load(re.sub(r"(?m)^\$ .*", "", text), yaml.BaseLoader) or {}
        return Marker.model_validate({"name": name, "commands": commands, **data})
    except ValidationError as error:
        said = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
    except (yaml.YAMLError, TypeError) as error:
        said = f"this is no mapping: {' '.join(str(error).split())}"
    raise MarkerError(f"{name}: {said}")


def replace_table(text: str, name: str, rows: Sequence[str], made: str) -> str:
    """The page with the named table written anew, and `made` in its comment."""

    def write(found: re.Match[str]) -> str:
        if (found["name"] or "").strip() != name:
            return found[0]
        kept = re.sub(r"(?m)^made:.*\n", "", found["text"])
        return f"<!-- table:{found['name']}\n{kept}made: {made}\n-->\n" + "\n".join([*rows, ""])

    return TABLE.sub(write, text)


def check_labels(marker: Marker, rows: Sequence[str]) -> None:
    """Raise MarkerError unless the table has the heads and the labels of rows of its comment."""
    wide = len(split(marker.corner))
    found = [split_row(rows[0]), *(split_row(row)[:wide] for row in rows[2:])]
    expected = [marker.heads, *map(split, marker.rows)]
    for ours, theirs in itertools.zip_longest(found, expected, fillvalue=["no row"]):
        if ours != theirs:
            raise MarkerError(
                f"{marker.name} has {' | '.join(ours)}: expected {' | '.join(theirs)}"
            )


def render(marker: Marker, results: Sequence[Result], old: Sequence[str]) -> list[str]:
    """The rows of a table; cells by hand are those of the old one. Raises MarkerError."""
    cells: dict[tuple[str, str], str] = {}
    if any(line.by_hand for line in (*marker.rows.values(), *marker.columns.values())):
        check_labels(marker, old)
        for row, line in zip(marker.rows, old[2:], strict=True):
            kept = split_row(line)[-len(marker.columns) :]
            cells |= {(row, column): kept[n] for n, column in enumerate(marker.columns)}
    for row, column, of, show in marker.list_cells():
        cells[row, column] = format_quantity(show, select(f"{row}, {column}", of, results)[1])
    written = [marker.heads, ["---"] * len(marker.heads)]
    for row in marker.rows:
        written.append([*split(row), *(cells[row, column] for column in marker.columns)])
    return ["|" + "|".join(f" {cell} " if cell else " " for cell in row) + "|" for row in written]


def select(where: str, wanted: Sequence[str], results: Sequence[Result]) -> Result:
    """The only result that has all of the wanted values. Raises MarkerError."""

    def has_part(value: str, wanted: str) -> bool:
        whole, part = (yaml.load(text, yaml.BaseLoader) for text in (value, wanted))
        return isinstance(whole, dict) and isinstance(part, dict) and part.items() <= whole.items()

    left = list(results)
    for value in wanted:
        exact = [each for each in left if value in each[0]]
        left = exact or [each for each in left if any(has_part(own, value) for own in each[0])]
    if len(left) != 1:
        some = "; ".join(", ".join(values) for values, _ in (left or results)[:4])
        raise MarkerError(f"{where}: selects {len(left)} results instead of one, such as {some}")
    return left[0]


def format_quantity(show: str, numbers: Mapping[str, float]) -> str:
    """The text of a quantity with its interval; empty if it is unknown. Raises MarkerError."""
    column, form = find_column(show), show.rpartition(" ")[2]
    name = column + "_ratio" * (form in ("ratio", "speed-up"))
    if name not in numbers:
        raise MarkerError(f"show: {show}: the results have no {name}")
    factor = 1000 if form == "ms" else 1
    bounds = (numbers.get(name + end, math.nan) for end in ("", "_low", "_high"))
    mean, low, high = (factor * each for each in bounds)
    if form == "speed-up":
        mean, low, high = 1 / mean, 1 / high, 1 / low
    if math.isnan(mean):
        return ""
    half = (high - low) / 2
    if name in COUNTS or (name == column and not max(abs(mean), half) > TINY):
        return f"{mean:.0f}"
    known = half > TINY * abs(mean)
    # An interval has two digits, its mean as many decimals and at most four digits, else three.
    places = max(0, 2 - _find_power(mean))
    if known:
        places = min(1 - _find_power(half), 3 - _find_power(mean))
    if name == column:
        places = min(places, 1 if name.endswith("_percent") else 4)
    first, *ends, width = (
        f"{round(each, places):.{max(0, places)}f}" for each in (mean, low, high, half)
    )
    if name == column:
        return f"{first} ± {width}" if known and width.strip("0.") else first
    if not known and abs(mean - 1) < TINY:
        return "1"
    return f"{first} ({' to '.join(ends)})" if known and ends[0] != ends[1] else first


def _find_power(value: float) -> int:
    """The power of ten of the first of three digits: -1 for 0.123, and 0 for 0.9999."""
    return int(f"{value:.2e}".partition("e")[2])


def find_column(show: str) -> str:
    """The column of a quantity, such as `fluid rounds`."""
    return re.sub(" (ratio|speed-up|ms)$", "", show)


def split_row(line: str) -> list[str]:
    """The cells of a row of a table."""
    return split(line.strip().removeprefix("|").removesuffix("|"))


def split(label: str) -> list[str]:
    """The cells of a label, which may be several columns."""
    return [cell.strip() for cell in label.split("|")]
