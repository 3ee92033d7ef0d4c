"""The table of faults: those that happened, and those of the timeline that did not (pure)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from trunkline.agents.events.fault_events import FaultStarted
from trunkline.agents.events.run_events import ProgramsStarted
from trunkline.harness.faults.fault_writing import write
from trunkline.harness.faults.timeline import Entry
from trunkline.harness.record.history import History
from trunkline.harness.report.tables.row import Row, column, to_s


class FaultRow(Row, table="faults"):
    """One row per fault of the timeline, of the shell, or drawn at random."""

    fault: int | None = column("its number, from 0; empty if the run ended before it", default=None)
    verb: str = column("its kind: `outage`, `kill`, ...")
    text: str = column("the whole fault, as a timeline has it")
    targets: str = column(
        "the directed links (`a -> b`) or agents, separated by commas; empty for all links, and "
        "for a fault that never began"
    )
    at_s: float | None = column(
        "when it began, or was to begin, since the start of the first task or the programs: the "
        "clock of the timeline and the shell"
    )
    start_s: float | None = column("when it began; empty if the run ended before", default=None)
    end_s: float | None = column("when it was undone; empty if nothing undid it", default=None)
    by_hand: bool = column("whether a user asked for it during the run")


def tabulate_faults(history: History, timeline: Iterable[Entry] = ()) -> Iterator[FaultRow]:
    """One row per fault, random ones included, and then one per entry that never began.

    `end_s` is empty if nothing undid the fault.
    """
    begin_ns = find_timeline_start_ns(history)
    for fault in history.faults:
        started = fault.started
        yield FaultRow(
            fault=started.fault,
            verb=started.verb,
            text=started.text,
            targets=", ".join(started.targets),
            at_s=None if begin_ns is None else (started.t_ns - begin_ns) / 1e9,
            start_s=started.t_ns / 1e9,
            end_s=to_s(fault.end_ns),
            by_hand=started.asked,
        )
    for entry in list_missed(history, timeline):
        text = write(entry.fault)
        yield FaultRow(verb=entry.fault.VERB, text=text, targets="", at_s=entry.at_s, by_hand=False)


def find_timeline_start_ns(history: History) -> int | None:
    """When the timeline's clock began: with the first task or the programs; None if never."""
    begun = (*(task.started for task in history.tasks), *history.all(ProgramsStarted))
    return min((event.t_ns for event in begun), default=None)


def list_missed(history: History, timeline: Iterable[Entry]) -> Iterator[Entry]:
    """The entries of a timeline that never began, in order of time: the run ended before."""
    begun = Counter(event.text for event in history.all(FaultStarted) if not event.asked)
    for entry in sorted(timeline, key=lambda each: each.at_s):
        text = write(entry.fault)
        if begun[text]:
            begun[text] -= 1
        else:
            yield entry
