"""The faults that several runs have in common (pure)."""

from __future__ import annotations

import math
from collections.abc import Sequence

from trunkline.harness.config.units import count_of
from trunkline.harness.record.history import Disturbance, History
from trunkline.harness.report.faults.fault_layout import describe_span, shorten
from trunkline.harness.report.faults.fault_table import find_timeline_start_ns

NAMED = 4
"""The most faults that a sentence names."""


def find(histories: Sequence[History]) -> list[Disturbance]:
    """The faults with the same text that began at the same time in all runs, to the millisecond.

    Each is the one that lasted longest: a run may end before its fault does.
    """
    of_runs = [
        {_identify(fault): fault for fault in history.faults if fault.started.targets}
        for history in histories
    ]
    return [
        max((faults[key] for faults in of_runs), key=lambda each: each.end_ns or math.inf)
        for key in (of_runs[0] if of_runs else ())
        if all(key in faults for faults in of_runs)
    ]


def describe(histories: Sequence[History]) -> str:
    """These faults in a sentence, which begins with a space; empty if there are none."""
    found = find(histories)
    begins = {find_timeline_start_ns(history) for history in histories}
    begin_ns = begins.pop() if len(begins) == 1 else None
    words = [
        f"{shorten(each.started.text)}, {describe_span(each, begin_ns)}" for each in found[:NAMED]
    ]
    left = [f"{count_of(len(found) - NAMED, 'other fault')}"] * (len(found) > NAMED)
    which = "Fault" if len(found) == 1 else "Faults"
    return f" {which} in all: {'; '.join([*words, *left])}." if found else ""


def _identify(fault: Disturbance) -> tuple[str, int]:
    return fault.started.text, round(fault.started.t_ns / 1e6)
