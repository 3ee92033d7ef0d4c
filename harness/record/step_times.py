"""Where the time of programs went: computing, waiting for the last site, moving bytes (pure).

At each moment a site computes, or is in a call. A collective call waits until the last member whose
data it needs has begun it, and moves bytes from then on. If a site does several of these at once,
the first of computing, moving and waiting counts.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from trunkline.agents.events.round_events import ComputeStarted
from trunkline.agents.events.run_events import AgentExited, ProgramsStarted
from trunkline.harness.record.calls import Call, Key, Meeting, find_meetings, list_calls
from trunkline.harness.record.history import History
from trunkline.harness.record.lives import Interval
from trunkline.workloads.program_roles import site_of

COMPUTING, MOVING, WAITING = range(3)
"""What a site does, in the order in which it counts."""


@dataclass(frozen=True, slots=True)
class StepTime:
    """The parts of one step of a site, or of its whole run, in nanoseconds.

    Attributes:
        number: the iteration; None for the whole run of a site that reports no computing.
        waited_for: how long the site waited for each other one.
    """

    site: str
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


def list_step_times(history: History, sites: tuple[str, ...]) -> Iterator[StepTime]:
    """The steps of each site in order: from one start of computing to the next.

    A process that begins while another one of the site computes begins no step.
    """
    meetings = find_meetings(history)
    calls = defaultdict[str, list[Call]](list)
    for call in list_calls(history):
        calls[call.started.site].append(call)
    first_ns = min((event.t_ns for event in history.all(ProgramsStarted)), default=0)
    exits_ns = {site_of(event.who): event.t_ns for event in history.all(AgentExited)}
    for site in sites:
        until_ns = exits_ns.get(site, history.end_ns)
        starts: list[tuple[int, int | None]] = []
        computed: list[Interval] = []
        free_ns = 0
        for phase in history.phases.get(site, ()):
            if isinstance(phase.begun, ComputeStarted):
                if phase.start_ns >= free_ns:
                    starts.append((phase.start_ns, phase.begun.iteration))
                free_ns = max(free_ns, phase.end_ns)
                computed.append((phase.start_ns, min(phase.end_ns, until_ns)))
        done = [call.finished.t_ns for call in calls[site] if call.finished is not None]
        last_ns = max([*done, *(end for _, end in computed)], default=until_ns)
        starts = starts or [(first_ns, None)]
        bounds = [*(t_ns for t_ns, _ in starts), max(last_ns, starts[-1][0])]
        changes = [*_list_changes(computed, calls[site], meetings, (bounds[0], bounds[-1]))]
        divided = zip(starts, pairwise(bounds), _divide(changes, bounds), strict=True)
        for (_, number), span, (spent, waited_for) in divided:
            parts = spent[COMPUTING], spent[MOVING], spent[WAITING]
            yield StepTime(site, number, *span, *parts, dict(waited_for))


Change = tuple[int, int, int, str]
"""From a time on, a site does something once more (1) or once less (-1), or a step begins (0);
what it does, and the site that it waits for."""


def _list_changes(
    computed: Iterable[Interval],
    calls: Iterable[Call],
    meetings: Mapping[Key, Meeting],
    span: Interval,
) -> Iterator[Change]:
    """What a site does within a span."""
    for begin_ns, end_ns in computed:
        yield from _clip(begin_ns, end_ns, COMPUTING, "", span)
    for call in calls:
        begin_ns, met = call.started.t_ns, meetings.get(call.key)
        end_ns = span[1] if call.finished is None else call.finished.t_ns
        last_ns, last_site = (begin_ns, "") if met is None else (met.last_ns, met.last_site)
        met_ns = min(max(last_ns, begin_ns), end_ns)
        yield from _clip(begin_ns, met_ns, WAITING, last_site, span)
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
