"""Where the time of a task went, by cause (pure).

Every step of the critical path is divided among causes. A link's own part is what its bytes need at
its rate in the scenario; what others' bytes need, what a fault took, and propagation follow from
the log. What is left is TCP: losses, a cold connection, or queues.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Literal

from trunkline.agents.events.background_events import BackgroundReceived
from trunkline.agents.events.connection_events import LinkFound
from trunkline.agents.events.event import CONTROLLER
from trunkline.agents.events.fault_events import AgentChanged
from trunkline.agents.planning.plan import Directed
from trunkline.harness.background.flows import Flow
from trunkline.harness.network.interface import payload_share
from trunkline.harness.record.history import Disturbance, History, Interval, Task, transfers
from trunkline.harness.record.link_history import Conditions
from trunkline.harness.report.explanations.critical_path import Step
from trunkline.topologies.model import Link, Topology

Cause = Literal[
    "rate", "propagation", "slowdown", "outage", "stop", "other tasks", "background traffic",
    "loss", "cold start", "queueing", "repair", "contribution", "installation",
]  # fmt: skip

PLANNED: tuple[Cause, ...] = ("rate", "propagation")
"""The causes that the estimate of a task already has in it."""

COLD_WINDOWS = 64
"""A connection is cold until it has carried this many bandwidth-delay products."""

INITIAL_WINDOW_BYTES = 14_480
"""TCP begins with ten packets; a smaller product does not matter."""


LIKELY_LOSSES = 0.5
"""Losses explain a delay if at least this many packets are lost on average meanwhile."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a task's time.

    Attributes:
        where: the link `a -> b` or the site.
        fault: the number of the fault behind it; None without one.
        bytes: what was carried meanwhile.
        text: more about it, such as a rate, or why a task was repaired.
    """

    cause: Cause
    seconds: float
    where: str
    fault: int | None = None
    bytes: float = 0.0
    text: str = ""


@dataclass(frozen=True, slots=True)
class _Load:
    """Bytes that crossed a link between two times; `task` is None for background traffic."""

    task: int | None
    bytes: int
    start_ns: int
    end_ns: int

    def within(self, start_ns: int, end_ns: int) -> float:
        """The bytes in a span of time, if they flowed evenly."""
        if self.end_ns <= self.start_ns:
            return float(self.bytes) if start_ns < self.end_ns <= end_ns else 0.0
        overlap_ns = min(end_ns, self.end_ns) - max(start_ns, self.start_ns)
        return self.bytes * max(0, overlap_ns) / (self.end_ns - self.start_ns)


@dataclass(frozen=True)
class Run:
    """What is known of a run's links, agents and faults."""

    history: History
    topology: Topology
    mtu: int
    controller_site: str
    flows: Sequence[Flow] = ()

    @cached_property
    def conditions(self) -> Conditions:
        """The values of all links over time."""
        return Conditions.of(self.history, self.topology)

    @cached_property
    def delays_ms(self) -> Mapping[Directed, float]:
        """The least delays of the overlay's links."""
        return self.conditions.least_delays_ms()

    def divide(self, task: Task, step: Step) -> Iterator[Part]:
        """The parts of one step; together they take as long as the step."""
        match step.kind:
            case "transfer":
                yield from self._divide_transfer(task, step)
            case "repair":
                first, times = task.halted[0], len(task.halted)
                names = set(first.reason.split())
                fault = self._find_fault(names, task.started.t_ns, first.t_ns)
                text = f"{first.reason}; {times} halts" if times > 1 else first.reason
                yield Part("repair", step.duration_s, step.site, fault, text=text)
            case "contribution":
                yield from self._divide_contribution(step)
            case "installation":
                yield Part("installation", step.duration_s, step.site)

    def _divide_contribution(self, step: Step) -> Iterator[Part]:
        left_s = step.duration_s
        for part in self._list_stops(step, (CONTROLLER, step.site)):
            yield part
            left_s -= part.seconds
        delay_s = self.topology.path_delay_ms(self.controller_site, step.site) / 1e3
        where = f"{self.controller_site} -> {step.site}"
        if self.controller_site != step.site:
            delay_s = min(left_s, delay_s)
            yield Part("propagation", delay_s, where)
            left_s -= delay_s
        yield Part("contribution", left_s, step.site)

    def _divide_transfer(self, task: Task, step: Step) -> Iterator[Part]:
        """Take from the step's time what each cause explains, in this order, and then the rest."""
        hops = tuple(pairwise(self.topology.path(step.src, step.site)))
        slowest = max(hops, key=lambda hop: self._need_s(hop, step))
        link, where = self.topology.link(*slowest), " -> ".join(slowest)
        own = self._count(slowest, step, lambda number: number == task.number)
        others = self._count(slowest, step, lambda number: number not in (task.number, None))
        background = self._count(slowest, step, lambda number: number is None)
        set_s, now_s = (
            self._carry_s(own, rate) for rate in (link.rate_mbps, self._rate(slowest, step))
        )
        delay_s = sum(self.conditions.at(hop, step.end_ns).delay_ms for hop in hops) / 1e3
        changed = self._find_fault({where}, step.start_ns, step.end_ns)
        rates = f"{self._rate(slowest, step):.4g} of {link.rate_mbps:.4g} Mbit/s"
        others_s, background_s = (
            self._carry_s(size, self._rate(slowest, step)) for size in (others, background)
        )
        found = [
            *self._list_cuts(step, hops),
            *self._list_stops(step, (step.src, step.site)),
            Part("propagation", delay_s, f"{step.src} -> {step.site}"),
            Part("rate", min(set_s, now_s), where, None, own, f"{link.rate_mbps:.4g} Mbit/s"),
            Part("slowdown", now_s - set_s, where, changed, own, rates),
            Part("background traffic", background_s, where, None, background),
            Part(
                "other tasks", others_s, where, None, others, self._name_others(task, slowest, step)
            ),
        ]
        left_s = step.duration_s
        for part in found:
            seconds = min(left_s, part.seconds)
            if seconds > 0:
                yield replace(part, seconds=seconds)
                left_s -= seconds
        if left_s > 0:
            yield self._name_rest(step, hops, slowest, found, left_s)

    def _name_rest(
        self,
        step: Step,
        hops: Iterable[Directed],
        slowest: Directed,
        found: list[Part],
        left_s: float,
    ) -> Part:
        """What TCP did in the time that nothing else explains."""
        outage = next((part for part in found if part.cause in ("outage", "stop")), None)
        if outage is not None:  # TCP sends again only when its timer goes off
            return replace(outage, seconds=left_s)
        for hop in hops:
            lossy = max(
                self.conditions.at(hop, t_ns).loss_percent for t_ns in (step.start_ns, step.end_ns)
            )
            packets = self._count(hop, step, lambda _: True) / self.mtu
            if lossy / 100 * packets >= LIKELY_LOSSES:
                name = " -> ".join(hop)
                fault = self._find_fault({name}, step.start_ns, step.end_ns)
                return Part("loss", left_s, name, fault, text=f"{lossy:g} %")
        where = f"{step.src} -> {step.site}"
        cold = self._is_cold((step.src, step.site), step.end_ns)
        return Part("cold start" if cold else "queueing", left_s, where)

    # -- links --------------------------------------------------------------------------------

    @cached_property
    def _loads(self) -> Mapping[Directed, list[_Load]]:
        """Every payload on every link of the network."""
        found: defaultdict[Directed, list[_Load]] = defaultdict(list)
        for each in self.conditions.on_links(transfers(self.history.tasks, self.delays_ms)):
            load = _Load(each.task, each.bytes, each.start_ns, each.end_ns)
            found[each.src, each.dst].append(load)
        paths = {flow.number: self.topology.path(flow.src, flow.dst) for flow in self.flows}
        for event in self.history.all(BackgroundReceived):
            for hop in pairwise(paths.get(event.flow, ())):
                found[hop].append(_Load(None, event.bytes, event.since_ns, event.t_ns))
        return found

    def _count(self, hop: Directed, step: Step, wanted: Callable[[int | None], bool]) -> float:
        """The bytes on a link during a step, of the wanted tasks."""
        loads = (load for load in self._loads.get(hop, ()) if wanted(load.task))
        return sum(load.within(step.start_ns, step.end_ns) for load in loads)

    def _name_others(self, task: Task, hop: Directed, step: Step) -> str:
        found = {
            load.task
            for load in self._loads.get(hop, ())
            if load.task not in (task.number, None) and load.within(step.start_ns, step.end_ns)
        }
        return ", ".join(str(number) for number in sorted(n for n in found if n is not None))

    def _need_s(self, hop: Directed, step: Step) -> float:
        size = self._count(hop, step, lambda _: True)
        return self._carry_s(size, self._rate(hop, step))

    def _carry_s(self, size: float, rate_mbps: float) -> float:
        return size * 8e-6 / (rate_mbps * payload_share(self.mtu))

    def _rate(self, hop: Directed, step: Step) -> float:
        """The link's mean rate during a step, cuts aside."""
        span: Interval = (step.start_ns, max(step.end_ns, step.start_ns + 1))
        return self.conditions.capacity_bytes(hop, [span]) * 8e3 / (span[1] - span[0])

    def _is_cold(self, ends: Directed, t_ns: int) -> bool:
        """Whether the connection was new, or had carried little so far."""
        found = self.history.all(LinkFound)
        since_ns = max((e.t_ns for e in found if {e.site, e.peer} == set(ends)), default=0)
        carried = sum(
            event.bytes
            for task in self.history.tasks
            for event in task.sent
            if (event.site, event.dst) == ends and since_ns <= event.start_ns < t_ns
        )
        link: Link = self.topology.overlay.link(*ends)
        trip_ms = link.delay_ms + self.topology.overlay.link(*reversed(ends)).delay_ms
        product = max(INITIAL_WINDOW_BYTES, link.rate_mbps * trip_ms * 1e3 / 8)
        return carried < COLD_WINDOWS * product

    # -- faults -------------------------------------------------------------------------------

    def _list_cuts(self, step: Step, hops: Iterable[Directed]) -> Iterator[Part]:
        """The longest cut of any link of the path."""
        found = []
        for hop in hops:
            spells = self.conditions.spells[hop]
            ends_ns = [*(spell.start_ns for spell in spells[1:]), self.history.end_ns]
            spans = [(s.start_ns, end) for s, end in zip(spells, ends_ns, strict=True) if s.is_cut]
            name = " -> ".join(hop)
            fault = self._find_fault({name}, step.start_ns, step.end_ns)
            found.append(Part("outage", _overlap_s(spans, step), name, fault))
        longest = max(found, key=lambda part: part.seconds)
        if longest.seconds:
            yield longest

    def _list_stops(self, step: Step, agents: Iterable[str]) -> Iterator[Part]:
        """When the agents at the ends were dead or paused."""
        for who in dict.fromkeys(agents):
            since: AgentChanged | None = None
            spans: list[Interval] = []
            fault = None
            for event in self.history.all(AgentChanged):
                if event.who != who:
                    continue
                if event.do in ("kill", "pause"):
                    since, fault = event, event.fault
                elif since is not None:
                    spans.append((since.t_ns, event.t_ns))
                    since = None
            if since is not None:
                spans.append((since.t_ns, self.history.end_ns))
            if seconds := _overlap_s(spans, step):
                yield Part("stop", seconds, who, fault)

    def _find_fault(self, names: set[str], start_ns: int, end_ns: int) -> int | None:
        """The latest fault that acted on one of these links or agents in that time."""
        found = [each for each in self.history.faults if _acts(each, names, start_ns, end_ns)]
        return found[-1].started.fault if found else None


def _acts(fault: Disturbance, names: set[str], start_ns: int, end_ns: int) -> bool:
    started = fault.started
    ended_ns = end_ns if fault.end_ns is None else fault.end_ns
    targets = {*started.targets, *(n for t in started.targets for n in t.split(" -> "))}
    hits = not started.targets or bool(targets & names)
    return started.verb != "churn" and started.t_ns <= end_ns and start_ns <= ended_ns and hits


def _overlap_s(spans: Iterable[Interval], step: Step) -> float:
    """How long these spans, which do not overlap, are within a step, in seconds."""
    found = (min(end, step.end_ns) - max(start, step.start_ns) for start, end in spans)
    return sum(max(0, overlap) for overlap in found) / 1e9
