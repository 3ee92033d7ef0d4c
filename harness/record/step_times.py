"""Where the time of programs went: computing, waiting for the last site, moving bytes (pure).

At each moment a site computes, or is in a call. A collective call waits until the last member whose
data it needs has begun it, and moves bytes from then on. If a site does several of these at once,
the first of computing, moving and waiting counts.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

from trunkline.agents.events.round_events import ComputeFinished, ComputeStarted
from trunkline.agents.events.run_events import AgentExited, ProgramsStarted
from trunkline.harness.record.calls import Call, Meeting, find_meetings, list_calls
from trunkline.harness.record.history import History

COMPUTING, MOVING, WAITING = range(3)
"""What a site does, in the order in which it counts."""

Interval = tuple[int, int]
"""(start, end) in nanoseconds since the run's start."""


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
    """The steps of each site in order: from one start of computing to the next."""
    meetings = find_meetings(history)
    calls = defaultdict[str, list[Call]](list)
    for call in list_calls(history):
        calls[call.started.site].append(call)
    begun = defaultdict[str, list[ComputeStarted]](list)
    for started in history.all(ComputeStarted):
        begun[started.site].append(started)
    ends_ns = {(end.site, end.iteration): end.t_ns for end in history.all(ComputeFinished)}
    first_ns = min((event.t_ns for event in history.all(ProgramsStarted)), default=0)
    exits_ns = {event.who: event.t_ns for event in history.all(AgentExited)}
    for site in sites:
        until_ns = exits_ns.get(site, history.end_ns)
        spans: list[tuple[int, int | None]] = [(e.t_ns, e.iteration) for e in begun[site]]
        computed = [(t_ns, ends_ns.get((site, number or 0), until_ns)) for t_ns, number in spans]
        done = [call.finished.t_ns for call in calls[site] if call.finished is not None]
        last_ns = max([*done, *(end for _, end in computed)], default=until_ns)
        spans = spans or [(first_ns, None)]
        for (start_ns, number), (end_ns, _) in pairwise([*spans, (max(last_ns, spans[-1][0]), 0)]):
            yield _divide(site, number, (start_ns, end_ns), computed, calls[site], meetings)


def _divide(
    site: str,
    number: int | None,
    span: Interval,
    computed: list[Interval],
    calls: list[Call],
    meetings: Mapping[tuple[str, int, int], Meeting],
) -> StepTime:
    """Divide a step into its parts."""
    changes: list[tuple[int, int, int, str]] = []  # time, +1 or -1, what, site that is waited for

    def add(interval: Interval, what: int, other: str = "") -> None:
        start_ns, end_ns = max(interval[0], span[0]), min(interval[1], span[1])
        if start_ns < end_ns:
            changes.extend(((start_ns, 1, what, other), (end_ns, -1, what, other)))

    for interval in computed:
        add(interval, COMPUTING)
    for call in calls:
        end_ns = span[1] if call.finished is None else call.finished.t_ns
        met = meetings.get(call.key)
        met_ns = (
            call.started.t_ns if met is None else min(max(met.last_ns, call.started.t_ns), end_ns)
        )
        add((call.started.t_ns, met_ns), WAITING, "" if met is None else met.last_site)
        add((met_ns, end_ns), MOVING)
    spent, waited_for = Counter[int](), Counter[str]()
    active = Counter[tuple[int, str]]()
    before_ns = span[0]
    for t_ns, step, what, other in sorted(changes):
        if now := min((key for key, count in active.items() if count > 0), default=None):
            spent[now[0]] += t_ns - before_ns
            if now[0] == WAITING:
                waited_for[now[1]] += t_ns - before_ns
        active[what, other] += step
        before_ns = t_ns
    parts = spent[COMPUTING], spent[MOVING], spent[WAITING]
    return StepTime(site, number, *span, *parts, dict(waited_for))
