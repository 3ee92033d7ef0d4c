"""Reads and writes a scenario's `timeline:` (pure): when what happens to links and agents."""

from __future__ import annotations

from harness import units
from harness.document import Document, KeyPath
from harness.faults import FaultError
from harness.options import check, typed
from harness.settings import TimelineEntry
from harness.timeline import Entry
from harness.wording import Read, parse, write
from topologies.model import Topology


def read(
    source: Document, topology: Topology | None, run_s: float, files: Read
) -> tuple[Entry, ...]:
    """The entries of a document, in their order; what is wrong is noted in it.

    `files` reads the traces that entries name. Without a topology sites go unchecked; nothing may
    be later than the run's budget `run_s`.
    """
    given = source.data.get("timeline", [])
    if not isinstance(given, list):
        source.refuse(("timeline",), "allowed is a list of mappings with at: and do:")
        return ()
    found = (_entry(source, index, topology, run_s, files) for index in range(len(given)))
    return tuple(entry for entry in found if entry is not None)


def plain(entries: tuple[Entry, ...]) -> list[dict[str, str]]:
    """The entries as data of a file; traces are written out."""
    return [
        {"at": units.render(entry.at_s, units.TIME_S), "do": write(entry.fault)}
        for entry in entries
    ]


def _entry(
    source: Document, index: int, topology: Topology | None, run_s: float, files: Read
) -> Entry | None:
    path: KeyPath = ("timeline", index)
    line, refusals = check(typed(TimelineEntry), source.get(path))
    for refusal in refusals:
        source.refuse((*path, *refusal.path), refusal.text)
    if line is None:
        return None
    if line.at_s > run_s:
        source.refuse(
            (*path, "at"), f"allowed is up to limits.run, {units.render(run_s, units.TIME_S)}"
        )
    try:
        return Entry(line.at_s, parse(line.do, topology, files))
    except FaultError as error:
        source.refuse((*path, "do"), str(error))
        return None
