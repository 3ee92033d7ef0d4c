"""Access links of many sites from a table with a row for each of them (pure).

Columns are `site`, `up` and `down` or one `rate` for both, and if wanted `delay` or `rtt`, `loss`,
`queue` and `burst`, with the words and units of networks from files. Without a header row they are
`site,up,down,delay,loss`.
"""

from __future__ import annotations

from collections.abc import Sequence

from trunkline.harness.faults.fault_types import FaultError
from trunkline.harness.faults.trace_columns import find_sites
from trunkline.harness.faults.trace_tables import Row, read_table
from trunkline.topologies.access import AccessLink
from trunkline.topologies.formats import attributes
from trunkline.topologies.formats.attributes import find_quantity
from trunkline.topologies.formats.network_file import Problems
from trunkline.topologies.formats.node_names import name_site
from trunkline.topologies.formats.quantities import quote
from trunkline.topologies.links import TopologyError

_POSITIONS = ("site", "up", "down", "delay", "loss")
_ALLOWED = "expected site, up and down or rate, and if wanted delay or rtt, loss, queue and burst"


def read_access(text: str, name: str, sites: Sequence[str]) -> tuple[AccessLink, ...]:
    """Read an access link for each row of a file's text.

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
    kinds = [(find_quantity(each) or (each.lower(), None))[0] for each in table.names]
    for i, kind in enumerate(kinds):
        known = kind == "burst" or (kind != "jitter" and find_quantity(table.names[i]))
        if i != place and (not known or kind in kinds[:i]):
            raise TopologyError(f"{table.where}: column {quote(table.names[i])}: {_ALLOWED}, once")
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
    return tuple(found.values())


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
    )
