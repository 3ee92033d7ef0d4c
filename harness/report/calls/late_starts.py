"""Why the program that others waited for most began its calls last (pure)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import NamedTuple

from trunkline.agents.events.round_events import ComputeStarted
from trunkline.harness.record.calls import (
    Call,
    list_calls,
    list_groups,
    list_needed,
    list_same,
    may_be_new,
)
from trunkline.harness.record.history import History
from trunkline.harness.record.lives import Interval, overlap_ns
from trunkline.harness.report.calls.calls_in_faults import HARMLESS
from trunkline.harness.report.calls.silent_links import find_silence
from trunkline.workloads.program_roles import find_owner, site_of

LEAST_S = 0.0005
"""Who began later by less on average began at once."""

MOST_SHARE = 0.8
"""Computing is the reason if it is at least this share of the time between calls."""

MOST_NAMED = 0.8
"""The calls before have a name if it is that of at least this share of them."""


@dataclass(frozen=True, slots=True)
class _Between:
    """The time of a process from the end of its last call to the start of this one.

    Attributes:
        ended_ns: when its last call had ended.
        computing_ns: how long it computed since then.
        is_step: whether that was the computing of one whole step.
    """

    begun_ns: int
    ended_ns: int
    computing_ns: int
    is_step: bool


@dataclass(frozen=True, slots=True)
class _Late:
    """A call that one process began last, and what the others had done before.

    Attributes:
        in_fault: whether a fault acted between the first call before and this one.
        name: what the call before was.
    """

    own: _Between
    others: Sequence[_Between]
    in_fault: bool
    name: str

    @property
    def late_ns(self) -> float:
        """How much later it began than the others."""
        return self.own.begun_ns - fmean(each.begun_ns for each in self.others)

    @property
    def ended_ns(self) -> float:
        """How much later its call before had ended."""
        return self.own.ended_ns - fmean(each.ended_ns for each in self.others)

    @property
    def others_ns(self) -> float:
        """How long the others had computed."""
        return fmean(each.computing_ns for each in self.others)

    @property
    def is_after_computing(self) -> bool:
        """Whether a member had computed."""
        return any(each.computing_ns for each in (self.own, *self.others))

    @property
    def is_after_steps(self) -> bool:
        """Whether each member had computed one whole step."""
        return all(each.is_step for each in (self.own, *self.others))


def describe_late_start(history: History, programs: Iterable[str], who: str) -> Iterator[str]:
    """A sentence on why a program began calls after the others; none if the log does not tell.

    Its calls before had ended later than those of the others, or it computed longer, or it took
    longer from there to the next call for another reason. Calls beside faults do not count if there
    are others. Calls before which no member computed, such as those of the start, do not count if
    those after computing were most of the wait. Times are medians, and the sentence says
    "typically", unless the median says too little of the wait: then they are means.
    """
    late = list(_list_late(history, programs, who))
    late = [each for each in late if not each.in_fault] or late
    after = [each for each in late if each.is_after_computing]
    if 2 * sum(each.late_ns for each in after) >= sum(each.late_ns for each in late):
        late = after or late
    if not late:
        return
    typical = median(each.late_ns for each in late)
    is_typical = 2 * typical >= fmean(each.late_ns for each in late)
    average: Callable[[Iterable[float]], float] = median if is_typical else fmean
    late_s = average(each.late_ns for each in late) / 1e9
    if late_s >= LEAST_S:
        ended_s = average(each.ended_ns for each in late) / 1e9
        own_s = average(each.own.computing_ns for each in late) / 1e9
        others_s = average(each.others_ns for each in late) / 1e9
        if ended_s >= late_s / 2:
            (name, named), *_ = Counter(each.name for each in late).most_common(1)
            which = f"{name} before"
            if named < MOST_NAMED * len(late):
                which = f"last call before (in {named} of {len(late)} cases {name})"
            why = f"its {which} had ended {ended_s:.3f} s later"
        elif own_s - others_s >= MOST_SHARE * (late_s - ended_s):
            per = "per step" if all(each.is_after_steps for each in late) else "between calls"
            times = f"({own_s:.3f} s against {others_s:.3f} s)"
            why = f"it computed {own_s - others_s:.3f} s longer {per} {times}"
        else:
            between = "from the end of a call to the start of the next one"
            why = f"it took {late_s - ended_s:.3f} s longer {between}"
        how = "typically began" if is_typical else "began"
        yield (f"{who} {how} {late_s:.3f} s after those that waited for it, mostly because {why}.")


def _list_late(history: History, programs: Iterable[str], who: str) -> Iterator[_Late]:
    """The calls that this program began last."""
    ended = defaultdict[tuple[str, int], list[_Ended]](list)
    for call in list_calls(history):
        if call.finished is not None:
            one = _Ended(call.finished.t_ns, call.started.t_ns, call.started.name)
            ended[call.key[:2]].append(one)
    for own_ended in ended.values():
        own_ended.sort()
    acted = list(_list_acted(history))
    computing = _Computing(history, programs)
    for last, waiting in _list_meetings(history):
        if computing.find_program(last) != who:
            continue
        ordered = last, *waiting
        before = [found for call in ordered if (found := _find_before(call, ended)) is not None]
        if len(before) == len(ordered):
            own, *others = (
                computing.measure(call, one.ended_ns)
                for call, one in zip(ordered, before, strict=True)
            )
            span = min(one.begun_ns for one in before), last.started.t_ns
            in_fault = any(overlap_ns(span, each) for each in acted)
            yield _Late(own, others, in_fault, before[0].name)


def _list_acted(history: History) -> Iterator[Interval]:
    """When faults acted: a cut until its links carried data again."""
    silent_ns = find_silence(history)
    for fault in history.faults:
        if fault.started.verb not in HARMLESS:
            end_ns = silent_ns.get(fault.started.fault, fault.end_ns)
            yield fault.started.t_ns, history.end_ns if end_ns is None else end_ns


class _Ended(NamedTuple):
    """A call that ended."""

    ended_ns: int
    begun_ns: int
    name: str


class _Phase(NamedTuple):
    """A part of an iteration that was computed."""

    start_ns: int
    end_ns: int
    number: int


class _Computing:
    """When the processes of each site computed."""

    def __init__(self, history: History, programs: Iterable[str]) -> None:
        self.names = defaultdict[str, list[str]](list)
        for program in programs:
            self.names[site_of(program)].append(program)
        self.pauses = {
            name: history.programs.pauses(name) for own in self.names.values() for name in own
        }
        self.phases = defaultdict[tuple[str, int | None], list[_Phase]](list)
        for site, phases in history.phases.items():
            for each in phases:
                if isinstance(begun := each.begun, ComputeStarted):
                    phase = _Phase(each.start_ns, each.end_ns, begun.iteration)
                    self.phases[site, begun.process].append(phase)
        for found in self.phases.values():
            found.sort()
        self.parts = {key: Counter(each.number for each in own) for key, own in self.phases.items()}

    def find_program(self, call: Call) -> str:
        """The program whose call this is."""
        site = call.started.site
        return find_owner(self.names.get(site, [site]), call.started.process)

    def measure(self, call: Call, ended_ns: int) -> _Between:
        """The time before this call, since the end of the one before at `ended_ns`."""
        begun_ns, (site, process, _) = call.started.t_ns, call.key
        key = (site, process) if (site, process) in self.phases else (site, None)
        own, within = self.phases.get(key, []), []
        for place in range(bisect_left(own, (begun_ns,)) - 1, -1, -1):
            if own[place].end_ns <= ended_ns:
                break
            within.append(own[place])
        pauses = self.pauses.get(self.find_program(call), ())
        computing_ns = 0
        for each in within:
            span = max(each.start_ns, ended_ns), min(each.end_ns, begun_ns)
            computing_ns += span[1] - span[0] - sum(overlap_ns(span, pause) for pause in pauses)
        numbers = {each.number for each in within}
        is_step = (
            len(numbers) == 1
            and all(ended_ns <= each.start_ns and each.end_ns <= begun_ns for each in within)
            and len(within) == sum(self.parts[key][number] for number in numbers)
        )
        return _Between(begun_ns, ended_ns, computing_ns, is_step)


def _list_meetings(history: History) -> Iterator[tuple[Call, Sequence[Call]]]:
    """For each call, a member that began it last, and those that waited for its data."""
    for (name, _), members in list_groups(history).items():
        for same in list_same(members, may_be_new(name, members)):
            waiting = defaultdict[Call, list[Call]](list)
            for rank, call in same.items():
                needed = (same[each] for each in list_needed(call, rank) if each in same)
                last = max(needed, key=lambda each: each.started.t_ns, default=call)
                if last.started.t_ns > call.started.t_ns:
                    waiting[last].append(call)
            yield from waiting.items()


def _find_before(call: Call, ended: Mapping[tuple[str, int], Sequence[_Ended]]) -> _Ended | None:
    """The last call that the process had ended before this one; None if it had ended none."""
    own = ended.get(call.key[:2], ())
    place = bisect_right(own, call.started.t_ns, key=lambda each: each.ended_ns)
    return own[place - 1] if place else None
