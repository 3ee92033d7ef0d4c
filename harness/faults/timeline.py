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
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from trunkline.agents.events.event import CONTROLLER
from trunkline.agents.planning.plan import Directed
from trunkline.harness.faults.fault_types import (
    Churn,
    Fault,
    Flap,
    Heal,
    Isolate,
    Kill,
    Mend,
    Outage,
    Partition,
    Pause,
    Redraw,
    Restart,
    Resume,
    SetLink,
    Trace,
)
from trunkline.harness.faults.link_values import directed_links, links_between
from trunkline.harness.network.interface import Cut
from trunkline.topologies.links import MAX_QUEUE_S, Link
from trunkline.topologies.model import Topology

LINK_KINDS = ("outages_s", "oneways_s", "losses_s", "slowdowns_s")
CHURN_KINDS = ("outages_s", "pauses_s", "kills_s", "controller_s", *LINK_KINDS[1:])
"""The kinds of random faults of a churn, in the order in which their times are drawn."""

CHURN_LOSS_PERCENT = (10.0, 60.0)
CHURN_RATE_SHARE = 0.1


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of a scenario's timeline; `at_s` counts from the start of the first task."""

    at_s: float
    fault: Fault


@dataclass(frozen=True, slots=True)
class Began:
    """Step: a fault begins; `targets` are links (`a -> b`) and agents, empty if all links are."""

    number: int
    fault: Fault
    targets: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Ended:
    """Step: a fault is over."""

    number: int


@dataclass(frozen=True, slots=True)
class LinkStep:
    """Step: a directed link changes its values and cuts."""

    before: Link
    after: Link
    cuts_before: frozenset[Cut]
    cuts_after: frozenset[Cut]


AgentChange = Literal["kill", "restart", "pause", "resume"]


@dataclass(frozen=True, slots=True)
class AgentStep:
    """Step: the fault of this number changes an agent."""

    who: str
    do: AgentChange
    number: int


FaultStep = Began | Ended | LinkStep | AgentStep


@dataclass(slots=True)
class _ActiveFault:
    """An active fault.

    Attributes:
        touches: the links that it may change at any time.
        cuts: the links that it stops now.
        values: the values that it gives to links now.
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

    def __init__(self, topology: Topology, entries: Iterable[Entry] = (), seed: int = 0) -> None:
        self._topology = topology
        self._seed = seed
        self._links = {(link.src, link.dst): link for link in topology.links}
        self._cuts: dict[Directed, frozenset[Cut]] = dict.fromkeys(self._links, frozenset())
        self._agents: dict[str, tuple[bool, bool]] = {}
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
            case Heal() | Mend() | Resume():
                return [*steps, *self._end(self._find_undone(fault)), Ended(number)]
            case Restart():
                return [*steps, *self._restart(fault.who, number), Ended(number)]
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

        Kills of agents that are `done` stay: the run ends without these agents.
        """
        self._queue.clear()
        return self._end(
            number
            for number, each in self._active.items()
            if not (isinstance(each.fault, Kill) and each.fault.who in done)
        )

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
            case SetLink(a=a, b=b, direction=direction) as fault:
                active.values = dict.fromkeys(directed_links(a, b, direction), fault.values())
            case Trace(a=a, b=b, direction=direction):
                active.touches = directed_links(a, b, direction)
            case Redraw():
                active.touches = tuple(self._links)
        active.touches = active.touches or tuple(active.cuts) or tuple(active.values)

    def _start_ticking(self, active: _ActiveFault) -> list[FaultStep]:
        match active.fault:
            case Flap(every_s=every_s):
                self._schedule(active.start_ns + round(every_s * 5e8), _Due(ticks=active.number))
            case Trace(steps=steps):
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
            case Trace() as trace:
                self._follow_trace(active, trace, detail)
            case Churn() as churn:
                self._schedule_random(active, detail, now_ns)
                return self._begin_random(active, churn, detail, now_ns)
        return self._find_differences(active)

    def _follow_trace(self, active: _ActiveFault, trace: Trace, count: int) -> None:
        """Apply the trace's step `count`, counted through all repetitions; schedule the next."""
        rounds, index = divmod(count, len(trace.steps))
        step = trace.steps[index]
        named = {
            "rate_mbps": step.rate_mbps,
            "delay_ms": step.delay_ms,
            "loss_percent": step.loss_percent,
        }
        values = {name: value for name, value in named.items() if value is not None}
        for ends in directed_links(trace.a, trace.b, trace.direction):
            active.values[ends] = {**active.values.get(ends, {}), **values}
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
        cut = {frozenset((each.a, each.b)) for each in mine if isinstance(each, Outage | SetLink)}
        hit = {each.who for each in mine if isinstance(each, Pause | Kill)}
        lasting_s = active.draw.uniform(*churn.lasting_s)
        among = churn.among or self._topology.site_names
        if kind in LINK_KINDS:
            pairs = [
                (a, b)
                for a, b in self._links
                if a < b and self._may_break(a, b, churn) and frozenset((a, b)) not in cut
            ]
            if len(cut) >= churn.links or not pairs:
                return []
            fault = self._draw_link_fault(kind, active.draw.choice(pairs), lasting_s, active.draw)
        else:
            sites = [CONTROLLER] if kind == "controller_s" else list(among)
            whole = [who for who in sites if who not in hit]
            if len(hit) >= churn.agents or not whole:
                return []
            make = Pause if kind == "pauses_s" else Kill
            fault = make(active.draw.choice(whole), lasting_s)
        if active.left is not None:
            active.left -= 1
        return self.begin(fault, now_ns, active.number)

    def _may_break(self, a: str, b: str, churn: Churn) -> bool:
        """Whether the link is among the churn's: between its sites, or of one and a router."""
        sites = {a, b}.intersection(self._topology.site_names)
        return sites <= set(churn.among) and bool(sites) if churn.among else True

    def _draw_link_fault(
        self, kind: str, pair: Directed, lasting_s: float, draw: random.Random
    ) -> Fault:
        a, b = pair
        match kind:
            case "oneways_s":
                a, b = draw.choice((pair, pair[::-1]))
                return Outage(a, b, "one-way", for_s=lasting_s)
            case "losses_s":
                loss_percent = draw.uniform(*CHURN_LOSS_PERCENT)
                return SetLink(a, b, loss_percent=loss_percent, for_s=lasting_s)
            case "slowdowns_s":
                links = self._topology.link(a, b), self._topology.link(b, a)
                # A queue may take at most MAX_QUEUE_S to drain.
                least = max(map(self._topology.queue_bytes, links)) * 8e-6 / MAX_QUEUE_S
                rate_mbps = max(least, CHURN_RATE_SHARE * min(link.rate_mbps for link in links))
                return SetLink(a, b, rate_mbps=rate_mbps, for_s=lasting_s)
            case _:
                return Outage(a, b, for_s=lasting_s)

    # -- the end of a fault --------------------------------------------------------------------

    def _find_undone(self, fault: Heal | Mend | Resume) -> list[int]:
        match fault:
            case Heal():
                return list(self._active)
            case Mend(a=a, b=b):
                return [
                    number
                    for number, each in self._active.items()
                    if isinstance(each.fault, Outage | Flap | SetLink)
                    and {each.fault.a, each.fault.b} == {a, b}
                ]
            case Resume(who=who):
                return [
                    number
                    for number, each in self._active.items()
                    if isinstance(each.fault, Pause) and each.fault.who == who
                ]

    def _restart(self, who: str, number: int) -> list[FaultStep]:
        kills = [
            each.number
            for each in self._active.values()
            if isinstance(each.fault, Kill) and each.fault.who == who
        ]
        if kills:
            return self._end(kills)
        paused = self._agents.get(who, (False, False))[1]
        # The new process must be paused again while a pause of its agent is active.
        again: list[FaultStep] = [AgentStep(who, "pause", number)] if paused else []
        return [AgentStep(who, "kill", number), AgentStep(who, "restart", number), *again]

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
            after = replace(link, jitter_ms=min(link.jitter_ms, link.delay_ms))
            before, cuts_before, cuts_after = self._links[ends], self._cuts[ends], frozenset(cuts)
            if (after, cuts_after) != (before, cuts_before):
                steps.append(LinkStep(before, after, cuts_before, cuts_after))
                self._links[ends], self._cuts[ends] = after, cuts_after
        return [*steps, *self._find_agent_differences(changed.number)]

    def _find_agent_differences(self, number: int) -> list[FaultStep]:
        faults = [each.fault for each in self._active.values()]
        dead = {fault.who for fault in faults if isinstance(fault, Kill)}
        paused = {fault.who for fault in faults if isinstance(fault, Pause)}
        steps: list[FaultStep] = []
        for who in sorted(dead | paused | self._agents.keys()):
            was_dead, was_paused = self._agents.get(who, (False, False))
            is_dead, is_paused = who in dead, who in paused
            if is_dead and not was_dead:
                steps.append(AgentStep(who, "kill", number))
            elif was_dead and not is_dead:
                steps.append(AgentStep(who, "restart", number))
                was_paused = False  # it starts as a new process
            if not is_dead and is_paused != was_paused:
                steps.append(AgentStep(who, "pause" if is_paused else "resume", number))
            self._agents[who] = (is_dead, is_paused)
        return steps

    def _name_targets(self, active: _ActiveFault) -> tuple[str, ...]:
        match active.fault:
            case Kill(who=who) | Pause(who=who) | Resume(who=who) | Restart(who=who):
                return (who,)
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
