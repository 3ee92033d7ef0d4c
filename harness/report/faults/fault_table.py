"""The table of faults: those that happened, and those of the timeline that did not (pure)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import pandas as pd

from trunkline.agents.events.fault_events import FaultStarted
from trunkline.agents.events.run_events import ProgramsStarted
from trunkline.harness.faults.fault_syntax import write
from trunkline.harness.faults.timeline import Entry
from trunkline.harness.record.history import History
from trunkline.harness.report import columns


def tabulate_faults(history: History, timeline: Iterable[Entry] = ()) -> pd.DataFrame:
    """One row per fault, random ones included, and then one per entry that never began.

    `end_s` is empty if nothing undid the fault.
    """
    begin_ns = find_timeline_start_ns(history)
    happened = (
        {
            "fault": fault.started.fault,
            "verb": fault.started.verb,
            "text": fault.started.text,
            "targets": ", ".join(fault.started.targets),
            "at_s": None if begin_ns is None else (fault.started.t_ns - begin_ns) / 1e9,
            "start_s": fault.started.t_ns / 1e9,
            "end_s": None if fault.end_ns is None else fault.end_ns / 1e9,
            "by_hand": fault.started.asked,
        }
        for fault in history.faults
    )
    missed = (
        {
            "verb": entry.fault.VERB,
            "text": write(entry.fault),
            "targets": "",
            "at_s": entry.at_s,
            "by_hand": False,
        }
        for entry in list_missed(history, timeline)
    )
    return columns.FAULTS.frame([*happened, *missed])


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
