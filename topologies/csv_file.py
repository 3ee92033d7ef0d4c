"""Networks in CSV: a matrix of values, or a list of links (pure).

The header row and the first column of a matrix have the names of its sites. The cell in row a and
column b is the value of the link a -> b. An empty cell or `-` is no value; the diagonal is ignored.

    ,a,b,c
    a,,100,50 Mbit/s
    b,100,,
    c,50 Mbit/s,,

A list has a row for each link, and the columns `src` and `dst`, and any of `rate`, `delay` and
`rtt`. A link whose reverse has no row stands for both directions.

Blank lines and lines that begin with `#` are skipped.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trunkline.topologies.matrix import Pair
from trunkline.topologies.model import TopologyError, check_link_count
from trunkline.topologies.network_file import (
    RATE,
    TIME,
    Edge,
    Network,
    Node,
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
    rows = _read_rows(text)
    number, header = rows[0]
    check_node_count(len(header) - 1, f"line {number}: ")
    names: dict[str, None] = {}
    for name in (_name(number, cell) for cell in header[1:]):
        if name in names:
            raise TopologyError(f"line {number}: {name}: expected each site once")
        names[name] = None
    values: dict[Pair, float] = {}
    seen: set[str] = set()
    for number, row in rows[1:]:
        src = _name(number, row[0])
        if src not in names:
            raise TopologyError(
                f"line {number}: {src}: expected one of the sites of the header row"
            )
        if src in seen:
            raise TopologyError(f"line {number}: {src}: expected each site once")
        seen.add(src)
        for dst, cell in zip(names, row[1:], strict=True):
            if src != dst and cell.strip() not in ("", "-"):
                values[src, dst] = _read_cell(number, f"{src} -> {dst}", cell, unit)
        check_link_count(len(values))
    if missing := [name for name in names if name not in seen]:
        raise TopologyError(f"no row for {list_some(missing)}: each site has a row and a column")
    return Table(tuple(names), values)


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
    rows = _read_rows(text)
    number, header = rows[0]
    columns = [COLUMNS.get(cell.strip(), "") for cell in header]
    if "" in columns or len({*columns}) < len(columns) or not {"src", "dst"} <= {*columns}:
        shown = ",".join(header)[:60]
        allowed = "expected src, dst, and rate, delay or rtt once each; a matrix is read with"
        raise TopologyError(f"line {number}: {shown}: {allowed} rates:, delays: or rtts:")
    edges: dict[Pair, Edge] = {}
    for number, row in rows[1:]:
        edge = _read_link(number, dict(zip(columns, row, strict=True)))
        if (edge.src, edge.dst) in edges:
            where = f"{edge.src} -> {edge.dst}"
            raise TopologyError(f"line {number}: {where}: expected each link once")
        edges[edge.src, edge.dst] = edge
        check_link_count(len(edges))
    nodes = tuple(Node(name) for name in dict.fromkeys(name for pair in edges for name in pair))
    check_node_count(len(nodes))
    return Network(nodes, with_reverses([*edges.values()]))


def _read_link(number: int, row: Mapping[str, str]) -> Edge:
    src, dst = _name(number, row["src"]), _name(number, row["dst"])
    where = f"{src} -> {dst}"
    if src == dst:
        raise TopologyError(f"line {number}: {where}: expected links between two sites")
    given = {
        column: _read_cell(number, where, row[column], unit)
        for column, unit in (("rate", RATE), ("delay", TIME), ("rtt", TIME))
        if row.get(column, "").strip() not in ("", "-")
    }
    if "delay" in given and "rtt" in given:
        raise TopologyError(f"line {number}: {where}: expected either a delay or an rtt")
    delay = given["rtt"] / 2 if "rtt" in given else given.get("delay")
    return Edge(src, dst, given.get("rate"), delay)


def _read_rows(text: str) -> list[tuple[int, Sequence[str]]]:
    """The rows with values, with their lines; each has as many cells as the first."""
    check_characters(text)
    reader = csv.reader(text.splitlines(), strict=True)
    rows: list[tuple[int, Sequence[str]]] = []
    try:
        for row in reader:
            if not any(cell.strip() for cell in row) or row[0].startswith("#"):
                continue
            if rows and len(row) != len(rows[0][1]):
                where, allowed = (
                    f"line {reader.line_num}",
                    f"{len(rows[0][1])} as in the header row",
                )
                raise TopologyError(f"{where}: {len(row)} cells: expected {allowed}")
            rows.append((reader.line_num, row))
    except csv.Error as reason:
        raise TopologyError(f"line {reader.line_num}: not CSV: {reason}") from None
    if not rows:
        raise TopologyError("empty: expected CSV with a header row")
    return rows


def _read_cell(number: int, where: str, cell: str, unit: Unit) -> float:
    try:
        return read_quantity(cell, unit)
    except TopologyError as error:
        raise TopologyError(f"line {number}: {where}: {error}") from None


def _name(number: int, cell: str) -> str:
    if not cell.strip():
        raise TopologyError(f"line {number}: a site has no name")
    name, label = name_site(cell.strip()), cell.strip()
    if not any(keeps_letters(each, label) for each in (name, name.removeprefix("node-"))):
        allowed = "expected a name of up to 32 Latin letters, digits and -"
        raise TopologyError(f"line {number}: {quote(label)}: {allowed}")
    return name
