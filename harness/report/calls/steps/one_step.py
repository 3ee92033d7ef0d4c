"""Why one step of programs took its time: its calls in order, waits, links and faults (pure)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any

from trunkline.agents.planning.plan import Directed
from trunkline.harness.config.units import count_of, join_words, short_size
from trunkline.harness.network.count_times import list_times
from trunkline.harness.record.calls import Call, Key, list_calls, list_groups, list_same, may_be_new
from trunkline.harness.record.link_history import Conditions
from trunkline.harness.record.lives import Interval, overlap_ns
from trunkline.harness.record.step_times import StepTime, list_step_times
from trunkline.harness.report.calls.calls_in_faults import (
    HARMLESS,
    LEAST_S,
    MOST_FAULTS,
    find_calls_in_faults,
    find_fault_times,
)
from trunkline.harness.report.calls.silent_links import find_counts, find_silence
from trunkline.harness.report.calls.steps.step_tables import LEAST_PERCENT, NAMES
from trunkline.harness.report.faults.fault_layout import LETTERS, shorten
from trunkline.harness.report.run_data import RunData
from trunkline.workloads.program_roles import find_owner, site_of

MOST_CALLS = 40
"""The most calls of a step that are listed: those that took longest."""

MESSAGES = ("send", "recv")
"""The ends of the names of calls that move a message from one process to another."""

MOST_WAITS = 6
"""The most waits that are told."""


@dataclass(frozen=True, slots=True)
class Joint:
    """A call with its members, in the order in which they began it; `names` are their programs.

    Of a message from one to another, the two calls are told apart; `peer` is the other one's
    program, and empty for other calls.
    """

    calls: tuple[Call, ...]
    names: tuple[str, ...]
    peer: str = ""

    @property
    def begun_s(self) -> float:
        """When the first member began it."""
        return self.calls[0].started.t_ns / 1e9

    @property
    def all_begun_s(self) -> float:
        """When the last of the members that began it did."""
        return self.calls[-1].started.t_ns / 1e9

    @property
    def ended_s(self) -> float | None:
        """When the last member ended it; None if one never did."""
        ends = [call.finished.t_ns for call in self.calls if call.finished is not None]
        return max(ends) / 1e9 if len(ends) == len(self.calls) else None

    @property
    def what(self) -> str:
        """The call and its size."""
        sizes = {call.started.bytes for call in self.calls}
        size = f" ({short_size(max(sizes))})" if max(sizes) else ""
        return f"{self.calls[0].started.name}{size}"

    @property
    def who(self) -> str:
        """How many programs took part; of a message, from whom to whom."""
        if not self.peer:
            return str(len(self.calls))
        is_from = self.calls[0].started.name.endswith("recv")
        return f"{self.names[0]} {'from' if is_from else 'to'} {self.peer}"

    @property
    def last(self) -> str:
        """Who began it last, and how much later than the first; empty if all did at once."""
        late_s = self.all_begun_s - self.begun_s
        return f"{self.names[-1]}, {late_s:.3f} s after the first" if late_s >= LEAST_S else ""


@dataclass(frozen=True, slots=True)
class Load:
    """The load of a link of `rate_mbps` between two counts, in which the step lies."""

    link: Directed
    mbps: float
    rate_mbps: float
    span: Interval


@dataclass(frozen=True, slots=True)
class Acted:
    """A fault that acted in a step, and when it did.

    Attributes:
        cost_s: how long it held a program up in calls of the step, on average.
        unused: whether no call used its links.
    """

    number: int
    text: str
    span: Interval
    cost_s: float = 0.0
    unused: bool = False

    def describe(self) -> str:
        """A sentence on it."""
        name = f"Fault {self.number} ({shorten(self.text, LETTERS)})"
        if self.unused:
            return f"{name} acted meanwhile, but no call used its links."
        span = f"from {self.span[0] / 1e9:.3f} s to {self.span[1] / 1e9:.3f} s of the run"
        cost = f"held a program up for {self.cost_s:.3f} s of its calls on average"
        if self.cost_s < LEAST_S:
            cost = "held up none of its calls"
        return f"{name} acted in this step, {span}, and {cost}."


@dataclass(frozen=True, slots=True)
class OneStep:
    """One step of all programs.

    Attributes:
        rows: the step of each program, and of each of its processes that have steps of their own.
        usual_s: the median of the other steps of these programs; None if there is no other.
        faults: the faults that acted in it.
        busiest: the link that carried most of what its rate allows; None if none was counted.
    """

    number: int
    rows: tuple[StepTime, ...]
    usual_s: float | None
    calls: tuple[Joint, ...]
    faults: tuple[Acted, ...]
    busiest: Load | None

    @classmethod
    def of(cls, data: RunData, number: int) -> OneStep | None:
        """The step of this number; None if no program did it."""
        history, programs = data.history, tuple(data.scenario.programs)
        late_ns = find_fault_times(history, programs).since_ns
        steps = [*list_step_times(history, programs, late_ns)]
        rows = tuple(step for step in steps if step.number == number)
        if not rows:
            return None
        others = [
            (step.end_ns - step.start_ns) / 1e9
            for step in steps
            if step.number not in (None, number)
        ]
        span = min(row.start_ns for row in rows), max(row.end_ns for row in rows)
        return cls(
            number,
            rows,
            median(others) if others else None,
            tuple(_list_joint(data, rows)),
            tuple(_list_faults(data, span, rows)),
            _find_busiest(data, span),
        )

    @property
    def span_s(self) -> tuple[float, float]:
        """When the first program began it, and when the last one ended it."""
        starts, ends = (
            [getattr(row, f"{end}_ns") for row in self.rows] for end in ("start", "end")
        )
        return min(starts) / 1e9, max(ends) / 1e9

    def describe(self) -> Iterator[str]:
        """Sentences on its time, on who waited for whom, on links and on faults."""
        yield self._describe_time()
        waits = [
            (ns, row.who, other)
            for row in self.rows
            for other, ns in row.waited_for.items()
            if other
        ]
        told = sorted((wait for wait in waits if wait[0] >= 1e9 * LEAST_S), reverse=True)
        words = [f"{who} for {other} ({ns / 1e9:.3f} s)" for ns, who, other in told[:MOST_WAITS]]
        if left := told[MOST_WAITS:]:
            words.append(f"others ({sum(ns for ns, *_ in left) / 1e9:.3f} s together)")
        if words:
            yield f"Who waited for whom to begin a call: {join_words(words)}."
        if self.busiest is not None:
            yield self._describe_busiest(self.busiest)
        held_s = fmean(row.held_ns + row.stopped_ns for row in self.rows) / 1e9
        yield from (each.describe() for each in self.faults[:MOST_FAULTS])
        if more := len(self.faults[MOST_FAULTS:]):
            yield f"{count_of(more, 'other fault')} acted in this step, too."
        if not all(each.unused for each in self.faults) and held_s >= LEAST_S:
            yield f"On average, faults held a program up or stopped it for {held_s:.3f} s of it."

    def _describe_time(self) -> str:
        means_s = {name: fmean(_read_parts(row)[name] for row in self.rows) for name in NAMES}
        total_s = fmean(_measure_s(row) for row in self.rows)
        shares = [(seconds, 100 * seconds / total_s, name) for name, seconds in means_s.items()]
        parts = [
            f"{seconds:.3f} s ({share:.0f} %) {NAMES[name]}"
            for seconds, share, name in sorted(shares, reverse=True)
            if share >= LEAST_PERCENT
        ]
        usual = (
            ""
            if self.usual_s is None
            else f" The median of all other steps is {self.usual_s:.3f} s."
        )
        begun_s, ended_s = self.span_s
        return (
            f"Step {self.number} lasted from {begun_s:.3f} s to {ended_s:.3f} s of the run. A "
            f"program took {total_s:.3f} s for it on average: {join_words(parts)}.{usual}"
        )

    def _describe_busiest(self, load: Load) -> str:
        since_s, until_s = (ns / 1e9 for ns in load.span)
        return (
            f"The busiest link, {' -> '.join(load.link)}, carried {load.mbps:.3g} of the "
            f"{load.rate_mbps:.4g} Mbit/s that it had, on average between the counts of links at "
            f"{since_s:.1f} s and {until_s:.1f} s."
        )

    def to_json(self) -> dict[str, Any]:
        """The same as an object."""
        load = self.busiest
        return {
            "step": self.number,
            "usual_s": self.usual_s,
            "programs": [
                {"program": row.who, "process": row.process, "start_s": row.start_ns / 1e9}
                | {"duration_s": _measure_s(row)}
                | _read_parts(row)
                | {"waited_for": {who: ns / 1e9 for who, ns in row.waited_for.items()}}
                for row in self.rows
            ],
            "calls": [
                {
                    "call": each.calls[0].started.name,
                    "bytes": max(call.started.bytes for call in each.calls),
                    "programs": list(each.names),
                    "begun_s": each.begun_s,
                    "all_begun_s": each.all_begun_s,
                    "ended_s": each.ended_s,
                }
                for each in self.calls
            ],
            "busiest": None
            if load is None
            else {"link": " -> ".join(load.link), "mbps": load.mbps, "rate_mbps": load.rate_mbps},
            "faults": [each.number for each in self.faults if not each.unused],
            "idle_faults": [each.number for each in self.faults if each.unused],
            "faults_s": {each.number: each.cost_s for each in self.faults},
        }

    def list_calls(self) -> tuple[Sequence[Joint], int]:
        """The calls that took longest, in order, and how many others there are."""
        if len(self.calls) <= MOST_CALLS:
            return self.calls, 0
        longest = sorted(self.calls, key=lambda each: -_measure_call_s(each))[:MOST_CALLS]
        return sorted(longest, key=lambda each: each.begun_s), len(self.calls) - MOST_CALLS


def _measure_call_s(joint: Joint) -> float:
    return (joint.all_begun_s if joint.ended_s is None else joint.ended_s) - joint.begun_s


def _measure_s(row: StepTime) -> float:
    return (row.end_ns - row.start_ns) / 1e9


def _read_parts(row: StepTime) -> dict[str, float]:
    """The parts of the step, which add up to its time."""
    return {name: getattr(row, f"{name.removesuffix('_s')}_ns") / 1e9 for name in NAMES}


def _list_joint(data: RunData, rows: Sequence[StepTime]) -> Iterator[Joint]:
    """The calls that began in the step, with all of their members, in order of start."""
    spans = defaultdict[tuple[str, int | None], list[Interval]](list)
    for row in rows:
        spans[row.site, row.process].append((row.start_ns, row.end_ns))

    def began_in_step(call: Call) -> bool:
        site, process, _ = call.key
        own = [*spans.get((site, process), ()), *spans.get((site, None), ())]
        return any(start <= call.started.t_ns < end for start, end in own)

    names = defaultdict[str, list[str]](list)
    for program in data.scenario.programs:
        names[site_of(program)].append(program)

    def find_name(call: Call) -> str:
        site = call.started.site
        return find_owner(names.get(site, [site]), call.started.process)

    of_rank = {call.started.rank: find_name(call) for call in list_calls(data.history)}

    def join(calls: Sequence[Call]) -> Joint:
        ordered = tuple(sorted(calls, key=lambda call: (call.started.t_ns, call.key)))
        first, peer = ordered[0].started, ""
        if len(ordered) == 1 and first.name.endswith(MESSAGES) and first.peer is not None:
            peer = of_rank.get(first.peer, f"rank {first.peer}")
        return Joint(ordered, tuple(map(find_name, ordered)), peer)

    found, grouped = [], set[Key]()
    for (name, _), members in list_groups(data.history).items():
        for same in list_same(members, may_be_new(name, members)):
            grouped.update(call.key for call in same.values())
            if any(map(began_in_step, same.values())):
                found.append(join([*same.values()]))
    for call in list_calls(data.history):
        if call.key not in grouped and began_in_step(call):
            found.append(join([call]))
    yield from sorted(found, key=lambda each: (each.begun_s, each.all_begun_s))


def _list_faults(data: RunData, span: Interval, rows: Sequence[StepTime]) -> Iterator[Acted]:
    """The faults that acted in this time: a cut until its links carried data again."""
    history, programs = data.history, data.scenario.programs
    silent_ns, costs_s = find_silence(history), find_costs_s(data, rows)
    found = find_calls_in_faults(history, programs, len(rows))
    unused = {each.fault.started.fault for each in found if each.unused}
    for fault in history.faults:
        started, number = fault.started, fault.started.fault
        over_ns = silent_ns.get(number, fault.end_ns)
        acted = started.t_ns, history.end_ns if over_ns is None else over_ns
        if started.verb not in HARMLESS and overlap_ns(acted, span):
            yield Acted(number, started.text, acted, costs_s.get(number, 0.0), number in unused)


def find_costs_s(data: RunData, rows: Sequence[StepTime]) -> dict[int, float]:
    """How long each fault held a program up in calls of these steps, on average of the rows."""
    spans = defaultdict[tuple[str, int | None], list[Interval]](list)
    for row in rows:
        spans[row.site, row.process].append((row.start_ns, row.end_ns))
    times = find_fault_times(data.history, tuple(data.scenario.programs))
    return times.divide_s(len(rows), spans)


def find_main_fault(data: RunData, number: int, who: str) -> str:
    """The faults that held a program up in calls of a step, the first most, in words."""
    programs = tuple(data.scenario.programs)
    late_ns = find_fault_times(data.history, programs).since_ns
    steps = list_step_times(data.history, programs, late_ns)
    rows = [step for step in steps if step.number == number and step.who == who]
    costs_s = find_costs_s(data, rows) if rows else {}
    told = sorted(
        (fault for fault, s in costs_s.items() if s >= LEAST_S), key=lambda n: -costs_s[n]
    )
    names = {each.started.fault: each.started.text for each in data.history.faults}
    if len(told) == 1:
        return f": fault {told[0]}, {shorten(names[told[0]], LETTERS)}"
    return f": {join_words([f'{costs_s[n]:.3f} s by fault {n}' for n in told])}" if told else ""


def _find_busiest(data: RunData, span: Interval) -> Load | None:
    """The link that carried most of what its rate allows, between the counts around the step."""
    history = data.history
    conditions, edges_ns = (
        Conditions.of(history, data.scenario.topology),
        list_times(history.end_ns),
    )
    since_ns = max((t_ns for t_ns in edges_ns if t_ns <= span[0]), default=0)
    until_ns = min((t_ns for t_ns in edges_ns if t_ns >= span[1]), default=history.end_ns)
    whole, found = (since_ns, until_ns), []
    for link, counts in find_counts(history).items():
        carried = sum(each[2] for each in counts if overlap_ns(each[:2], whole))
        if carried and (room := conditions.capacity_bytes(link, [whole])):
            mbps, rate_mbps = (8e3 * size / (until_ns - since_ns) for size in (carried, room))
            found.append((carried / room, Load(link, mbps, rate_mbps, whole)))
    return max(found, key=lambda each: (each[0], each[1].link), default=(0, None))[1]
