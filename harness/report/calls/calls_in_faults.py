"""The timed calls of programs that were under way during each fault, and its cost (pure).

A call that a fault touched is compared with the median of those of the same kind and size that none
touched: with those of the same member, if there are any. The fault cost the difference. This time
lies at the end of the call; if several faults touched the call, each moment of it belongs to those
that lasted then. A cut lasts until its links carry data again. If a program failed amid such a
call, and with it the run, the fault is said to have ended the run.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from trunkline.agents.events.call_events import CallStarted
from trunkline.agents.events.causes import ProgramFailed
from trunkline.agents.events.run_events import Stopping
from trunkline.harness.checks.expectations.failures import BREAKING
from trunkline.harness.config.units import count_of, join_words
from trunkline.harness.record.calls import Call, Key, list_calls
from trunkline.harness.record.history import Disturbance, History
from trunkline.harness.record.lives import Interval
from trunkline.harness.report.calls.silent_links import carry_nothing, find_silence
from trunkline.harness.report.calls.usual_calls import Usual
from trunkline.harness.report.faults.fault_layout import LETTERS, describe_span, shorten
from trunkline.harness.report.faults.fault_table import find_timeline_start_ns
from trunkline.workloads.program_roles import site_of

MOST_FAULTS = 10
"""The most faults that are described; the others are counted."""

LEAST_S = 0.0005
"""A smaller cost is none."""

HARMLESS = ("churn", "heal", "mend", "resume")
"""They disturb no call: those of churn are faults of their own, and the others undo faults."""


LONGER_SHARE = 0.1
"""A call that took longer than usual by a smaller share was not delayed."""


@dataclass(frozen=True, slots=True)
class Delayed:
    """A call that took longer than usual, after a fault had begun.

    Attributes:
        since_ns: from then on it was late: the fault had begun, and such calls are done by then.
        faults: when each of the faults that touched it began, and when it or the call ended, in ns,
            by number.
    """

    call: Call
    since_ns: int
    end_ns: int
    faults: Mapping[int, Interval]


@dataclass(frozen=True)
class CallsInFault:
    """A fault, and the calls of all sites that were under way while it lasted.

    Attributes:
        cost_s: the time that it took of one program, on average.
        is_shared: whether some of the completed calls took longer than usual, and other faults
            touched them, too.
        beside: the other faults with which it divides the lost time of calls.
        silent_ns: until when the links that it had cut carried no data; None if it cut none, or if
            they carried some at once.
        unknown: how many of the calls cannot be compared: none like them ended without a fault.
        unused: whether it affected only links that carried nothing until these calls were done.
            Then `calls` is empty: it touched none.
        ended: whether it ended the run: it stops programs or cuts links, and a program failed
            before calls that were under way were done. Several faults may have done so.
    """

    fault: Disturbance
    calls: tuple[Call, ...]
    cost_s: float = 0.0
    is_shared: bool = False
    beside: tuple[int, ...] = ()
    silent_ns: int | None = None
    unknown: int = 0
    unused: bool = False
    ended: bool = False

    @property
    def last_ns(self) -> int | None:
        """When the last of the calls ended; None if one never did, or if there is none."""
        ends = [call.finished.t_ns for call in self.calls if call.finished is not None]
        return max(ends) if ends and len(ends) == len(self.calls) else None

    @property
    def is_broken(self) -> bool:
        """Whether some of the calls failed or never ended."""
        return any(call.outcome != "completed" for call in self.calls)

    @property
    def is_known(self) -> bool:
        """Whether some of the calls can be compared with others."""
        return self.unknown < len(self.calls)

    def describe(self, begin_ns: int | None = None) -> Iterator[str]:
        """The cost of the fault, and the calls under way, in sentences.

        The timeline's clock began at `begin_ns`.
        """
        started = self.fault.started
        name = f"Fault {started.fault} ({shorten(started.text, LETTERS)})"
        if not self.calls:
            why = "no call used its links" if self.unused else "none was under way"
            yield f"{name} cost the programs nothing in calls: {why}."
            return
        span, ends = describe_span(self.fault, begin_ns), self._describe_ends()
        yield f"{name}, {span}, {self._describe_cost()}. {self._describe_calls()}; {ends}."
        if self.silent_ns is not None:
            yield (
                f"After fault {started.fault} its links carried no data until about "
                f"{self.silent_ns / 1e9:.1f} s: TCP waited for its timer, so the fault still acted."
            )

    def _describe_cost(self) -> str:
        is_costly = self.is_known and self.cost_s >= LEAST_S
        cost = f"cost a program {self.cost_s:.3f} s on average" if is_costly else ""
        if cost and self.beside:
            numbers = join_words(list(map(str, sorted((self.fault.started.fault, *self.beside)))))
            cost += f" (each moment shared by faults {numbers})"
        if self.ended:
            return " and ".join(filter(None, (cost, "ended the run")))
        if not self.is_known:
            return "has a cost that the log does not tell: no such call ended without a fault"
        if not any(call.outcome == "completed" for call in self.calls):
            return cost or "has a cost that the log does not tell: no call was completed meanwhile"
        which = "completed calls" if self.is_broken else "calls"
        why = f"{which} took no longer than without a fault"
        if self.is_shared:
            why = "calls took longer than usual only during other faults or after them"
        return cost or f"cost no time that the log shows: {why}"

    def _describe_calls(self) -> str:
        names = Counter(call.started.name for call in self.calls)
        which = [f"{count_of(n, 'call')} of {name}" for name, n in names.most_common()]
        were = "was" if len(self.calls) == 1 else "were"
        sites = count_of(len({call.started.site for call in self.calls}), "site")
        some = f", {self.unknown} of them without others to compare" if self.unknown else ""
        calls = f"{join_words(which)} at {sites}"
        return f"Meanwhile {calls} {were} under way{some if self.is_known else ''}"

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
            "silent_until_s": None if self.silent_ns is None else self.silent_ns / 1e9,
            "divided_with": list(self.beside),
            "cost_s": self.cost_s if self.is_known or not self.calls else None,
            "ended_run": self.ended,
            "not_compared": self.unknown,
        }


Spans = Mapping[tuple[str, int | None], Sequence[Interval]]
"""Times of each process, by its site and its id; of all processes of a site without an id."""


@dataclass(frozen=True)
class FaultTimes:
    """The calls that faults touched: which were late, and which cannot be compared.

    `usual` tells how long calls take otherwise; it is None if faults touched none.
    """

    delayed: tuple[Delayed, ...] = ()
    unknown: frozenset[Key] = frozenset()
    usual: Usual | None = None

    @property
    def since_ns(self) -> dict[Key, int]:
        """From when each of the late calls was late."""
        return {each.call.key: each.since_ns for each in self.delayed}

    def measure_s(self, rows: int) -> float:
        """The time of late calls, in seconds of one of so many programs on average."""
        return sum(end - start for _, start, end, _ in self._list_late()) / 1e9 / max(rows, 1)

    def divide_s(self, rows: int, spans: Spans | None = None) -> dict[int, float]:
        """The same by fault: if several touched a call, moment by moment.

        With `spans`, only what lies in these times of each process, or of its site, counts.
        """
        found = defaultdict[int, float](float)
        for shares in self._list_shares(spans):
            for fault, ns in shares.items():
                found[fault] += ns / 1e9 / max(rows, 1)
        return dict(found)

    def list_sharing(self) -> dict[int, set[int]]:
        """The faults that share the late time of some call with each fault, and itself."""
        found = defaultdict[int, set[int]](set)
        for shares in self._list_shares():
            for fault in shares:
                found[fault] |= shares.keys()
        return dict(found)

    def _list_shares(self, spans: Spans | None = None) -> Iterator[dict[int, float]]:
        """For each time that calls were late, in ns, the shares of faults."""
        for (site, process), start_ns, end_ns, faults in self._list_late():
            whole = start_ns, end_ns
            own: Iterable[Interval] = [whole]
            if spans is not None:
                own = (*spans.get((site, process), ()), *spans.get((site, None), ()))
            for since_ns, until_ns in own:
                begin_ns, stop_ns = max(start_ns, since_ns), min(end_ns, until_ns)
                shares = defaultdict[int, float](float)
                for fault, ns in _share(begin_ns, stop_ns, faults) if begin_ns < stop_ns else ():
                    shares[fault] += ns
                yield shares

    def _list_late(self) -> Iterator[tuple[tuple[str, int], int, int, Mapping[int, Interval]]]:
        """Whose calls were late and when, and their faults; no time of a process twice."""
        until_ns = defaultdict[tuple[str, int], int](int)
        for each in sorted(self.delayed, key=lambda each: (each.since_ns, each.end_ns)):
            process = each.call.key[:2]
            start_ns = max(each.since_ns, until_ns[process])
            if start_ns < each.end_ns:
                yield process, start_ns, each.end_ns, each.faults
                until_ns[process] = each.end_ns


def _share(
    start_ns: int, end_ns: int, faults: Mapping[int, Interval]
) -> Iterator[tuple[int, float]]:
    """The parts of a time that belong to each of the faults; one of them had begun before it.

    Faults that last at a moment have equal parts of it. If none does, those have that ended last.
    """
    turns = {ns for span in faults.values() for ns in span if start_ns < ns < end_ns}
    for begin_ns, until_ns in pairwise(sorted({start_ns, end_ns, *turns})):
        begun = {fault: over for fault, (since, over) in faults.items() if since <= begin_ns}
        least_ns = min(max(begun.values()), begin_ns + 1)
        owners = [fault for fault, over in begun.items() if over >= least_ns]
        for fault in owners:
            yield fault, (until_ns - begin_ns) / len(owners)


def find_fault_times(history: History, programs: Iterable[str]) -> FaultTimes:
    """Compare calls that a fault touched with those of the same kind and size that none did."""
    return history.remember(_FindFaultTimes(tuple(programs)))


@dataclass(frozen=True, slots=True)
class _FindFaultTimes:
    """The comparison for these programs; a history remembers its result."""

    programs: tuple[str, ...]

    def __call__(self, history: History) -> FaultTimes:
        return _find_fault_times(history, self.programs)


def _find_fault_times(history: History, programs: tuple[str, ...]) -> FaultTimes:
    silent_ns = find_silence(history)
    touched = defaultdict[Call, dict[int, Interval]](dict)
    for each in _find_touched(history):
        begin_ns, number = each.fault.started.t_ns, each.fault.started.fault
        for call in each.calls:
            end_ns = _find_end(call, history, programs)
            over_ns = silent_ns.get(number, each.fault.end_ns)
            touched[call][number] = begin_ns, end_ns if over_ns is None else min(end_ns, over_ns)
    if not touched:
        return FaultTimes()
    usual = Usual(history, touched)
    delayed, unknown = [], set()
    for call, faults in touched.items():
        fault_ns = min(since_ns for since_ns, _ in faults.values())
        if (most_ns := usual.expect(call, fault_ns)) is None:
            unknown.add(call.key)
            continue
        begin_ns, end_ns = call.started.t_ns, _find_end(call, history, programs)
        since_ns = max(fault_ns, begin_ns + most_ns)
        if since_ns < end_ns and end_ns - begin_ns > (1 + LONGER_SHARE) * most_ns:
            delayed.append(Delayed(call, since_ns, end_ns, faults))
    return FaultTimes(tuple(delayed), frozenset(unknown), usual)


def _find_end(call: Call, history: History, programs: Iterable[str]) -> int:
    """When a call ended; else when its program did."""
    begun = call.started
    if call.finished is not None:
        return call.finished.t_ns
    own = (name for name in programs if site_of(name) == begun.site)
    runs = (run for name in own for run in history.programs.runs(name))
    return max((end for start, end in runs if start <= begun.t_ns <= end), default=history.end_ns)


def find_calls_in_faults(
    history: History, programs: Iterable[str], rows: int
) -> list[CallsInFault]:
    """The calls that were under way while each fault lasted, and its cost for one of the rows."""
    times = find_fault_times(history, programs)
    costs_s, sharing, silent_ns = times.divide_s(rows), times.list_sharing(), find_silence(history)
    calls = (each.call for each in times.delayed if len(each.faults) > 1)
    shared = {call.key for call in calls if call.outcome == "completed"}
    return [
        replace(
            each,
            cost_s=costs_s.get(number, 0.0),
            is_shared=any(call.key in shared for call in each.calls),
            beside=tuple(sorted(sharing.get(number, {number}) - {number})),
            silent_ns=silent_ns.get(number),
            unknown=sum(call.key in times.unknown for call in each.calls),
            ended=_has_ended(each, history),
        )
        for each in _find_touched(history)
        for number in (each.fault.started.fault,)
    ]


def _has_ended(found: CallsInFault, history: History) -> bool:
    """Whether a program failed, and with it the run, in calls that this fault may have broken.

    A site that began another call after a broken one had got over it.
    """
    began = found.fault.started
    failed_ns = max(
        (event.t_ns for event in history.all(Stopping) if isinstance(event.cause, ProgramFailed)),
        default=-1,
    )
    if began.verb not in BREAKING or failed_ns < began.t_ns:
        return False
    last_ns = {event.site: event.t_ns for event in history.all(CallStarted)}
    return any(
        last_ns[call.started.site] <= max(began.t_ns, call.started.t_ns)
        if call.finished is None
        else call.finished.failed and last_ns[call.started.site] <= call.finished.t_ns
        for call in found.calls
    )


def _find_touched(history: History) -> list[CallsInFault]:
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
        each = CallsInFault(fault, tuple(under_way))
        if each.calls and not each.is_broken and carry_nothing(fault, history, each.last_ns or 0):
            each = CallsInFault(fault, (), unused=True)
        found.append(each)
    return found


def describe_calls_in_faults(history: History, programs: Iterable[str], rows: int) -> list[str]:
    """The cost of each fault for one of the rows, the costliest first; of many, the first ones."""
    found = find_calls_in_faults(history, programs, rows)
    found.sort(key=lambda each: -each.cost_s)
    begin_ns = find_timeline_start_ns(history) or 0  # a log without it has one clock
    told = [" ".join(each.describe(begin_ns)) for each in found[:MOST_FAULTS]]
    if left := found[MOST_FAULTS:]:
        busy = sum(bool(each.calls) for each in left)
        cost_s = sum(each.cost_s for each in left)
        which = count_of(len(left), "other fault")
        told.append(
            f"{which} cost a program {cost_s:.3f} s on average; calls were under way during {busy}."
        )
    return told


def name_costliest(history: History, programs: Iterable[str], rows: int) -> Iterator[str]:
    """The fault that cost the programs most, if several cost them something."""
    found = find_calls_in_faults(history, programs, rows)
    costs_s = {each.fault.started.fault: each.cost_s for each in found if each.cost_s >= LEAST_S}
    if len(costs_s) > 1:
        worst = max(costs_s, key=lambda fault: costs_s[fault])
        share = 100 * costs_s[worst] / sum(costs_s.values())
        yield f"Fault {worst} cost the programs most: {share:.0f} % of the cost of all faults."
