"""A run of three sites written down by hand in `data/three_sites.jsonl`, and ways to spoil it.

Links carry 8 Mbit/s (1 MB/s) with 10 ms of delay; the model has 1 MB in four chunks. Task 0 is a
parameter server at rome for oslo and rome, task 1 a CREW task of kyiv and rome that oslo helps
with, task 2 is abandoned.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from trunkline.agents.events import event_reading
from trunkline.harness.record.history import History
from trunkline.topologies.links import Link
from trunkline.topologies.model import Site, Topology

DATA = Path(__file__).parent / "data"
LOG = DATA / "three_sites.jsonl"
SCENARIO = DATA / "three_sites.yaml"
SITES = ("oslo", "rome", "kyiv")
TOPOLOGY = Topology(
    "three",
    tuple(Site(name) for name in SITES),
    tuple(Link(a, b, 8.0, 10.0) for a in SITES for b in SITES if a != b),
)

Line = dict[str, Any]
Change = Callable[[list[Line]], list[Line]]


def history(*changes: Change) -> History:
    """The good history, with these changes made to it."""
    log = [json.loads(line) for line in LOG.read_text().splitlines()]
    for change in changes:
        log = change(log)
    return History.of(event_reading.read(json.dumps(line) for line in log))


def without(event: str, **match: Any) -> Change:
    """Leaves out the events that match, of which there must be some."""
    return lambda log: [line for line in log if line not in _matching(log, event, match)]


def altered(event: str, _new: Line, **match: Any) -> Change:
    """Gives new values to the events that match, of which there must be some."""

    def change(log: list[Line]) -> list[Line]:
        found = _matching(log, event, match)
        new = [{**line, **_new} if line in found else line for line in log]
        return sorted(new, key=lambda line: line["t_ns"])

    return change


def added(t_ms: float, site: str, event: str, **values: Any) -> Change:
    """Adds an event, after those of the same time."""
    new = {"t_ns": round(t_ms * 10**6), "site": site, "event": event, **values}
    return lambda log: sorted([*log, new], key=lambda line: line["t_ns"])


def changed(t_ms: float, who: str, do: str) -> Change:
    """An agent is killed, paused, or the reverse."""
    return added(t_ms, "runner", "agent_changed", who=who, do=do, fault=0)


def list_rows(table: dict[str, dict[str, list[Change]]]) -> list[tuple[str, str, list[Change]]]:
    """A table of wrong logs as rows: the check, what it says, and the changes that it notices."""
    return [(name, said, each) for name, rows in table.items() for said, each in rows.items()]


def _matching(log: list[Line], event: str, match: Line) -> list[Line]:
    found = [
        line for line in log if all(line.get(k) == v for k, v in {"event": event, **match}.items())
    ]
    assert found, f"no {event} with {match}"
    return found
