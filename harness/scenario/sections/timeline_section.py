"""Reads and writes the `timeline:` of a scenario, its list of faults (pure)."""

from __future__ import annotations

from collections.abc import Collection

from trunkline.harness.config import units
from trunkline.harness.config.document import Document, KeyPath
from trunkline.harness.config.options import Refusal, make_check, make_type
from trunkline.harness.faults.fault_parts import FaultError
from trunkline.harness.faults.fault_syntax import Read, list_verbs, parse
from trunkline.harness.faults.fault_types import VERBS, Churn, Fault, Leave
from trunkline.harness.faults.fault_writing import usage, write
from trunkline.harness.faults.recorded import availability
from trunkline.harness.faults.recorded.recorded_faults import Availability, Trace
from trunkline.harness.faults.recorded.traces import MAX_STEPS
from trunkline.harness.faults.timeline import Entry
from trunkline.harness.scenario.settings import TimelineEntry
from trunkline.topologies.model import Topology

KEYS = ("at", "do")
"""The keys of an entry."""


def read(
    source: Document,
    topology: Topology | None,
    run_s: float,
    files: Read,
    targets: Collection[str] | None = None,
) -> tuple[Entry, ...]:
    """Read the entries of a document, in their order; problems are noted in the document.

    Args:
        source: the document.
        topology: its topology; None if that has problems, and then sites are not checked.
        run_s: the budget of the run in seconds; no entry may be later.
        files: reads the traces that entries name.
        targets: what faults may stop, see `fault_syntax.parse`.
    """
    given = source.data.get("timeline", [])
    if not isinstance(given, list):
        source.refuse(("timeline",), "expected a list of mappings with at: and do:")
        return ()
    check_line = make_check(make_type(TimelineEntry))
    found = [
        (index, entry)
        for index, line in enumerate(given)
        for entry in _read_entries(
            source, index, line, check_line(line), topology, run_s, files, targets
        )
    ]
    traces = [e.fault for _, e in found if isinstance(e.fault, Trace | Availability)]
    steps = sum(len(fault.steps) for fault in traces)
    if steps > MAX_STEPS:
        allowed = f"expected {MAX_STEPS} steps or fewer in all traces together"
        source.refuse(("timeline",), allowed, f"{steps} steps")
    for index, entry in found:
        if refusal := refuse_fault(entry.fault, targets is not None):
            source.refuse(("timeline", index, "do"), refusal)
    return tuple(entry for _, entry in found)


def write_entries(entries: tuple[Entry, ...]) -> list[dict[str, str]]:
    """Write entries as the data of a file, with the steps of traces."""
    return [
        {"at": units.render(entry.at_s, units.TIME_S), "do": write(entry.fault)}
        for entry in entries
    ]


def refuse_fault(fault: Fault, programs: bool) -> str | None:
    """The reason why a fault is not allowed with agents, or with programs; None if it is."""
    match fault:
        case Leave() if not programs:
            return "expected kill, because sites run no programs"
        case Churn(controller_s=float()) if programs:
            return "expected faults of sites and links: programs have no controller"
    return None


def _read_entries(
    source: Document,
    index: int,
    given: object,
    checked: tuple[TimelineEntry | None, list[Refusal]],
    topology: Topology | None,
    run_s: float,
    files: Read,
    targets: Collection[str] | None,
) -> list[Entry]:
    """The entry of a line, or one for each site that a file of availability names."""
    path: KeyPath = ("timeline", index)
    line, refusals = checked
    for refusal in _find_verb(given, refusals):
        source.refuse((*path, *refusal.path), refusal.text)
    if line is not None and line.at_s > run_s:
        source.refuse(
            (*path, "at"), f"expected up to limits.run, {units.render(run_s, units.TIME_S)}"
        )
    text = given.get("do") if isinstance(given, dict) else None
    if not isinstance(text, str):
        return []
    try:
        faults = [
            parse(each, topology, files, targets) for each in _name_sites(text, topology, files)
        ]
    except FaultError as error:
        source.refuse((*path, "do"), str(error))
        return []
    return [Entry(line.at_s, fault) for fault in faults] if line is not None else []


def _find_verb(given: object, refusals: list[Refusal]) -> list[Refusal]:
    """The refusals of a line; if it lacks `do` and has other keys, one says what stands in `do`."""
    others = [key for key in given if key not in KEYS] if isinstance(given, dict) else []
    if not others or "do" in given:  # type: ignore[operator]  # it is a mapping if it has keys
        return refusals
    key = next((key for key in others if key in VERBS), others[0])
    allowed = f"expected do: {usage(key)}" if key in VERBS else list_verbs(str(key))
    text = f"a fault stands in do, such as {{at: 5 s, do: outage n1 n2}}: {allowed}"
    return [Refusal((key,), text), *(each for each in refusals if each.path == ("at",))]


def _name_sites(text: str, topology: Topology | None, files: Read) -> list[str]:
    """The text, or instead of `availability all FILE` one for each site that the file names."""
    words = text.split()
    if topology is None or words[:2] != [Availability.VERB, availability.ALL] or len(words) < 3:
        return [text]
    sites = availability.list_sites(files(words[2]), words[2], topology.site_names)
    return [" ".join([words[0], site, *words[2:]]) for site in sites]
