"""Where the time of programs went: computing, waiting for the last site, moving bytes (pure).

At each moment a program is stopped, computes, or is in a call. A collective call waits until the
last member whose data it needs has begun it, and moves bytes from then on. If a member never began
it, the others wait until the call fails or their programs end. If a program does several at once,
the first of being stopped, computing, moving, held up and waiting counts.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import pairwise

from trunkline.agents.events.round_events import ComputeStarted
from trunkline.agents.events.run_events import AgentExited, ProgramsStarted
from trunkline.harness.record.calls import Call, Key, Meeting, find_meetings, list_calls
from trunkline.harness.record.hangs import Member, find_hangs
from trunkline.harness.record.history import History
from trunkline.harness.record.lives import Interval, Phase
from trunkline.workloads.program_roles import find_owner, site_of

STOPPED, COMPUTING, MOVING, HELD, WAITING = range(5)
"""What a program does, in the order in which it counts."""


@dataclass(frozen=True, slots=True)
class StepTime:
    """The parts of one step of a program, or of its whole run, in nanoseconds.

    Attributes:
        who: the program; with the ids of its processes if several computed or called at once.
        process: the id of the process at the site; None if reports do not tell it, or if the row is
            of several.
        number: the iteration; None for the time from a start of the program until its first one,
            which is the whole run of a program that reports no computing.
        stopped_ns: a fault paused the program, or it had ended and was not started again yet.
        held_ns: in calls that a fault made late, from when they took longer than usual.
        waited_for: how long it waited for each other program, and for each other process of its
            own, such as `n2 (process 17)`; several that never began a call are one name.
    """

    site: str
    who: str
    process: int | None
    number: int | None
    start_ns: int
    end_ns: int
    stopped_ns: int
    computing_ns: int
    moving_ns: int
    held_ns: int
    waiting_ns: int
    waited_for: Mapping[str, int]

    @property
    def rest_ns(self) -> int:
        """What is left of the step."""
        in_calls_ns = self.moving_ns + self.held_ns + self.waiting_ns
        parts_ns = self.stopped_ns + self.computing_ns + in_calls_ns
        return self.end_ns - self.start_ns - parts_ns


@dataclass(slots=True)
class _Process:
    """What a process of a site computed and called; `end_ns` is when it last did."""

    number: int | None
    calls: list[Call] = field(default_factory=list)
    computed: list[Phase] = field(default_factory=list)
    end_ns: int = 0

    @property
    def first_ns(self) -> int:
        """When it began its first call or computation."""
        begun = [call.started.t_ns for call in self.calls]
        return min([*begun, *(phase.start_ns for phase in self.computed)])


def list_step_times(
    history: History, programs: Iterable[str], late_ns: Mapping[Key, int] | None = None
) -> Iterator[StepTime]:
    """The steps of each program in order: from one start of computing to the next.

    From the times `late_ns` on, these calls were late because of faults.
    Processes of a program that follow each other are one row after the other. Those that compute or
    call at once have steps of their own.
    """
    programs = tuple(programs)
    names = defaultdict[str, list[str]](list)
    for program in programs:
        names[site_of(program)].append(program)
    calls = defaultdict[str, list[Call]](list)
    for call in list_calls(history):
        calls[call.started.site].append(call)
    hangs = find_hangs(history, programs)
    missing = {member for hang in hangs for member in hang.missing}
    awaited = {call.key: hang.missing_names for hang in hangs for call in hang.calls}
    divider = _Divider(history, names, find_meetings(history), missing, awaited, late_ns or {})
    for site, own in names.items():
        found = defaultdict[str, list[_Process]](list)
        for process in _tell_apart(calls[site], history.phases.get(site, ())):
            found[find_owner(own, process.number)].append(process)
        for name in dict.fromkeys([*own, *found]):
            yield from divider.divide(name, found[name])


def list_moving(
    history: History, programs: Iterable[str], late_ns: Mapping[Key, int]
) -> Iterator[tuple[Call, Interval]]:
    """Each call, and when it moved bytes: all that it needs had begun, and no fault made it late.

    A call that never ended is left out: nothing says until when it moved bytes.
    """
    meetings = find_meetings(history)
    hung = {call.key for hang in find_hangs(history, programs) for call in hang.calls}
    for call in list_calls(history):
        if call.finished is not None and call.key not in hung:
            met, start_ns = meetings.get(call.key), call.started.t_ns
            start_ns = start_ns if met is None else max(met.last_ns, start_ns)
            end_ns = min(call.finished.t_ns, late_ns.get(call.key, call.finished.t_ns))
            if start_ns < end_ns:
                yield call, (start_ns, end_ns)


@dataclass(frozen=True, slots=True)
class _Divider:
    """Divides the time of programs.

    `names` are those of each site, `missing` the members that never began a call in which others
    waited, `awaited` the names of those for each of these calls, and `late_ns` when calls became
    late because of faults.
    """

    history: History
    names: Mapping[str, Sequence[str]]
    meetings: Mapping[Key, Meeting]
    missing: Set[Member]
    awaited: Mapping[Key, str]
    late_ns: Mapping[Key, int]

    def divide(self, name: str, processes: Sequence[_Process]) -> Iterator[StepTime]:
        """The steps of a program with these processes; none if it never started."""
        runs = self._list_runs(name, bool(processes))
        for process in processes:
            others = [each.first_ns for each in processes if each is not process]
            is_missing = not self.missing.isdisjoint([(name, process.number), (name, None)])
            process.end_ns = _find_end(process, others, runs, is_missing)
        rows = _follow(processes) if processes else [[]] if runs else []
        for row in rows:
            ids = ", ".join(str(process.number) for process in row)
            who = f"{name} (process {ids})" if len(rows) > 1 else name
            yield from self._divide_row(name, who, row, runs)

    def _list_runs(self, name: str, is_active: bool) -> Sequence[Interval]:
        """When the program ran. A log that does not say so has the time until its last exit."""
        if (runs := self.history.programs.runs(name)) or not is_active:
            return runs
        start_ns = min((event.t_ns for event in self.history.all(ProgramsStarted)), default=0)
        exits_ns = [e.t_ns for e in self.history.all(AgentExited) if e.who == name]
        return [(start_ns, max(exits_ns, default=self.history.end_ns))]

    def _divide_row(
        self, name: str, who: str, row: Sequence[_Process], runs: Sequence[Interval]
    ) -> Iterator[StepTime]:
        """The steps of processes that follow each other."""
        end_ns = max((process.end_ns for process in row), default=runs[-1][1])
        begins = list(_list_begins(row, runs))
        bounds = [*(t_ns for t_ns, _, _ in begins), max(end_ns, begins[-1][0])]
        span = bounds[0], bounds[-1]
        changes = [
            *(change for each in row for change in self._list_changes(name, each, span)),
            *(change for stop in self._list_stops(name, runs) for change in _clip(*stop, span)),
        ]
        for (_, number, process), step, (spent, waited_for) in zip(
            begins, pairwise(bounds), _divide(changes, bounds), strict=True
        ):
            if step[0] < step[1]:
                in_calls = spent[MOVING], spent[HELD], spent[WAITING]
                parts = spent[STOPPED], spent[COMPUTING], *in_calls
                yield StepTime(site_of(name), who, process, number, *step, *parts, dict(waited_for))

    def _list_stops(
        self, name: str, runs: Sequence[Interval]
    ) -> Iterator[tuple[int, int, int, str]]:
        """When the program was paused, and when it did not run between its processes."""
        for (_, end_ns), (start_ns, _) in pairwise(runs):
            yield end_ns, start_ns, STOPPED, ""
        for begin_ns, until_ns in self.history.programs.pauses(name):
            yield begin_ns, until_ns, STOPPED, ""

    def _list_changes(self, name: str, own: _Process, span: Interval) -> Iterator[Change]:
        """What a process of a program does within a span."""
        for phase in own.computed:
            yield from _clip(phase.start_ns, phase.end_ns, COMPUTING, "", span)
        for call in own.calls:
            begin_ns, met = call.started.t_ns, self.meetings.get(call.key)
            end_ns = own.end_ns if call.finished is None else call.finished.t_ns
            met_ns, last = begin_ns, ""
            if call.key in self.awaited:
                met_ns, last = end_ns, self.awaited[call.key]
            elif met is not None:
                met_ns = min(max(met.last_ns, begin_ns), end_ns)
                last = find_owner(self.names.get(met.last_site, [met.last_site]), met.last_process)
                last += f" (process {met.last_process})" if last == name else ""
            yield from _clip(begin_ns, met_ns, WAITING, last, span)
            late_ns = max(met_ns, self.late_ns.get(call.key, end_ns))
            yield from _clip(met_ns, late_ns, MOVING, "", span)
            yield from _clip(late_ns, end_ns, HELD, "", span)


def _follow(processes: Iterable[_Process]) -> list[list[_Process]]:
    """The processes in as few rows as can be: in a row they follow each other."""
    rows: list[list[_Process]] = []
    for process in sorted(processes, key=lambda each: each.first_ns):
        free = (row for row in rows if row[-1].end_ns <= process.first_ns)
        if (row := next(free, None)) is not None:
            row.append(process)
        else:
            rows.append([process])
    return rows


def _list_begins(
    row: Sequence[_Process], runs: Sequence[Interval]
) -> Iterator[tuple[int, int | None, int | None]]:
    """When each step of a row begins, its number, and the process.

    Each run of the program begins with a step without a number, unless no step has one.
    """
    exits_ns = [end_ns for _, end_ns in runs]
    steps = [
        (t_ns, number, process.number)
        for process in row
        for number, t_ns in _find_first(process.computed, exits_ns)
    ]
    if not steps:
        yield runs[0][0], None, row[0].number if len(row) == 1 else None
        return
    steps.sort(key=lambda step: step[0])
    for (start_ns, _), (next_ns, _) in pairwise([*runs, (steps[-1][0] + 1, 0)]):
        own = [step for step in steps if start_ns <= step[0] < next_ns]
        if own:
            yield start_ns, None, own[0][2]
            yield from own


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


def _tell_apart(calls: Sequence[Call], phases: Sequence[Phase]) -> Sequence[_Process]:
    """The processes of a site by their ids; a single one if reports of computing name none."""
    computed = {phase: phase.begun.process for phase in phases
                if isinstance(phase.begun, ComputeStarted)}  # fmt: skip
    named = {call.started.process for call in calls}
    merged = None in computed.values()
    single = named.pop() if len(named) == 1 else None
    found: dict[int | None, _Process] = {}

    def find(process: int | None) -> _Process:
        number = single if merged else process
        return found.setdefault(number, _Process(number))

    for call in calls:
        find(call.started.process).calls.append(call)
    for phase, process in computed.items():
        find(process).computed.append(phase)
    return sorted(found.values(), key=lambda process: process.number or 0)


def _find_end(
    own: _Process, others: Sequence[int], runs: Sequence[Interval], is_missing: bool
) -> int:
    """When a process ended its last call or computation; else when its program did.

    `others` are the first times of the other processes of the program. If the last call never
    ended, or others waited for one that this process never began (`is_missing`), its program did
    not end before, but the next one of them may have replaced this process.
    """
    until_ns = next((end for start, end in runs if start <= own.first_ns <= end), runs[-1][1])
    if own.number is None:
        until_ns = runs[-1][1]
    done = [call.finished.t_ns for call in own.calls if call.finished is not None]
    done += [phase.end_ns for phase in own.computed]
    is_open = bool(own.calls) and own.calls[-1].finished is None
    if is_open or is_missing:
        last_ns = own.calls[-1].started.t_ns if is_open else max(done)
        return min([until_ns, *(first_ns for first_ns in others if first_ns > last_ns)])
    return min(max(done, default=until_ns), until_ns)


Change = tuple[int, int, int, str]
"""From a time on, a program does something once more (1) or once less (-1), or a step begins (0);
what it does, and whom it waits for."""


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
