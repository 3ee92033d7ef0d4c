"""Networks in CSV: a matrix of values, or a list of links (pure).

The header row and the first column of a matrix have the names of its sites. The cell in row a and
column b is the value of the link a -> b. An empty cell or `-` is no value; the diagonal is ignored.

    ,a,b,c
    a,,100,50 Mbit/s
    b,100,,
    c,50 Mbit/s,,

A list has a row for each link, two columns that name its ends (`src` and `dst`, `source` and
`target`, ...), and any of the attributes that edges have in graphs (`attributes`). A link whose
reverse has no row stands for both directions. Without a header row, the first two cells of a row
are the ends; in that form other programs write lists of edges.

Cells are separated by commas, semicolons, tabs or `|`, lists of edges also by spaces.

Upper and lower case are alike in the names of columns.

Blank lines and lines that begin with `#` are skipped.
"""

from __future__ import annotations

import ast
import csv
import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from trunkline.topologies.formats.attributes import Values, find_meaning, list_words, read_link
from trunkline.topologies.formats.network_file import (
    NOTED,
    Edge,
    Network,
    Node,
    Problems,
    check_node_count,
    check_text,
    list_some,
    with_reverses,
)
from trunkline.topologies.formats.node_names import keeps_letters, name_site
from trunkline.topologies.formats.quantities import Unit, quote, read_quantity
from trunkline.topologies.links import TopologyError
from trunkline.topologies.model import check_link_count
from trunkline.topologies.rates.matrix import Pair

_ENDS = {
    "src": "src source from node1 site1 srcnode sourcenode fromnode nodea sitea endpoint1 "
    "endpointa end1 host1 router1 city1 sender origin start ingress u",
    "dst": "dst target to node2 site2 dstnode targetnode tonode nodeb siteb endpoint2 "
    "endpointb end2 host2 router2 city2 receiver dest destination end egress v",
}
"""The columns of a link's ends, and their names, most usual first."""

_TYPE, _UNDIRECTED = "Type", "undirected"
"""The column in which Gephi says whether an edge is `Directed` or `Undirected`."""

_EXAMPLE = "expected src, dst, and any of rate, delay or rtt, jitter, loss and queue once each"
_MATRIX = "a matrix is read with rates:, delays: or rtts:"

_SEPARATORS = (",", ";", "\t", "|")


@dataclass(frozen=True, slots=True)
class Table:
    """The names of a matrix in its order, and its values by (row, column)."""

    names: tuple[str, ...]
    values: Mapping[Pair, float]


def read_matrix(text: str, unit: Unit) -> Table:
    """Read a matrix of rates (in Mbit/s) or times (in ms), see the module's docstring.

    Raises:
        TopologyError: the text is not a matrix; the message has the line.
    """
    problems = Problems()
    rows = _read_rows(text, problems)
    number, header = rows[0]
    check_node_count(len(header) - 1, f"line {number}: ")
    names: dict[str, None] = {}
    for cell in header[1:]:
        with problems.noting(f"line {number}: "):
            _add_name(names, _name(cell))
    problems.refuse()
    _check_row_names(rows[1:], names)
    values: dict[Pair, float] = {}
    seen: dict[str, None] = {}
    for number, row in rows[1:]:
        with problems.noting(f"line {number}: "):
            src = _name(row[0])
            if src not in names:
                raise TopologyError(f"{src}: expected one of the sites of the header row")
            _add_name(seen, src)
            for dst, cell in zip(names, row[1:], strict=True):
                if src != dst and _has_value(cell):
                    with problems.noting(f"line {number}: {src} -> {dst}: "):
                        values[src, dst] = read_quantity(cell, unit)
        check_link_count(len(values))
    problems.refuse()
    if missing := [name for name in names if name not in seen]:
        form = "each site has a row and a column, if need be with empty cells"
        raise TopologyError(f"no row for {list_some(missing)}: {form}")
    return Table(tuple(names), values)


def _check_row_names(rows: Iterable[tuple[int, Sequence[str]]], names: Iterable[str]) -> None:
    """Refuse a matrix whose rows begin with values, because it has no names of rows."""
    firsts = [row[0].strip() for _, row in rows]
    bare = [cell for cell in firsts if re.match("[0-9.]|-?$", cell)]
    if len(bare) == len(firsts) > 0 and not {name_site(cell) for cell in bare} & {*names}:
        cells = ", ".join(bare[:3])
        raise TopologyError(f"rows begin with {cells}: the first column must name the sites")


def _add_name(names: dict[str, None], name: str) -> None:
    if name in names:
        raise TopologyError(f"{name}: expected each site once")
    names[name] = None


def combine(rates: Table | None, delays: Table | None, origin: str = "delays") -> Network:
    """The network of a matrix of rates, of one-way delays, or of both.

    The rates say which links exist; without rates the delays do. `origin` says where delays are
    from.

    Raises:
        TopologyError: the matrices have different sites.
    """
    first = rates or delays
    if first is None:
        raise ValueError("expected a matrix or two")
    if rates and delays and (other := set(rates.names) ^ set(delays.names)):
        text = f"{list_some(sorted(other))}: expected the same sites in both matrices"
        raise TopologyError(text)
    return Network(
        tuple(Node(name) for name in first.names),
        tuple(Edge(*pair, _combine(pair, rates, delays, origin)) for pair in first.values),
    )


def _combine(pair: Pair, rates: Table | None, delays: Table | None, origin: str) -> Values:
    rate = rates.values.get(pair) if rates else None
    delay = delays.values.get(pair) if delays else None
    origins = {"rate_mbps": "rates"} if rate is not None else {}
    origins |= {"delay_ms": origin} if delay is not None else {}
    return Values(rate, delay, origins=origins)


def halve(round_trips: Table) -> Table:
    """The one-way delays: half of the round trips.

    A round trip that is missing in one direction is taken from the other direction.
    """
    trips = round_trips.values
    halves = {pair[::-1]: trip / 2 for pair, trip in trips.items()}
    return Table(round_trips.names, halves | {pair: trip / 2 for pair, trip in trips.items()})


def read_edges(text: str) -> Network:
    """Read a list of links, see the module's docstring.

    Raises:
        TopologyError: the text is not a list of links; the message has the line.
    """
    problems = Problems()
    rows = _read_rows(text, problems, spaces=True)
    columns = _read_header(*rows[0])
    types = _read_types(rows, columns)
    edges: dict[Pair, Edge] = {}
    lines: dict[Pair, int] = {}
    for number, row in rows[1:] if columns else rows:
        with problems.noting(f"line {number}: "):
            edge = _read_link(zip(columns, row, strict=True) if columns else _name_cells(row))
            pair = edge.src, edge.dst
            pairs = (pair, pair[::-1]) if types.get(number) == _UNDIRECTED else (pair,)
            if same := [lines[each] for each in pairs if each in lines]:
                allowed = "expected a row for each link"
                raise TopologyError(f"{' -> '.join(pair)}: line {same[0]} has this link: {allowed}")
            lines |= dict.fromkeys(pairs, number)
            edges[pair] = edge
        check_link_count(len(edges))
    problems.refuse()
    directed = bool(columns) and {*types.values()} != {_UNDIRECTED}
    nodes = tuple(Node(name) for name in dict.fromkeys(name for pair in edges for name in pair))
    check_node_count(len(nodes))
    noted = {name for edge in edges.values() for name, _ in edge.values.unused}
    known = {*noted, *[_TYPE] * bool(types)}
    unread = [
        quote(each)
        for i, each in enumerate(columns)
        if not _is_read(each)
        and each not in known
        and (each or any(row[i].strip() for _, row in rows))
    ]
    remarks = [f"columns that are not read: {list_some(unread, NOTED)}"] if unread else []
    return Network(nodes, with_reverses([*edges.values()], directed), remarks=tuple(remarks))


def _read_types(rows: Sequence[tuple[int, Sequence[str]]], columns: list[str]) -> dict[int, str]:
    """What Gephi's column says of each line; a column of other words is not Gephi's."""
    if _TYPE not in columns:
        return {}
    place = columns.index(_TYPE)
    types = {number: row[place].strip().lower() for number, row in rows[1:]}
    return types if {*types.values()} <= {"directed", _UNDIRECTED} else {}


def _is_read(column: str) -> bool:
    return column in _ENDS or bool(find_meaning(column))


def _read_header(number: int, header: Sequence[str]) -> list[str]:
    """The columns, with `src` and `dst` for those of the ends; empty if there is no header row."""
    cells = [cell.strip() for cell in header]
    columns = list(cells)
    words = ["".join(filter(str.isalnum, cell.lower())) for cell in cells]
    for end, names in _ENDS.items():
        found = [word for word in names.split() if word in words]
        if found and (len(found[0]) > 1 or any(map(find_meaning, cells))):
            columns[words.index(found[0])] = end
    if not any(map(_is_read, columns)):
        if len(cells) >= 2 and all(cells[:2]):
            return []
        raise TopologyError(f"line {number}: {','.join(header)[:60]}: {_EXAMPLE}; {_MATRIX}")
    meanings = [find_meaning(column) for column in columns]
    near = {
        column: difflib.get_close_matches(column.lower(), [*list_words(), *_ENDS], 1, 0.8)
        for column in columns
        if not _is_read(column)
    }
    wrong = [
        *(f"no column {end} (nor {', '.join(names.split()[1:4])} or the like)"
          for end, names in _ENDS.items() if end not in columns),
        *(f"two columns for {each}" for each in dict.fromkeys(meanings)
          if each and meanings.count(each) > 1),
        *(f"unknown column {quote(column)}: did you mean {words[0]}?"
          for column, words in near.items() if words),
    ]  # fmt: skip
    if wrong:
        raise TopologyError(f"line {number}: {'; '.join(wrong)}: {_EXAMPLE}; {_MATRIX}")
    return columns


def _name_cells(row: Sequence[str]) -> list[tuple[str, str]]:
    """The cells of a row without a header row: two ends, and one value or NetworkX's attributes."""
    ends = [*zip(_ENDS, row, strict=False)]
    if len(row) == 3 and row[2].startswith("{"):
        try:
            attributes = ast.literal_eval(row[2])
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            attributes = None
        if isinstance(attributes, dict):
            return ends + [(str(name), str(value)) for name, value in attributes.items()]
    if len(row) > 3 or (len(row) == 3 and not _NUMBER.fullmatch(row[2].strip())):
        raise TopologyError(f"{','.join(row)[:60]}: a header row is missing: {_EXAMPLE}; {_MATRIX}")
    return ends + ([("weight", row[2])] if len(row) == 3 else [])


_NUMBER = re.compile(r"-?[0-9.]+(e-?[0-9]+)?|")


def _read_link(cells: Iterable[tuple[str, str]]) -> Edge:
    row = dict(cells)
    problems = Problems()
    ends = []
    for column in _ENDS:
        with problems.noting():
            ends.append(_name(row.pop(column)))
    problems.refuse()
    src, dst = ends
    where = f"{src} -> {dst}: "
    if src == dst:
        problems.texts.append(f"{where}expected two different sites as src and dst")
    with problems.noting(where):
        edge = Edge(src, dst, read_link(row))
    problems.refuse()
    return edge


def _has_value(cell: str) -> bool:
    return cell.strip() not in ("", "-")


def _read_rows(
    text: str, problems: Problems, *, spaces: bool = False
) -> list[tuple[int, Sequence[str]]]:
    """The rows with values, with their lines; each has as many cells as the first.

    Rows with more or fewer cells are noted as problems and left out.
    """
    check_text(text)
    lines = text.removeprefix("\ufeff").splitlines()
    if lines and re.fullmatch("sep=.", lines[0]):  # of Excel
        lines[0] = ""
    first = next((line for line in lines if line.strip() and not line.startswith("#")), "")
    separator = max(_SEPARATORS, key=first.count)
    rows: list[tuple[int, Sequence[str]]] = []
    in_words = spaces and (separator not in first or " {" in first)
    split = _split_spaces if in_words else _split_cells
    try:
        for number, row in split(lines, separator):
            if not any(cell.strip() for cell in row) or row[0].startswith("#"):
                continue
            if rows and len(row) != len(rows[0][1]):
                wanted = f"{len(rows[0][1])} as in the header row"
                problems.texts.append(f"line {number}: {len(row)} cells: expected {wanted}")
            else:
                rows.append((number, row))
    except TopologyError as error:
        problems.texts.extend(error.problems)
        problems.refuse()
    if not rows:
        raise TopologyError("empty: expected CSV with a header row")
    return rows


def _split_cells(lines: Sequence[str], separator: str) -> Iterator[tuple[int, Sequence[str]]]:
    """The cells of each row. In files with semicolons, a number may have a decimal comma."""
    reader = csv.reader(lines, strict=True, delimiter=separator)
    try:
        for row in reader:
            comma = separator == ";"
            cells = [_DECIMAL_COMMA.sub(r"\1.\2", cell) if comma else cell for cell in row]
            yield reader.line_num, cells
    except csv.Error as reason:
        raise TopologyError(f"line {reader.line_num}: not CSV: {reason}") from None


_DECIMAL_COMMA = re.compile(r"^(\s*[0-9]+),([0-9]+)(?=\s|[a-zA-Z%]|$)")


def _split_spaces(lines: Sequence[str], separator: str) -> Iterator[tuple[int, Sequence[str]]]:
    """The words of each line; attributes in braces are one."""
    for number, line in enumerate(lines, 1):
        yield number, line.split(None, 2 if "{" in line else -1)


def _name(cell: str) -> str:
    if not cell.strip():
        raise TopologyError("a site has no name")
    name, label = name_site(cell.strip()), cell.strip()
    if not any(keeps_letters(each, label) for each in (name, name.removeprefix("node-"))):
        allowed = "expected a name of up to 32 Latin letters, digits and -"
        raise TopologyError(f"{quote(label)}: {allowed}")
    return name
