"""Tables of numbers on a page: where they come from, and how they are written (pure).

A comment before a table names it and the command that makes it:

    <!-- table: group-size
    $ trunkline reproduce r2sp/18 --fluid --trials 1 --set 'stop.time=180 s'
    show: fluid rounds
    corner: clients in a group
    columns: {2: 64, 4: 32, 8: 16}
    rows: {rounds: }
    made: 2026-11-23 14:05 at 1dac291, code 3f2a1b77, cells 60c52d1e
    -->

After the commands follows YAML. `rows` and `columns` map the labels of the table to what they
select: values of varied keys as `--vary` has them, or a part of a mapping that no other value has
(`{plan: crew}`); several values are a list. `run 2` selects the second command. A mapping
`{of: VALUES, show: QUANTITY}` also sets what is shown. A cell is the one result that its row and
its column select. `by hand` keeps the cells that the page has, such as values of the paper. A label
with ` | ` is more than one column, and so is `corner`, the title of the labels.

QUANTITY is `[fluid] COLUMN [ratio | speed-up | ms]`: a column of tables/cells.csv or, with `fluid`,
of tables/fluid.csv; its ratio to the first cell, or the inverse; milliseconds for a column in s.

The table of a script is what the script prints, so it has no rows and columns. A table that no
command makes has `by hand: REASON` instead. It may have the commands that its numbers are from.

`code` is a hash of what the numbers depend on (`table_code.py`), `cells` one of the cells that the
command has made, which shows when somebody changes one by hand.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

BEGIN, END = "<!-- table:", "-->"
KEYS = ("by hand", "columns", "corner", "made", "rows", "show")
BY_HAND = "by hand"
UNKNOWN = "unknown"
MADE = re.compile(
    r"(?P<date>\d{4}-\d\d-\d\d( \d\d:\d\d)?)"
    r"( at (?P<commit>\w+\+?), code (?P<code>[0-9a-f]{8}), cells (?P<cells>[0-9a-f]{8}))?"
)
QUANTITY = re.compile(r"(?P<side>fluid )?(?P<column>\w+)(?P<form> ratio| speed-up| ms)?")
NUMBER = re.compile(r"[-+±~]?\d")
DIGITS = 3
"""Significant digits of a number without an interval; with one it has at most one more."""
MOST_PLACES = 4
EXACT = 1e-9
"""Relative width below which an interval is the rounding of equal values."""


class MarkerError(ValueError):
    """A marker or its table is wrong; the text says where, what, and what is allowed."""


@dataclass(frozen=True, slots=True)
class Line:
    """A row or a column: its label, the values that it selects, and what it shows ("" if open)."""

    label: str
    of: tuple[str, ...] = ()
    show: str = ""
    by_hand: bool = False


@dataclass(frozen=True, slots=True)
class Marker:
    """What the comment before a table says. `made` and its parts are empty if unknown."""

    name: str
    commands: tuple[str, ...]
    by_hand: str = ""
    corner: str = ""
    rows: tuple[Line, ...] = ()
    columns: tuple[Line, ...] = ()
    made: str = ""
    date: str = ""
    code: str = ""
    cells: str = ""


@dataclass(frozen=True, slots=True)
class Found:
    """A table of a page. `begin` to `table` are the lines of its marker, then to `end` its own."""

    marker: Marker | None
    begin: int
    table: int
    end: int
    lines: tuple[str, ...]

    @property
    def has_numbers(self) -> bool:
        """Whether more than half of the cells beside the first column are numbers."""
        rows = [split_row(line)[1:] for line in self.lines[2:]]
        cells = [cell for row in rows for cell in row if cell]
        return 2 * sum(NUMBER.match(cell) is not None for cell in cells) > len(cells)


@dataclass(frozen=True, slots=True)
class Result:
    """One cell of a comparison: the values of its keys, and its numbers by name.

    A number `x` has the bounds `x_low` and `x_high` of its interval, its ratio is `x_ratio`. Those
    of the fluid model are `fluid x` and so on.
    """

    values: tuple[str, ...]
    numbers: Mapping[str, float]


def find_tables(text: str) -> Iterator[Found]:
    """The tables of a page, in order. Raises MarkerError."""
    lines = text.split("\n")
    at, fence = 0, ""
    while at < len(lines):
        line = lines[at]
        if line.startswith("```"):
            fence = "" if fence else line
        if fence or not (line.startswith(BEGIN) or _is_table(lines, at)):
            at += 1
            continue
        begin, marker = at, None
        if line.startswith(BEGIN):
            close = next((n for n in range(at, len(lines)) if lines[n].endswith(END)), None)
            if close is None:
                raise MarkerError(f"line {at + 1}: {line}: {END} is missing")
            marker = _read_marker(lines[at : close + 1], at + 1)
            at = close + 1
            if not _is_table(lines, at):
                raise MarkerError(f"line {begin + 1}: {line}: no table follows in the next line")
        table = at
        while at < len(lines) and lines[at].startswith("|"):
            at += 1
        yield Found(marker, begin, table, at, tuple(lines[table:at]))


def render(marker: Marker, results: Sequence[Result], old: Sequence[str]) -> list[str]:
    """The lines of a table; cells by hand are those of the old one. Raises MarkerError."""
    written = [_list_heads(marker)]
    for row in marker.rows:
        cells = []
        for number, column in enumerate(marker.columns):
            if row.by_hand or column.by_hand:
                cells.append(_find_cell(old, marker, row, number))
                continue
            numbers = _select(marker, row, column, results).numbers
            cells.append(format_quantity(row.show or column.show, numbers))
        written.append([*split_label(row.label), *cells])
    rows = ["|" + "|".join(f" {cell} " if cell else " " for cell in row) + "|" for row in written]
    width = len(split_row(rows[0]))
    return [rows[0], "|" + " --- |" * width, *rows[1:]]


def check_labels(marker: Marker, lines: Sequence[str]) -> None:
    """Raise MarkerError unless the table has the heads and the labels of rows of its marker."""
    heads = _list_heads(marker)
    if lines and split_row(lines[0]) != heads:
        raise MarkerError(f"the table's head is {lines[0]}: expected {' | '.join(heads)}")
    width = len(split_label(marker.corner))
    found = [" | ".join(split_row(line)[:width]) for line in lines[2:]]
    expected = [" | ".join(split_label(row.label)) for row in marker.rows]
    if lines and found != expected:
        wrong = [*(label for label in found if label not in expected)] or found
        raise MarkerError(f"the table has rows {'; '.join(wrong)}: expected {'; '.join(expected)}")


def hash_cells(marker: Marker, lines: Sequence[str]) -> str:
    """Eight digits of a hash over the cells that the command makes; labels are not among them."""
    rows = [split_row(line) for line in lines[2:]]
    if marker.rows:
        width = len(split_label(marker.corner))
        made = [width + n for n, column in enumerate(marker.columns) if not column.by_hand]
        measured = [
            cells for line, cells in zip(marker.rows, rows, strict=True) if not line.by_hand
        ]
        rows = [[cells[place] for place in made] for cells in measured]
    return hashlib.sha256(repr(rows).encode()).hexdigest()[:8]


def check_cells(marker: Marker, lines: Sequence[str]) -> None:
    """Raise MarkerError if a cell is not what the command has made."""
    if marker.cells and marker.cells != hash_cells(marker, lines):
        raise MarkerError(
            "a cell is not what the command made: it was changed by hand, or a row or column was "
            "added; make the table again, or mark these as `by hand`"
        )


def _list_heads(marker: Marker) -> list[str]:
    return [*split_label(marker.corner), *(column.label.strip() for column in marker.columns)]


def check_selection(marker: Marker, results: Sequence[Result]) -> None:
    """Raise MarkerError unless every cell selects one result and a quantity."""
    for row in marker.rows:
        for column in marker.columns:
            if not (row.by_hand or column.by_hand):
                _select(marker, row, column, results)


def list_quantities(marker: Marker) -> Iterator[tuple[bool, str]]:
    """Whether it is the fluid model's, and the column, of everything that the table shows."""
    for show in dict.fromkeys(line.show for line in (*marker.rows, *marker.columns)):
        if show:
            parts = QUANTITY.fullmatch(show)
            assert parts is not None
            yield parts["side"] is not None, parts["column"]


def format_quantity(show: str, numbers: Mapping[str, float]) -> str:
    """The text of a quantity with its interval; empty if it is unknown. Raises MarkerError."""
    parts = QUANTITY.fullmatch(show)
    assert parts is not None
    form = (parts["form"] or "").strip()
    name = (parts["side"] or "") + parts["column"] + ("_ratio" if form in RATIOS else "")
    if name not in numbers:
        raise MarkerError(f"show: {show}: the results have no {name}")
    mean, low, high = (numbers.get(f"{name}{end}", math.nan) for end in ("", "_low", "_high"))
    if form == "speed-up":
        mean, low, high = 1 / mean, 1 / high, 1 / low
    if form == "ms":
        mean, low, high = (1000 * each for each in (mean, low, high))
    if form in RATIOS:
        return format_ratio(mean, low, high)
    return format_mean(mean, high - mean, 1 if name.endswith("_percent") else MOST_PLACES)


RATIOS = ("ratio", "speed-up")


def format_mean(mean: float, half: float = math.nan, most: int = MOST_PLACES) -> str:
    """`8.89 ± 0.13`: the half width has two digits, and the mean as many decimals.

    Without an interval, or with one below the last digit, the mean stands alone, and zero is `0`.
    There are at most `most` decimals.
    """
    if math.isnan(mean):
        return ""
    if max(abs(mean), half) < EXACT:
        return "0"
    places = min(most, _choose_places(mean, half))
    text = _format(half, places) if half > EXACT * abs(mean) else ""
    return _format(mean, places) + (f" ± {text}" if text.strip("0.") else "")


def format_ratio(mean: float, low: float, high: float) -> str:
    """`1.24 (1.05 to 1.46)`, or `1` for what the others are compared with."""
    if math.isnan(mean):
        return ""
    if abs(mean - 1) < EXACT and not high - low > EXACT:
        return "1"
    places = _choose_places(mean, (high - low) / 2)
    texts = [_format(each, places) for each in (mean, low, high)]
    exact = not high - low > EXACT or texts[1] == texts[2]
    return texts[0] if exact else "{} ({} to {})".format(*texts)


def replace_table(text: str, name: str, rows: Sequence[str], made: str) -> str:
    """The page with the named table written anew, and `made:` in its marker.

    `made` is when, at which commit, and with which code.
    """
    lines = text.split("\n")
    found = next(f for f in find_tables(text) if f.marker is not None and f.marker.name == name)
    marker = [line for line in lines[found.begin : found.table] if not line.startswith("made:")]
    assert found.marker is not None
    marker.insert(-1, f"made: {made}, cells {hash_cells(found.marker, rows)}")
    return "\n".join([*lines[: found.begin], *marker, *rows, *lines[found.end :]])


def split_row(line: str) -> list[str]:
    """The cells of a row of a table."""
    return [cell.strip() for cell in line.strip().removeprefix("|").removesuffix("|").split("|")]


def split_label(label: str) -> list[str]:
    """The cells of a label, which may be several columns."""
    return [cell.strip() for cell in label.split("|")]


def _is_table(lines: Sequence[str], at: int) -> bool:
    return (
        at + 1 < len(lines)
        and lines[at].startswith("|")
        and re.fullmatch(r"\|( *:?-+:? *\|)+", lines[at + 1]) is not None
    )


def _read_marker(lines: Sequence[str], number: int) -> Marker:
    """Read a comment that begins in this line of the page. Raises MarkerError."""
    where = f"line {number}: {lines[0]}"
    name = lines[0].removeprefix(BEGIN).removesuffix(END).strip()
    if not re.fullmatch(r"[a-z0-9-]+", name):
        raise MarkerError(f"{where}: a name is missing: expected a to z, 0 to 9 and -")
    joined = re.sub(r" *\\\n *", " ", "\n".join(lines[1:]).removesuffix(END)).split("\n")
    commands = tuple(line[2:].strip() for line in joined if line.startswith("$ "))
    rest = "\n".join(line for line in joined if not line.startswith("$ "))
    try:
        data = yaml.load(rest, yaml.BaseLoader) or {}  # all values stay texts
    except yaml.YAMLError as error:
        raise MarkerError(f"{where}: this is not YAML: {' '.join(str(error).split())}") from None
    unknown = sorted(set(data) - set(KEYS)) if isinstance(data, dict) else [str(data)]
    if unknown:
        raise MarkerError(f"{where}: {unknown[0]}: expected one of {', '.join(KEYS)}")
    made = MADE.fullmatch(data.get("made", ""))
    if made is None and data.get("made", UNKNOWN) != UNKNOWN:
        raise MarkerError(
            f"{where}: made: expected {UNKNOWN}, DATE, or DATE at COMMIT, code HASH, cells HASH"
        )
    read = {side: _read_lines(data, side, where) for side in ("rows", "columns")}
    marker = Marker(
        name,
        commands,
        data.get(BY_HAND, ""),
        data.get("corner", ""),
        **read,
        made=data.get("made", UNKNOWN) if made else "",
        date=made["date"] if made else "",
        code=(made["code"] or "") if made else "",
        cells=(made["cells"] or "") if made else "",
    )
    _refuse_halves(marker, where)
    return marker


def _refuse_halves(marker: Marker, where: str) -> None:
    """Raise MarkerError if the marker does not say how its table is made."""
    drawn = bool(marker.rows or marker.columns)
    if marker.by_hand and drawn:
        raise MarkerError(f"{where}: expected either `by hand`, or rows and columns")
    if not (marker.by_hand or marker.commands):
        raise MarkerError(f"{where}: a command is missing ($ trunkline ...), or by hand: REASON")
    if marker.by_hand:
        return
    scripts = [line for line in marker.commands if not line.startswith("trunkline ")]
    if scripts and (drawn or len(marker.commands) > 1):
        raise MarkerError(f"{where}: {scripts[0]}: a script alone prints the table, without rows")
    if not scripts and not (marker.rows and marker.columns):
        raise MarkerError(f"{where}: rows and columns are missing")


def _read_lines(data: Mapping[str, Any], side: str, where: str) -> tuple[Line, ...]:
    """The rows or columns; only columns get the `show` of the whole table."""
    found = data.get(side) or {}
    if not isinstance(found, dict):
        raise MarkerError(f"{where}: {side}: expected a mapping of labels")
    default = data.get("show", "") if side == "columns" else ""
    return tuple(_read_line(label, spec, default, where) for label, spec in found.items())


def _read_line(label: str, spec: Any, default: str, where: str) -> Line:
    where = f"{where}: {label}"
    if spec == BY_HAND:
        return Line(label, by_hand=True)
    values, show = spec, default
    if isinstance(spec, dict):
        if not set(spec) <= {"of", "show"}:
            raise MarkerError(f"{where}: expected the keys of, show")
        values, show = spec.get("of", ""), spec.get("show", default)
    if show and QUANTITY.fullmatch(show) is None:
        raise MarkerError(f"{where}: show: {show}: expected [fluid] COLUMN [ratio|speed-up|ms]")
    texts = [values] if isinstance(values, str) else values
    if not all(isinstance(text, str) for text in texts):
        raise MarkerError(f"{where}: expected texts: put mappings and lists into quotes")
    return Line(label, tuple(text for text in texts if text), show)


def _select(marker: Marker, row: Line, column: Line, results: Sequence[Result]) -> Result:
    """The only result of a cell. Raises MarkerError."""
    where = f"{marker.name}: row {row.label!r}, column {column.label!r}"
    if not (row.show or column.show):
        raise MarkerError(f"{where}: show is missing")
    left = list(results)
    for wanted in (*row.of, *column.of):
        exact = [each for each in left if wanted in each.values]
        left = exact or [each for each in left if _has_part(each, wanted)]
    if len(left) != 1:
        some = "; ".join(", ".join(each.values) for each in (left or results)[:4])
        raise MarkerError(f"{where}: selects {len(left)} results instead of one, such as {some}")
    return left[0]


def _has_part(result: Result, wanted: str) -> bool:
    """Whether one of the values is a mapping that has all of the wanted one."""
    part = yaml.load(wanted, yaml.BaseLoader)
    if not isinstance(part, dict):
        return False
    values = [yaml.load(value, yaml.BaseLoader) for value in result.values]
    return any(isinstance(value, dict) and part.items() <= value.items() for value in values)


def _find_cell(table: Sequence[str], marker: Marker, row: Line, number: int) -> str:
    """The text of a cell on the page; empty if there is none with these labels."""
    label, wide = marker.columns[number].label.strip(), len(split_label(marker.corner))
    heads, *rows = [split_row(line) for line in table if not line.startswith("| ---")] or [[]]
    places = [place for place, head in enumerate(heads) if place >= wide and head == label]
    place = wide + number if wide + number in places else next(iter(places), None)
    cells = next((cells for cells in rows if cells[:wide] == split_label(row.label)), None)
    return "" if place is None or cells is None else cells[place]


def _choose_places(mean: float, half: float) -> int:
    """Decimals for a mean and half its interval; negative for tens, hundreds, ..."""
    significant = DIGITS - 1 - _find_power(mean)
    if not half > EXACT * abs(mean):
        return max(0, significant)
    return min(1 - _find_power(half), significant + 1)


def _find_power(value: float) -> int:
    """The power of ten of the first of DIGITS digits: -1 for 0.123, and 0 for 0.9999."""
    return int(f"{value:.{DIGITS - 1}e}".partition("e")[2])


def _format(value: float, places: int) -> str:
    return f"{round(value, places):.{max(0, places)}f}"
