"""Access links of many sites from a table with a row for each of them (pure).

Columns are `site`, `up` and `down` or one `rate` for both, and if wanted `delay` or `rtt`, `loss`,
`queue` and `burst`, with the words and units of networks from files. Without a header row they are
`site,up,down,delay,loss`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from trunkline.harness.faults.fault_types import FaultError
from trunkline.harness.faults.trace_tables import Row, read_table
from trunkline.topologies.access import AccessLink
from trunkline.topologies.attributes import find_quantity
from trunkline.topologies.links import TopologyError
from trunkline.topologies.node_names import name_site
from trunkline.topologies.quantities import Unit, quote, read_quantity

_POSITIONS = ("site", "up", "down", "delay", "loss")
_SITES = ("site", "name", "node", "client", "device", "host", "id")
_FIELDS = {
    "up": "up_mbps",
    "down": "down_mbps",
    "delay": "delay_ms",
    "loss": "loss_percent",
    "queue": "queue_bytes",
}
_SAME = {"share": "loss", "packets": "queue"}
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
        table = read_table(text if re.match(r"\s*[\[{]", text) else _mark(text), name)
    except FaultError as error:
        raise TopologyError(str(error)) from None
    place, columns = _find_columns(table.names, name)
    entries: list[AccessLink] = []
    problems: list[str] = []
    for row in table.rows:
        try:
            entries.append(_read_row(row, place, columns, sites))
        except TopologyError as error:
            problems += error.problems
    if problems:
        raise TopologyError("\n".join(problems))
    return tuple(entries)


def _mark(text: str) -> str:
    """The text with a header row: a first row with a quantity has none."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    cells = re.split(r"[,;\t|]", lines[0]) if lines else []
    if len(cells) < 2 or not re.match(r"\s*[0-9]", cells[1]):
        return text
    separator = next(each for each in (";", "\t", "|", ",") if each in lines[0])
    at = text.index(lines[0])
    return f"{text[:at]}{separator.join(_POSITIONS[: len(cells)])}\n{text[at:]}"


def _find_columns(names: Sequence[str], name: str) -> tuple[int, dict[str, tuple[int, Unit]]]:
    """The column of sites, and those of values with their units."""
    words = [re.sub(r"[\W_]", "", each).lower() for each in names]
    place = next((words.index(word) for word in _SITES if word in words), None)
    columns: dict[str, tuple[int, Unit | None]] = {}
    for i, each in enumerate(names):
        found = find_quantity(each) if i != place else None
        kind, unit = ("burst", None) if words[i] == "burst" else found or ("", None)
        kind = _SAME.get(kind, kind)
        if i != place and (kind in columns or kind not in (*_FIELDS, "rate", "rtt", "burst")):
            raise TopologyError(f"{name}: column {quote(each)}: {_ALLOWED}, each once")
        if i != place:
            columns[kind] = i, unit
    if place is None or not {"up", "down", "rate"}.intersection(columns):
        raise TopologyError(f"{name}: columns {','.join(names)}: {_ALLOWED}")
    return place, columns  # type: ignore[return-value]


def _read_row(
    row: Row, place: int, columns: dict[str, tuple[int, Unit]], sites: Sequence[str]
) -> AccessLink:
    where, cells = row
    label = cells[place] if place < len(cells) else ""
    site = label if label in sites else name_site(label)
    if site not in sites:
        raise TopologyError(f"{where}: {quote(label)}: expected one of {', '.join(sites)}")
    found: dict[str, Any] = {}
    for kind, (i, unit) in columns.items():
        text = cells[i] if i < len(cells) else ""
        if not text:
            continue
        try:
            found[kind] = float(text) if kind == "burst" else read_quantity(text, unit)
        except TopologyError as error:
            raise TopologyError(f"{where}: {site}: {kind} {error}") from None
        except ValueError:
            raise TopologyError(
                f"{where}: {site}: burst {quote(text)}: expected a number"
            ) from None
    rate = found.pop("rate", None)
    up, down = found.get("up", rate), found.get("down", rate)
    if up is None and down is None:
        raise TopologyError(f"{where}: {site}: no rate: {_ALLOWED}")
    found |= {"up": down if up is None else up, "down": up if down is None else down}
    if (rtt := found.pop("rtt", None)) is not None:
        found.setdefault("delay", rtt / 2)
    if "queue" in found:
        found["queue"] = round(found["queue"])
    values = {_FIELDS.get(kind, kind): value for kind, value in found.items()}
    return AccessLink(sites=(site,), **values)
