"""A state machine of faults over time: faults in, steps out (pure).

A `Timeline` has the faults of a scenario and those that are typed, knows which of them are active,
and when the next change is due. Time is an argument. The state of each link and agent is a function
of the active faults, in the order in which they began. So the end of a fault undoes its own effect
and no other. Steps are the differences between two states; `harness.faults.fault_injector` carries
them out and logs them.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from trunkline.agents.planning.plan import Directed
from trunkline.harness.faults.churn import CHURN_KINDS, draw_fault
from trunkline.harness.faults.fault_parts import ALL
from trunkline.harness.faults.fault_steps import (
    AgentStep,
    Began,
    Ended,
    FaultStep,
    LinkStep,
)
from trunkline.harness.faults.fault_types import (
    Churn,
    Fault,
    Flap,
    Heal,
    Isolate,
    Kill,
    Leave,
    Mend,
    Outage,
    Partition,
    Pause,
    Redraw,
    Restart,
    Resume,
    SetLink,
)
from trunkline.harness.faults.link_values import directed_links, links_between, links_of
from trunkline.harness.faults.recorded.recorded_faults import Availability, Trace
from trunkline.harness.network.interface import Cut
from trunkline.topologies.links import Link, fit
from trunkline.topologies.model import Topology


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of a scenario's timeline; `at_s` counts from the start of the first task."""

    at_s: float
    fault: Fault


@dataclass(slots=True)
class _ActiveFault:
    """An active fault.

    Attributes:
        touches: the links that it may change at any time.
        cuts: the links that it stops now.
        values: the values that it gives to links now.
        stops: the agents or programs that it stops now.
        draw: where its random values come from.
        caused_by: the number of the churn that caused it.
        left: how many faults a churn may still cause; None for no limit.
    """

    number: int
    fault: Fault
    start_ns: int
    touches: tuple[Directed, ...] = ()
    cuts: dict[Directed, Cut] = field(default_factory=dict)
    values: dict[Directed, Mapping[str, float]] = field(default_factory=dict)
    stops: set[str] = field(default_factory=set)
    draw: random.Random = field(default_factory=random.Random)
    caused_by: int | None = None
    left: int | None = None


@dataclass(frozen=True, slots=True)
class _Due:
    """A change at a time: begin a fault, end the fault of a number, or change its effect."""

    fault: Fault | None = None
    ends: int | None = None
    ticks: int | None = None
    detail: Any = None


class Timeline:
    """The faults of one run. Times are nanoseconds since the first task."""

    def __init__(
        self,
        topology: Topology,
        entries: Iterable[Entry] = (),
        seed: int = 0,
        targets: Mapping[str, tuple[str, ...]] | None = None,
    ) -> None:
        """`targets` has the programs of each name that a fault may have; None if agents run."""
        self._topology = topology
        self._targets = targets
        self._seed = seed
        self._links = {(link.src, link.dst): link for link in topology.links}
        self._cuts: dict[Directed, frozenset[Cut]] = dict.fromkeys(self._links, frozenset())
        self._agents: dict[str, tuple[str, bool]] = {}
        self._active: dict[int, _ActiveFault] = {}
        self._queue: list[tuple[int, int, _Due]] = []
        self._count = 0
        self._order = 0
        for entry in entries:
            self._schedule(round(entry.at_s * 1e9), _Due(fault=entry.fault))

    @property
    def next_ns(self) -> int | None:
        """The time of the next change; None if there is none."""
        return self._queue[0][0] if self._queue else None

    @property
    def active(self) -> tuple[tuple[int, Fault], ...]:
        """The active faults and their numbers, in the order in which they began."""
        return tuple((number, each.fault) for number, each in self._active.items())

    @property
    def changed(self) -> tuple[tuple[Link, Link, frozenset[Cut]], ...]:
        """Each directed link that differs from the topology: as given, as it is now, its cuts."""
        both = ((self._topology.link(*ends), link) for ends, link in self._links.items())
        return tuple(
            (given, link, self._cuts[link.src, link.dst])
            for given, link in both
            if link != given or self._cuts[link.src, link.dst]
        )

    def advance(self, now_ns: int) -> list[FaultStep]:
        """Carry out everything that is due by now, in the order of time; returns the steps."""
        steps: list[FaultStep] = []
        while self._queue and self._queue[0][0] <= now_ns:
            at_ns, _, due = heapq.heappop(self._queue)
            if due.fault is not None:
                steps += self.begin(due.fault, at_ns, due.detail)
            elif due.ends in self._active:
                steps += self._end([due.ends])
            elif due.ticks in self._active:
                steps += self._tick(self._active[due.ticks], due.detail, at_ns)
        return steps

    def begin(self, fault: Fault, now_ns: int, caused_by: int | None = None) -> list[FaultStep]:
        """Begin a fault now; returns the steps. Faults that undo others end at once."""
        number = self._count
        self._count += 1
        draw = random.Random(f"{self._seed} {fault.VERB} {number}")
        active = _ActiveFault(number, fault, now_ns, draw=draw, caused_by=caused_by)
        steps: list[FaultStep] = [Began(number, fault, self._name_targets(active))]
        match fault:
            case Heal() | Mend():
                return [*steps, *self._end(self._find_undone(fault)), Ended(number)]
            case Resume(who=who):
                return [*steps, *self._release(Pause, self._members(who)), Ended(number)]
            case Restart(who=who):
                return [*steps, *self._restart(self._members(who), number), Ended(number)]
        self._active[number] = active
        self._apply(active)
        if isinstance(fault, Churn):
            active.draw = random.Random(f"{fault.seed} churn") if fault.seed is not None else draw
            active.left = fault.total
        steps[0] = Began(number, fault, self._name_targets(active))
        if fault.for_s is not None:
            self._schedule(now_ns + round(fault.for_s * 1e9), _Due(ends=number))
        return [*steps, *self._start_ticking(active), *self._find_differences(active)]

    def finish(self, done: Collection[str] = ()) -> list[FaultStep]:
        """Drop all changes that are due later, and end all active faults.

        What is `done` and was killed, or has left, stays so: the run ends without it.
        """
        self._queue.clear()
        return self._end(
            number
            for number, each in self._active.items()
            if not (isinstance(each.fault, Kill | Leave) and each.stops <= set(done))
        )

    def comes_back(self, who: str) -> bool:
        """Whether a program that faults have stopped is to be started again by the timeline."""
        down = [
            each.fault
            for each in self._active.values()
            if isinstance(each.fault, Kill | Leave) and who in each.stops
        ]
        later = [due.fault for _, _, due in self._queue]
        undone = (
            isinstance(each, Heal) or (isinstance(each, Restart) and who in self._members(each.who))
            for each in later
        )
        return bool(down) and (all(each.for_s for each in down) or any(undone))

    def _members(self, who: str) -> tuple[str, ...]:
        """What a name means: the programs of a site, or one agent or program."""
        return (who,) if self._targets is None else self._targets.get(who, (who,))

    # -- the effects of a fault ----------------------------------------------------------------

    def _apply(self, active: _ActiveFault) -> None:
        """Fill in the links that a fault touches, and its first effect on them."""
        match active.fault:
            case (
                Outage(a=a, b=b, direction=direction, how=how)
                | Flap(a=a, b=b, direction=direction, how=how)
            ):
                active.cuts = dict.fromkeys(directed_links(a, b, direction), how)
            case Isolate(site=site, how=how):
                active.cuts = {ends: how for ends in self._links if site in ends}
            case Partition(groups=groups, how=how):
                active.cuts = dict.fromkeys(links_between(groups, self._links), how)
            case SetLink() as fault:
                active.values = dict.fromkeys(links_of(fault, self._links), fault.values())
            case Trace(a=a, b=b, direction=direction):
                active.touches = directed_links(a, b, direction)
            case Availability(site=site):
                active.touches = tuple(ends for ends in self._links if site in ends)
            case Redraw():
                active.touches = tuple(self._links)
            case Kill(who=who) | Leave(who=who) | Pause(who=who):
                active.stops = set(self._members(who))
        active.touches = active.touches or tuple(active.cuts) or tuple(active.values)

    def _start_ticking(self, active: _ActiveFault) -> list[FaultStep]:
        match active.fault:
            case Flap(every_s=every_s):
                self._schedule(active.start_ns + round(every_s * 5e8), _Due(ticks=active.number))
            case Trace(steps=steps) | Availability(steps=steps):
                first_ns = active.start_ns + round(steps[0].at_s * 1e9)
                self._schedule(first_ns, _Due(ticks=active.number, detail=0))
            case Redraw():
                return self._tick(active, None, active.start_ns)
            case Churn() as churn:
                for kind in CHURN_KINDS:
                    if getattr(churn, kind) is not None:
                        self._schedule_random(active, kind, active.start_ns)
        return []

    def _tick(self, active: _ActiveFault, detail: Any, now_ns: int) -> list[FaultStep]:
        match active.fault:
            case Flap() as flap:
                pairs = directed_links(flap.a, flap.b, flap.direction)
                active.cuts = {} if active.cuts else dict.fromkeys(pairs, flap.how)
                self._schedule(now_ns + round(flap.every_s * 5e8), _Due(ticks=active.number))
            case Redraw() as redraw:
                active.values = {ends: _draw_values(redraw, active.draw) for ends in self._links}
                if redraw.every_s is not None:
                    after_ns = now_ns + round(redraw.every_s * 1e9)
                    self._schedule(after_ns, _Due(ticks=active.number))
            case Trace() | Availability() as trace:
                self._follow_trace(active, trace, detail)
            case Churn() as churn:
                self._schedule_random(active, detail, now_ns)
                return self._begin_random(active, churn, detail, now_ns)
        return self._find_differences(active)

    def _follow_trace(self, active: _ActiveFault, trace: Any, count: int) -> None:
        """Apply the trace's step `count`, counted through all repetitions; schedule the next."""
        rounds, index = divmod(count, len(trace.steps))
        step = trace.steps[index]
        if isinstance(trace, Availability):
            active.cuts = {} if step.on else dict.fromkeys(active.touches, trace.how)
        else:
            if step.rate_mbps is not None:
                active.cuts = {} if step.rate_mbps else dict.fromkeys(active.touches, "blackhole")
            for ends in active.touches:
                active.values[ends] = {**active.values.get(ends, {}), **step.values()}
        if trace.every_s is not None or index + 1 < len(trace.steps):
            rounds, index = divmod(count + 1, len(trace.steps))
            at_s = trace.steps[index].at_s + rounds * (trace.every_s or 0.0)
            self._schedule(
                active.start_ns + round(at_s * 1e9), _Due(ticks=active.number, detail=count + 1)
            )

    def _begin_random(
        self, active: _ActiveFault, churn: Churn, kind: str, now_ns: int
    ) -> list[FaultStep]:
        """Begin a random fault of a churn, unless its limits forbid one."""
        if active.left == 0:
            return []
        mine = [each.fault for each in self._active.values() if each.caused_by == active.number]
        sites = self._topology.site_names
        if self._targets is not None:
            sites = tuple(site for site in sites if site in self._targets)
        fault = draw_fault(churn, kind, mine, self._topology, sites, active.draw)
        if fault is None:
            return []
        if active.left is not None:
            active.left -= 1
        return self.begin(fault, now_ns, active.number)

    # -- the end of a fault --------------------------------------------------------------------

    def _find_undone(self, fault: Heal | Mend) -> list[int]:
        match fault:
            case Heal():
                return list(self._active)
            case Mend(a=a, b=b):
                mended, active = (Outage, Flap, SetLink), self._active.items()
                found = [(n, each.fault) for n, each in active if isinstance(each.fault, mended)]
                return [number for number, each in found if {a, b} <= {each.a, each.b, ALL}]

    def _release(self, kind: Any, members: Sequence[str]) -> list[FaultStep]:
        """Let the faults of a kind stop these programs no more; they end if they stop no other."""
        steps: list[FaultStep] = []
        for each in list(self._active.values()):
            if isinstance(each.fault, kind) and not each.stops.isdisjoint(members):
                if each.stops <= set(members):
                    steps += self._end([each.number])
                else:
                    each.stops -= set(members)
                    steps += self._find_differences(each)
        return steps

    def _restart(self, members: Sequence[str], number: int) -> list[FaultStep]:
        whole = [who for who in members if not self._agents.get(who, ("", False))[0]]
        steps = self._release(Kill | Leave, members)
        for who in whole:
            steps += [AgentStep(who, "kill", number), AgentStep(who, "restart", number)]
            # The new process must be paused again while a pause of its agent is active.
            if self._agents.get(who, ("", False))[1]:
                steps.append(AgentStep(who, "pause", number))
        return steps

    def _end(self, numbers: Iterable[int]) -> list[FaultStep]:
        steps: list[FaultStep] = []
        for number in list(numbers):
            steps += [*self._find_differences(self._active.pop(number)), Ended(number)]
        return steps

    # -- the state of links and agents ----------------------------------------------------------

    def _find_differences(self, changed: _ActiveFault) -> list[FaultStep]:
        """The steps to the new state, after the effect of one fault has changed."""
        steps: list[FaultStep] = []
        for ends in changed.touches:
            values: dict[str, Any] = {}
            cuts: set[Cut] = set()
            for each in self._active.values():
                values |= each.values.get(ends, {})
                cuts |= {each.cuts[ends]} if ends in each.cuts else set()
            link = replace(self._topology.link(*ends), **values)
            # A lower delay takes the jitter with it: no packet arrives before it was sent.
            after = fit(link)
            before, cuts_before, cuts_after = self._links[ends], self._cuts[ends], frozenset(cuts)
            if (after, cuts_after) != (before, cuts_before):
                steps.append(LinkStep(before, after, cuts_before, cuts_after))
                self._links[ends], self._cuts[ends] = after, cuts_after
        return [*steps, *self._find_agent_differences(changed.number)]

    def _find_agent_differences(self, number: int) -> list[FaultStep]:
        stops: dict[str, Literal["kill", "leave"]] = {}
        paused: set[str] = set()
        for each in self._active.values():
            match each.fault:
                case Kill():
                    stops |= dict.fromkeys(each.stops, "kill")
                case Leave():
                    stops |= {who: "leave" for who in each.stops if who not in stops}
                case Pause():
                    paused |= each.stops
        steps: list[FaultStep] = []
        for who in sorted(stops.keys() | paused | self._agents.keys()):
            was_down, was_paused = self._agents.get(who, ("", False))
            is_down, is_paused = stops.get(who, ""), who in paused
            if is_down and not was_down:
                steps.append(AgentStep(who, stops[who], number))
            elif was_down and not is_down:
                steps.append(AgentStep(who, "restart", number))
                was_paused = False  # it starts as a new process
            if not is_down and is_paused != was_paused:
                steps.append(AgentStep(who, "pause" if is_paused else "resume", number))
            self._agents[who] = (is_down, is_paused)
        return steps

    def _name_targets(self, active: _ActiveFault) -> tuple[str, ...]:
        match active.fault:
            case Kill() | Leave() | Pause() | Resume() | Restart() as fault:
                return self._members(fault.who)
            case Mend(a=a, b=b):
                links = directed_links(a, b, "both")
            case Redraw():
                links = ()
            case _:
                links = active.touches
        return tuple(f"{src} -> {dst}" for src, dst in links)

    # -- the schedule --------------------------------------------------------------------------

    def _schedule(self, at_ns: int, due: _Due) -> None:
        heapq.heappush(self._queue, (at_ns, self._order, due))
        self._order += 1

    def _schedule_random(self, active: _ActiveFault, kind: str, now_ns: int) -> None:
        mean_s = getattr(active.fault, kind)
        after_ns = max(1, round(active.draw.expovariate(1 / mean_s) * 1e9))
        self._schedule(now_ns + after_ns, _Due(ticks=active.number, detail=kind))


def _draw_values(redraw: Redraw, draw: random.Random) -> dict[str, float]:
    return {name: draw.uniform(*limits) for name, limits in redraw.ranges().items()}
