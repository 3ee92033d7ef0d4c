"""Networks in CSV: a matrix of values, or a list of links (pure).

The header row and the first column of a matrix have the names of its sites. The cell in row a and
column b is the value of the link a -> b. An empty cell or `-` is no value; the diagonal is ignored.

    ,a,b,c
    a,,100,50 Mbit/s
    b,100,,
    c,50 Mbit/s,,

A list has a row for each link, and the columns `src` and `dst`, and any of `rate`, `delay` and
`rtt`. A link whose reverse has no row stands for both directions.

Upper and lower case are alike in the names of columns.

Blank lines and lines that begin with `#` are skipped.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trunkline.topologies.links import TopologyError
from trunkline.topologies.matrix import Pair
from trunkline.topologies.model import check_link_count
from trunkline.topologies.network_file import (
    RATE,
    TIME,
    Edge,
    Network,
    Node,
    Problems,
    Unit,
    check_characters,
    check_node_count,
    keeps_letters,
    list_some,
    name_site,
    quote,
    read_quantity,
    with_reverses,
)

COLUMNS = {
    "src": "src",
    "dst": "dst",
    "rate": "rate",
    "rate_mbps": "rate",
    "delay": "delay",
    "delay_ms": "delay",
    "rtt": "rtt",
    "rtt_ms": "rtt",
}
"""The columns that a list may have, and their meanings."""


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
        raise TopologyError(f"no row for {list_some(missing)}: each site has a row and a column")
    return Table(tuple(names), values)


def _add_name(names: dict[str, None], name: str) -> None:
    if name in names:
        raise TopologyError(f"{name}: expected each site once")
    names[name] = None


def combine(rates: Table | None, delays: Table | None) -> Network:
    """The network of a matrix of rates, of one-way delays, or of both.

    The rates say which links exist; without rates the delays do.

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
        tuple(
            Edge(
                *pair,
                rates.values.get(pair) if rates else None,
                delays.values.get(pair) if delays else None,
            )
            for pair in first.values
        ),
    )


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
    rows = _read_rows(text, problems)
    number, header = rows[0]
    columns = _read_columns(number, header)
    edges: dict[Pair, Edge] = {}
    for number, row in rows[1:]:
        with problems.noting(f"line {number}: "):
            edge = _read_link(dict(zip(columns, row, strict=True)))
            if (edge.src, edge.dst) in edges:
                raise TopologyError(f"{edge.src} -> {edge.dst}: expected each link once")
            edges[edge.src, edge.dst] = edge
        check_link_count(len(edges))
    problems.refuse()
    nodes = tuple(Node(name) for name in dict.fromkeys(name for pair in edges for name in pair))
    check_node_count(len(nodes))
    return Network(nodes, with_reverses([*edges.values()]))


def _read_columns(number: int, header: Sequence[str]) -> list[str]:
    """The meaning of each column."""
    columns = [COLUMNS.get(cell.strip().lower(), "") for cell in header]
    unknown = [
        quote(cell.strip()) for cell, column in zip(header, columns, strict=True) if not column
    ]
    missing = [name for name in ("src", "dst") if name not in columns]
    twice = [name for name in COLUMNS if columns.count(name) > 1]
    wrong = "; ".join(
        f"{what} {list_some(cells)}"
        for what, cells in (
            ("unknown column", unknown),
            ("no column", missing),
            ("two columns for", twice),
        )
        if cells
    )
    if wrong:
        wrong = wrong if any(columns) else ",".join(header)[:60]
        allowed = "expected src, dst, and rate, delay or rtt once each; a matrix is read with"
        raise TopologyError(f"line {number}: {wrong}: {allowed} rates:, delays: or rtts:")
    return columns


def _read_link(row: Mapping[str, str]) -> Edge:
    problems = Problems()
    ends = []
    for column in ("src", "dst"):
        with problems.noting():
            ends.append(_name(row[column]))
    problems.refuse()
    src, dst = ends
    where = f"{src} -> {dst}: "
    if src == dst:
        problems.texts.append(f"{where}expected links between two sites")
    given = {}
    for column, unit in (("rate", RATE), ("delay", TIME), ("rtt", TIME)):
        if _has_value(row.get(column, "")):
            with problems.noting(where):
                given[column] = read_quantity(row[column], unit)
    if "delay" in given and "rtt" in given:
        problems.texts.append(f"{where}expected either a delay or an rtt")
    problems.refuse()
    delay = given["rtt"] / 2 if "rtt" in given else given.get("delay")
    return Edge(src, dst, given.get("rate"), delay)


def _has_value(cell: str) -> bool:
    return cell.strip() not in ("", "-")


def _read_rows(text: str, problems: Problems) -> list[tuple[int, Sequence[str]]]:
    """The rows with values, with their lines; each has as many cells as the first.

    Rows with more or fewer cells are noted as problems and left out.
    """
    check_characters(text)
    reader = csv.reader(text.removeprefix("\ufeff").splitlines(), strict=True)
    rows: list[tuple[int, Sequence[str]]] = []
    try:
        for row in reader:
            where = f"line {reader.line_num}: "
            if not any(cell.strip() for cell in row) or row[0].startswith("#"):
                continue
            if not rows:
                _check_separator(where, row)
            if rows and len(row) != len(rows[0][1]):
                wanted = f"{len(rows[0][1])} as in the header row"
                problems.texts.append(f"{where}{len(row)} cells: expected {wanted}")
            else:
                rows.append((reader.line_num, row))
    except csv.Error as reason:
        problems.texts.append(f"line {reader.line_num}: not CSV: {reason}")
        problems.refuse()
    if not rows:
        raise TopologyError("empty: expected CSV with a header row")
    return rows


def _check_separator(where: str, header: Sequence[str]) -> None:
    for mark, name in ((";", "semicolons"), ("\t", "tabs")):
        if len(header) == 1 and mark in header[0]:
            raise TopologyError(f"{where}the header row has {name}: expected commas between cells")


def _name(cell: str) -> str:
    if not cell.strip():
        raise TopologyError("a site has no name")
    name, label = name_site(cell.strip()), cell.strip()
    if not any(keeps_letters(each, label) for each in (name, name.removeprefix("node-"))):
        allowed = "expected a name of up to 32 Latin letters, digits and -"
        raise TopologyError(f"{quote(label)}: {allowed}")
    return name
