"""Access links of many sites from a table with a row for each of them (pure).

Columns are `site`, `up` and `down` or one `rate` for both, and if wanted `delay` or `rtt`, `loss`,
`queue`, `burst`, `duplicate` and `corrupt`, with the words and units of networks from files.
Without a header row they are `site,up,down,delay,loss`.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from trunkline.harness.faults.fault_parts import FaultError
from trunkline.harness.faults.recorded.trace_columns import find_sites
from trunkline.harness.faults.recorded.trace_tables import Row, Table, read_table
from trunkline.topologies.formats import attributes
from trunkline.topologies.formats.attributes import find_quantity, list_words
from trunkline.topologies.formats.network_file import NOTED, Problems, list_some
from trunkline.topologies.formats.node_names import name_site
from trunkline.topologies.formats.quantities import quote
from trunkline.topologies.links import TopologyError
from trunkline.topologies.rates.access import AccessLink

_POSITIONS = ("site", "up", "down", "delay", "loss")
_WORDS = ("site", "up", "down", "burst")
_KINDS = {"rtt": "delay", "length": "delay", "share": "loss", "packets": "queue"} | {
    kind: kind
    for kind in ("up", "down", "rate", "delay", "loss", "queue", "burst", "duplicate", "corrupt")
}
"""What a column may say -> of what there may be one column."""
_ALLOWED = (
    "expected site, up and down or rate, and if wanted delay or rtt, loss, queue, burst, duplicate "
    "and corrupt"
)


def read_access(
    text: str, name: str, sites: Sequence[str]
) -> tuple[tuple[AccessLink, ...], tuple[str, ...]]:
    """Read an access link for each row of a file's text, and notes on what was not read.

    Args:
        text: the file's text.
        name: the file's name in errors.
        sites: the names of all sites.

    Raises:
        TopologyError: the text is no such table; the message has a line for each problem.
    """
    try:
        table = read_table(text, name, _POSITIONS)
    except FaultError as error:
        raise TopologyError(str(error)) from None
    place = find_sites(table.names)
    unread = _check_columns(table, place)
    if place is None:
        raise TopologyError(f"{table.where}: columns {','.join(table.names)}: {_ALLOWED}")
    found: dict[str, AccessLink] = {}
    problems = Problems()
    for row in table.rows:
        with problems.noting(f"{row[0]}: "):
            link = _read_row(row, place, table.names, sites)
            if link.sites[0] in found:
                raise TopologyError(f"{link.sites[0]}: expected one row for each site")
            found[link.sites[0]] = link
    problems.refuse()
    shown = list_some([quote(each) for each in unread], NOTED)
    notes = (f"{name}: columns that are not read: {shown}",) if unread else ()
    return tuple(found.values()), notes


def _check_columns(table: Table, place: int | None) -> list[str]:
    """The columns that say nothing of a link. Raises TopologyError for those that cannot be read.

    These are words of links that access links do not have, words that are nearly known, and second
    columns of a kind. `place` is the column of sites.
    """
    unread: list[str] = []
    problems = Problems()
    kinds: list[str] = []
    for name in [each for i, each in enumerate(table.names) if i != place]:
        found = find_quantity(name)
        kind = found[0] if found else name.lower() * (name.lower() == "burst")
        near = difflib.get_close_matches(name.lower(), [*_WORDS, *list_words()], 1, 0.8)
        what = f"{table.where}: column {quote(name)}: "
        if not kind and near:
            problems.texts.append(f"{what}did you mean {near[0]}? {_ALLOWED}")
        elif not kind:
            unread.append(name)
        elif kind not in _KINDS:
            problems.texts.append(f"{what}access links have none: {_ALLOWED}")
        elif _KINDS[kind] in kinds:
            problems.texts.append(f"{what}a second {_KINDS[kind]}: {_ALLOWED}, once")
        kinds.append(_KINDS.get(kind, ""))
    problems.refuse()
    return unread


def _read_row(row: Row, place: int, names: Sequence[str], sites: Sequence[str]) -> AccessLink:
    label = row[1][place] if place < len(row[1]) else ""
    site = label if label in sites else name_site(label)
    if site not in sites:
        raise TopologyError(f"{quote(label)}: expected one of {', '.join(sites)}")
    cells = {each: cell for i, (each, cell) in enumerate(zip(names, row[1], strict=False))
             if cell and i != place}  # fmt: skip
    burst = next((cells.pop(each) for each in names if each.lower() == "burst" and each in cells),
                 "1")  # fmt: skip
    try:
        values, access = attributes.read_link(cells), attributes.read_access(cells)
        if access.rates_mbps is None and values.rate_mbps is None:
            raise TopologyError(f"no rate: {_ALLOWED}")
        rate_mbps = values.rate_mbps or 0.0
        up_mbps, down_mbps = access.rates_mbps or (rate_mbps, rate_mbps)
        packets = float(burst)
    except TopologyError as error:
        raise TopologyError("\n".join(f"{site}: {text}" for text in error.problems)) from None
    except ValueError:
        raise TopologyError(f"{site}: burst {quote(burst)}: expected a number") from None
    return AccessLink(
        up_mbps,
        down_mbps,
        (site,),
        values.delay_ms or 0.0,
        values.loss_percent or 0.0,
        values.queue_bytes,
        packets,
        values.duplicate_percent or 0.0,
        values.corrupt_percent or 0.0,
    )
