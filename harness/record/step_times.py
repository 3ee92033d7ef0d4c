"""Where the time of programs went: computing, waiting for the last site, moving bytes (pure).

At each moment a process computes, or is in a call. A collective call waits until the last member
whose data it needs has begun it, and moves bytes from then on. If a process does several at once,
the first of computing, moving and waiting counts.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from trunkline.agents.events.round_events import ComputeStarted
from trunkline.agents.events.run_events import AgentExited, ProgramsStarted
from trunkline.harness.record.calls import Call, Key, Meeting, find_meetings, list_calls
from trunkline.harness.record.history import History
from trunkline.harness.record.lives import Interval, Phase
from trunkline.workloads.program_roles import site_of

COMPUTING, MOVING, WAITING = range(3)
"""What a process does, in the order in which it counts."""


@dataclass(frozen=True, slots=True)
class StepTime:
    """The parts of one step of a process, or of its whole run, in nanoseconds.

    Attributes:
        process: its id at the site; None if the reports of several processes do not tell them
            apart, or if the site has none.
        number: the iteration; None for the whole run of a process that reports no computing.
        waited_for: how long the process waited for each other site, and for each other process of
            its own site, such as `n2 (process 17)`.
    """

    site: str
    process: int | None
    number: int | None
    start_ns: int
    end_ns: int
    computing_ns: int
    moving_ns: int
    waiting_ns: int
    waited_for: Mapping[str, int]

    @property
    def rest_ns(self) -> int:
        """What is left of the step."""
        return self.end_ns - self.start_ns - self.computing_ns - self.moving_ns - self.waiting_ns


@dataclass(slots=True)
class _Process:
    """What a process of a site computed and called."""

    calls: list[Call] = field(default_factory=list)
    computed: list[Phase] = field(default_factory=list)

    @property
    def first_ns(self) -> int:
        """When it began its first call or computation."""
        begun = [call.started.t_ns for call in self.calls]
        return min([*begun, *(phase.start_ns for phase in self.computed)])


def list_step_times(history: History, sites: tuple[str, ...]) -> Iterator[StepTime]:
    """The steps of each process of each site in order: from one start of computing to the next."""
    meetings = find_meetings(history)
    first_ns = min((event.t_ns for event in history.all(ProgramsStarted)), default=0)
    exits_ns = defaultdict[str, list[int]](list)
    for event in history.all(AgentExited):
        exits_ns[site_of(event.who)].append(event.t_ns)
    calls = defaultdict[str, list[Call]](list)
    for call in list_calls(history):
        calls[call.started.site].append(call)
    for site in sites:
        until_ns = exits_ns[site][-1] if exits_ns[site] else history.end_ns
        processes = _tell_apart(calls[site], history.phases.get(site, ()))
        for process, own in processes.items():
            others = [each.first_ns for each in processes.values() if each is not own]
            end_ns = _find_end(own, others, until_ns)
            first = list(_find_first(own.computed, exits_ns[site]))
            yield from _divide_steps((site, process), own, first, (first_ns, end_ns), meetings)


def _find_first(computed: Sequence[Phase], exits_ns: Sequence[int]) -> Iterator[tuple[int, int]]:
    """The number of each iteration, and when its first part began.

    A program may report several parts of one iteration: it computes, and `compute` adds a time. One
    that was started again counts anew.
    """
    before: tuple[int, int] | None = None
    for phase in computed:
        if isinstance(phase.begun, ComputeStarted):
            now = phase.begun.iteration, bisect_left(exits_ns, phase.start_ns)
            if now != before:
                yield phase.begun.iteration, phase.start_ns
            before = now


def _divide_steps(
    who: tuple[str, int | None],
    own: _Process,
    first: Sequence[tuple[int, int]],
    span: Interval,
    meetings: Mapping[Key, Meeting],
) -> Iterator[StepTime]:
    """The steps of a process within a span; a single one if it reported no computing."""
    numbers: list[int | None] = [number for number, _ in first]
    starts = [start_ns for _, start_ns in first] or [span[0]]
    bounds = [*starts, max(span[1], starts[-1])]
    changes = _list_changes(own, meetings, (bounds[0], bounds[-1]))
    for number, step, (spent, waited_for) in zip(
        numbers or [None], pairwise(bounds), _divide(changes, bounds), strict=True
    ):
        parts = spent[COMPUTING], spent[MOVING], spent[WAITING]
        yield StepTime(*who, number, *step, *parts, dict(waited_for))


def _tell_apart(calls: Sequence[Call], phases: Sequence[Phase]) -> dict[int | None, _Process]:
    """The processes of a site by their ids; a single one if reports of computing name none.

    A site that neither computed nor called anything has one process, too.
    """
    computed = {phase: phase.begun.process for phase in phases
                if isinstance(phase.begun, ComputeStarted)}  # fmt: skip
    named = {call.started.process for call in calls}
    merged = None in computed.values()
    single = named.pop() if len(named) == 1 else None
    found = defaultdict[int | None, _Process](_Process)
    for call in calls:
        found[single if merged else call.started.process].calls.append(call)
    for phase, process in computed.items():
        found[single if merged else process].computed.append(phase)
    return dict(sorted(found.items(), key=lambda item: item[0] or 0)) or {None: _Process()}


def _find_end(own: _Process, others: Sequence[int], until_ns: int) -> int:
    """When a process ended its last call or computation; else when its program did.

    `others` are the first times of the other processes of the site. If the last call never ended,
    the next one of them may have replaced this process.
    """
    if own.calls and own.calls[-1].finished is None:
        last_ns = own.calls[-1].started.t_ns
        return min([until_ns, *(first_ns for first_ns in others if first_ns > last_ns)])
    done = [call.finished.t_ns for call in own.calls if call.finished is not None]
    return min(max([*done, *(phase.end_ns for phase in own.computed)], default=until_ns), until_ns)


Change = tuple[int, int, int, str]
"""From a time on, a process does something once more (1) or once less (-1), or a step begins (0);
what it does, and whom it waits for."""


def _list_changes(
    own: _Process, meetings: Mapping[Key, Meeting], span: Interval
) -> Iterator[Change]:
    """What a process does within a span."""
    for phase in own.computed:
        yield from _clip(phase.start_ns, phase.end_ns, COMPUTING, "", span)
    for call in own.calls:
        begin_ns, met = call.started.t_ns, meetings.get(call.key)
        end_ns = span[1] if call.finished is None else call.finished.t_ns
        last_ns, last = (begin_ns, "") if met is None else (met.last_ns, met.last_site)
        if met is not None and last == call.started.site:
            last = f"{last} (process {met.last_process})"
        met_ns = min(max(last_ns, begin_ns), end_ns)
        yield from _clip(begin_ns, met_ns, WAITING, last, span)
        yield from _clip(met_ns, end_ns, MOVING, "", span)


def _clip(begin_ns: int, end_ns: int, what: int, other: str, span: Interval) -> Iterator[Change]:
    begin_ns, end_ns = max(begin_ns, span[0]), min(end_ns, span[1])
    if begin_ns < end_ns:
        yield begin_ns, 1, what, other
        yield end_ns, -1, what, other


def _divide(
    changes: Iterable[Change], bounds: Sequence[int]
) -> list[tuple[Counter[int], Counter[str]]]:
    """How long each step between the bounds did what, and how long it waited for whom, in ns."""
    found = [(Counter[int](), Counter[str]()) for _ in bounds[1:]]
    active = Counter[tuple[int, str]]()
    step, before_ns = 0, bounds[0]
    begins = ((t_ns, 0, COMPUTING, "") for t_ns in bounds[1:])
    for t_ns, change, what, other in sorted([*changes, *begins]):
        if now := min((key for key, count in active.items() if count), default=None):
            spent, waited_for = found[step]
            spent[now[0]] += t_ns - before_ns
            if now[0] == WAITING:
                waited_for[now[1]] += t_ns - before_ns
        active[what, other] += change
        before_ns = t_ns
        while step + 1 < len(found) and t_ns >= bounds[step + 1]:
            step += 1
    return found
