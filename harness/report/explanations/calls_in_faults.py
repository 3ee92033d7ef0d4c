"""The timed calls of programs that were under way during each fault (pure)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from trunkline.harness.config.units import count_of
from trunkline.harness.record.calls import Call, list_calls
from trunkline.harness.record.history import Disturbance, History
from trunkline.harness.report.faults.fault_layout import LETTERS, shorten

MOST_FAULTS = 10
"""The most faults that are described; the others are counted."""

HARMLESS = ("churn", "heal", "mend", "resume")
"""They disturb no call: those of churn are faults of their own, and the others undo faults."""


@dataclass(frozen=True)
class CallsInFault:
    """A fault, and the calls of all sites that were under way while it lasted."""

    fault: Disturbance
    calls: tuple[Call, ...]

    @property
    def last_ns(self) -> int | None:
        """When the last of the calls ended; None if one never did, or if there is none."""
        ends = [call.finished.t_ns for call in self.calls if call.finished is not None]
        return max(ends) if ends and len(ends) == len(self.calls) else None

    def describe(self) -> str:
        """A sentence."""
        started, fault_end_ns = self.fault.started, self.fault.end_ns
        fault = f"{started.fault} ({shorten(started.text, LETTERS)})"
        if not self.calls:
            return f"Fault {fault} touched no call: none was under way."
        until = "on" if fault_end_ns is None else f"to {fault_end_ns / 1e9:.3f} s"
        names = Counter(call.started.name for call in self.calls)
        which = ", ".join(f"{count_of(n, 'call')} of {name}" for name, n in names.most_common())
        which += f" at {count_of(len({call.started.site for call in self.calls}), 'site')}"
        were = "was" if len(self.calls) == 1 else "were"
        span = f"from {started.t_ns / 1e9:.3f} s {until}"
        return f"During fault {fault}, {span}, {which} {were} under way; {self._describe_ends()}."

    def _describe_ends(self) -> str:
        outcomes = Counter(call.outcome for call in self.calls)
        if outcomes["unfinished"] == len(self.calls):
            return "none of them ended" if len(self.calls) > 1 else "it never ended"
        ends = [f"{outcomes['failed']} failed"] if outcomes["failed"] else []
        if outcomes["unfinished"]:
            ends.append(f"{outcomes['unfinished']} never ended")
        if self.last_ns is not None:
            late_ns = 0 if self.fault.end_ns is None else self.last_ns - self.fault.end_ns
            after = f", {late_ns / 1e9:.3f} s after the fault" if late_ns > 0 else ""
            which = "the last one" if len(self.calls) > 1 else "it"
            ends.append(f"{which} ended at {self.last_ns / 1e9:.3f} s{after}")
        return " and ".join(ends)

    def to_json(self) -> dict[str, Any]:
        """The same as an object."""
        started, end_ns, last_ns = self.fault.started, self.fault.end_ns, self.last_ns
        return {
            "fault": started.fault,
            "text": started.text,
            "start_s": started.t_ns / 1e9,
            "end_s": None if end_ns is None else end_ns / 1e9,
            "calls": dict(Counter(call.started.name for call in self.calls)),
            "outcomes": dict(Counter(call.outcome for call in self.calls)),
            "last_ended_s": None if last_ns is None else last_ns / 1e9,
        }


def find_calls_in_faults(history: History) -> list[CallsInFault]:
    """The calls that were under way while each fault lasted."""
    end_ns, calls = history.end_ns, list_calls(history)
    spans = [
        (call.started.t_ns, end_ns if call.finished is None else call.finished.t_ns, call)
        for call in calls
    ]
    found = []
    for fault in history.faults:
        if fault.started.verb in HARMLESS:
            continue
        begin_ns = fault.started.t_ns
        until_ns = end_ns if fault.end_ns is None else fault.end_ns
        under_way = (call for start, end, call in spans if start < until_ns and begin_ns < end)
        found.append(CallsInFault(fault, tuple(under_way)))
    return found


def describe_calls_in_faults(history: History) -> Iterator[str]:
    """A sentence on each fault; of many, on the first ones."""
    found = find_calls_in_faults(history)
    for each in found[:MOST_FAULTS]:
        yield each.describe()
    if left := found[MOST_FAULTS:]:
        busy = sum(bool(each.calls) for each in left)
        yield f"Calls were under way during {busy} of {count_of(len(left), 'other fault')}."
