"""Lists of mappings as a table: a text in the form of CSV, whose first line has the keys.

YAML takes 0.2 ms for each link of a list. So resolved scenarios of large networks have a table, and
users may write one.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from typing import Any

from trunkline.harness.config.document import Document, KeyPath, convert_scalar
from trunkline.harness.config.units import count_of

LEAST_ROWS = 500
"""Shorter lists are easier to read as they are."""

LINK_NAME = re.compile(r"\s*([^\s<>]+)\s*<?->\s*([^\s<>]+)\s*")
"""A link as a timeline and `overrides:` write it."""


def write_list(rows: Sequence[Mapping[str, Any]]) -> Any:
    """The list for a file: a table if it is long and each cell is read as the same value."""
    keys = list(dict.fromkeys(key for row in rows for key in row))
    plain = (convert_scalar(str(value)) == value != "" for row in rows for value in row.values())
    if len(rows) < LEAST_ROWS or not all(plain):
        return list(rows)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(keys)
    writer.writerows([row.get(key, "") for key in keys] for row in rows)
    return text.getvalue()


def expand(document: Document, path: KeyPath) -> None:
    """Replace the table at a path, if there is one, by its rows; a cell without text has no key."""
    text = document.get(path)
    if not isinstance(text, str) or "\n" not in text:
        return
    file, line = document.places.get(path, (document.file, None))
    first, *lines = text.splitlines()
    keys = [key.strip() for key in first.split(",")]
    if len(set(keys)) < len(keys) or not all(keys):
        document.refuse(path, "expected a table whose first line has different keys", first)
        return
    rows: list[dict[str, Any]] = []
    for number, cells in enumerate(csv.reader(lines), 2):
        if len(cells) != len(keys):
            document.refuse(path, f"expected {len(keys)} cells in line {number}", ",".join(cells))
            return
        document.places[*path, len(rows)] = (file, None if line is None else line + number)
        stripped = zip(keys, map(str.strip, cells), strict=True)
        rows.append({key: convert_scalar(cell) for key, cell in stripped if cell})
    document.get(path[:-1])[path[-1]] = rows


def refuse_link_names(document: Document, path: KeyPath) -> bool:
    """Refuse, in one problem, rows that name a link as a timeline does, such as `link: a <-> b`."""
    rows = document.get(path)
    named: list[tuple[int, str, str, str, dict[str, Any]]] = []
    for number, row in enumerate(rows if isinstance(rows, list) else ()):
        values = row if isinstance(row, dict) else {"link": row}
        name: Any = values.get("link")
        if isinstance(name, str) and (match := LINK_NAME.fullmatch(name)):
            named.append((number, name, match[1], match[2], values))
    if not named:
        return False
    index, shown, a, b, given = named[0]
    rest = f"rate: {given.get('rate', '50 Mbit/s')}, delay: {given.get('delay', '10 ms')}"
    ends = f"{{src: {a}, dst: {b}, {rest}}} and {{src: {b}, dst: {a}, {rest}}}"
    more = f"; {count_of(len(named) - 1, 'other link')} likewise" if len(named) > 1 else ""
    document.refuse((*path, index), f"expected an entry for each direction, {ends}{more}", shown)
    return True
