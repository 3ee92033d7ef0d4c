"""The timed calls of programs that were under way during each fault (pure)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from statistics import median
from typing import Any

from trunkline.harness.config.units import count_of
from trunkline.harness.record.calls import Call, list_calls
from trunkline.harness.record.history import Disturbance, History
from trunkline.harness.record.lives import Interval
from trunkline.harness.report.faults.fault_layout import LETTERS, describe_span, shorten
from trunkline.workloads.program_roles import site_of

MOST_FAULTS = 10
"""The most faults that are described; the others are counted."""

LEAST_SHARE = 0.01
"""Calls during faults that took a smaller share of a program's time are not named in its sum."""

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
        started = self.fault.started
        fault = f"{started.fault} ({shorten(started.text, LETTERS)})"
        if not self.calls:
            return f"Fault {fault} touched no call: none was under way."
        names = Counter(call.started.name for call in self.calls)
        which = ", ".join(f"{count_of(n, 'call')} of {name}" for name, n in names.most_common())
        which += f" at {count_of(len({call.started.site for call in self.calls}), 'site')}"
        were = "was" if len(self.calls) == 1 else "were"
        span = describe_span(self.fault)
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


@dataclass(frozen=True)
class TimeInFaults:
    """What faults cost the programs with timed calls, in seconds of one program on average.

    Attributes:
        in_calls_s: in calls, from the start of a fault until these calls ended.
        longer_s: how much of this is beyond the median of the calls of the same kind and size
            that no fault touched; all of it where there is no such call.
        compared: whether there is such a call for each call.
    """

    in_calls_s: float
    longer_s: float
    compared: bool = True

    def describe(self, total_s: float) -> Iterator[str]:
        """A sentence, if calls during faults took a share of this time that is worth one."""
        if self.in_calls_s > LEAST_SHARE * total_s:
            more = f": {self.longer_s:.3f} s more than the median of such calls without a fault"
            yield (
                f"Calls during faults, counted until they ended, took {self.in_calls_s:.3f} s of a "
                f"program's time, on average{more if self.compared else ''}."
            )


def find_time_in_faults(history: History, programs: Iterable[str], rows: int) -> TimeInFaults:
    """The time of calls during faults and until these calls ended, by rows of programs."""
    programs = tuple(programs)
    first_ns = dict[Call, int]()
    for each in find_calls_in_faults(history):
        for call in each.calls:
            since_ns = max(call.started.t_ns, each.fault.started.t_ns)
            first_ns[call] = min(first_ns.get(call, since_ns), since_ns)
    usual_ns = defaultdict[tuple[str, int], list[int]](list)
    for call in list_calls(history):
        if call not in first_ns and call.finished is not None and not call.finished.failed:
            took_ns = call.finished.t_ns - call.started.t_ns
            usual_ns[call.started.name, call.started.bytes].append(took_ns)
    inside = defaultdict[tuple[str, int], list[Interval]](list)
    longer = defaultdict[tuple[str, int], list[Interval]](list)
    compared = True
    for call, since_ns in first_ns.items():
        who, end_ns = call.key[:2], _find_end(call, history, programs)
        inside[who].append((since_ns, end_ns))
        usual = usual_ns.get((call.started.name, call.started.bytes))
        most_ns = round(median(usual)) if usual else 0
        compared = compared and bool(usual)
        longer[who].append((max(since_ns, call.started.t_ns + most_ns), end_ns))
    sums_ns = (sum(map(_measure, found.values())) for found in (inside, longer))
    in_calls_s, longer_s = (sum_ns / 1e9 / max(rows, 1) for sum_ns in sums_ns)
    return TimeInFaults(in_calls_s, longer_s, compared)


def _find_end(call: Call, history: History, programs: Iterable[str]) -> int:
    """When a call ended; else when its program did."""
    begun = call.started
    if call.finished is not None:
        return call.finished.t_ns
    own = (name for name in programs if site_of(name) == begun.site)
    runs = (run for name in own for run in history.programs.runs(name))
    return max((end for start, end in runs if start <= begun.t_ns <= end), default=history.end_ns)


def _measure(spans: Iterable[Interval]) -> int:
    """How long any of these times lasted; one that ends before it begins counts nothing."""
    until_ns = sum_ns = 0
    for start_ns, end_ns in sorted(spans):
        sum_ns += max(0, end_ns - max(start_ns, until_ns))
        until_ns = max(until_ns, end_ns)
    return sum_ns


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
