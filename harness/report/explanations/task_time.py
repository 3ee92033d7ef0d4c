"""Where the time of a task went, by cause (pure).

Every step of the critical path is divided among causes. A link's own part is what its bytes need at
its rate in the scenario; what others' bytes need, what a fault took, and propagation follow from
the log (`link_loads`). What is left is TCP: losses, a cold connection, or queues.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

from trunkline.agents.events.connection_events import LinkFound
from trunkline.agents.events.event import BACKUP, CONTROLLER
from trunkline.agents.events.task_events import TaskHalted, TaskRearranged
from trunkline.agents.planning.plan import Directed
from trunkline.harness.background.flows import Flow
from trunkline.harness.checks.payload.byte_checks import count_planned
from trunkline.harness.network.interface import payload_share
from trunkline.harness.record.history import History, Task
from trunkline.harness.record.link_history import Conditions
from trunkline.harness.record.lives import Interval
from trunkline.harness.record.stops import Standstill, list_stops
from trunkline.harness.record.transfers import Transfer, transfers
from trunkline.harness.report.explanations.critical_path import PathStep
from trunkline.harness.report.explanations.fault_search import (
    CHANGES,
    CUTS,
    HARMS,
    NOTICED_TIMEOUTS,
    FaultSearch,
)
from trunkline.harness.report.explanations.late_messages import divide_contribution
from trunkline.harness.report.explanations.links.cold_connections import ColdConnections
from trunkline.harness.report.explanations.links.link_loads import BUSY, LinkLoads
from trunkline.harness.report.explanations.links.resent_packets import ResentPackets
from trunkline.harness.report.explanations.links.rests import find_earlier_losses, name_rest
from trunkline.harness.report.explanations.links.tcp_limits import (
    SHORTEST_TIMER_S,
    TcpLimits,
)
from trunkline.harness.report.explanations.links.troubles import Trouble
from trunkline.harness.report.explanations.time_parts import (
    MISTAKEN,
    Part,
    compare_delays,
    limit_parts,
)
from trunkline.harness.report.overlay.spreading import spread
from trunkline.topologies.model import Topology

WORKED_OFF = 0.1
"""An agent that was stopped works off what had come in so much of that time after it goes on."""


@dataclass(frozen=True)
class Run:
    """What is known of a run's links, agents and faults.

    Agents count a connection as lost if it is silent for `timeout_ns`.
    """

    history: History
    topology: Topology
    mtu: int
    controller_site: str
    flows: Sequence[Flow] = ()
    timeout_ns: int = 0
    backup_site: str = ""

    @cached_property
    def faults(self) -> FaultSearch:
        """The faults behind what happened."""
        where = self.topology, self.controller_site
        detection_ns = NOTICED_TIMEOUTS * self.timeout_ns
        return FaultSearch(self.history, *where, detection_ns, self.backup_site)

    @cached_property
    def conditions(self) -> Conditions:
        """The values of all links over time."""
        return Conditions.of(self.history, self.topology)

    @cached_property
    def stops(self) -> Sequence[Standstill]:
        """When agents were dead or paused."""
        return list_stops(self.history)

    @cached_property
    def delays_ms(self) -> Mapping[Directed, float]:
        """The least delays of the overlay's links."""
        return self.conditions.least_delays_ms

    def centre_of(self, task: Task) -> tuple[str, str]:
        """The controller that started a task, and its site."""
        if task.started.site == BACKUP and self.backup_site:
            return BACKUP, self.backup_site
        return CONTROLLER, self.controller_site

    def divide(self, task: Task, step: PathStep) -> Iterator[Part]:
        """The parts of one step; together they take as long as the step."""
        match step.kind:
            case "transfer":
                yield from self._divide_transfer(task, step)
            case "repair":
                repair = self._explain_repair(task, step)
                begun_ns = self.faults.find_begin_ns(repair.fault, (step.start_ns, step.end_ns))
                if before_s := (begun_ns - step.start_ns) / 1e9:
                    text = f"fault {repair.fault}"
                    yield Part("before the fault", before_s, step.site, text=text)
                yield replace(repair, seconds=repair.seconds - before_s)
            case "contribution":
                yield from divide_contribution(self, task, step)
            case "installation":
                yield Part("installation", step.duration_s, step.site)

    def _explain_repair(self, task: Task, step: PathStep) -> Part:
        """The first loss that the task was repaired for by then, with the fault behind it."""
        first, fault = self.find_repair(task, step.end_ns)
        halts = [event for event in task.all(TaskHalted) if event.t_ns <= step.end_ns]
        times = f" ({len(halts)} times)" if len(halts) > 1 else ""
        why = self.faults.describe(first.cause, fault, task)
        how = f"halted{times} and planned anew" if halts else "rearranged"
        if silent_s := self.faults.find_silence_s(first.cause, fault, (step.start_ns, first.t_ns)):
            how += f" ({silent_s:.3f} s of this were the wait for failover.timeout)"
        return Part("repair", step.duration_s, step.site, fault, text=f"was {how}: {why}")

    def find_repair(
        self, task: Task, end_ns: int
    ) -> tuple[TaskHalted | TaskRearranged, int | None]:
        """The first repair of a task until then, and the number of the fault behind it."""
        first = next(e for e in task.all(TaskRearranged, TaskHalted) if e.t_ns <= end_ns)
        span = task.started.t_ns, first.t_ns
        fault = self.faults.find_behind(first.cause, (), span)
        if fault is None:  # such as a budget that is spent
            hops = {hop for ends in count_planned(task) for hop in self.list_hops(ends)}
            fault = self.faults.find({" -> ".join(hop) for hop in hops}, (*CUTS, *CHANGES), *span)
        return first, fault

    def _divide_transfer(self, task: Task, step: PathStep) -> Iterator[Part]:
        """Take from the step's time what each cause explains, in this order, and then the rest."""
        span = step.start_ns, step.end_ns
        hops = self.list_hops((step.src, step.site))
        slowest = max(hops, key=lambda hop: self.loads.use(hop, span))
        link, where = self.topology.link(*slowest), " -> ".join(slowest)
        others = self.loads.count_tasks(slowest, span)
        own = others.pop(task.number, 0.0) + step.begun
        background = self.loads.count(slowest, span, lambda number: number is None)
        rate_mbps = max(link.rate_mbps, self._mean_mbps(slowest, span))
        own_s, background_s = (self.loads.carry_s(size, rate_mbps) for size in (own, background))
        delay_s = sum(self.topology.link(*hop).delay_ms for hop in hops) / 1e3
        found = [
            *self.list_cuts(step, hops),
            *self.list_stops(step, (step.src, step.site)),
            Part("propagation", delay_s, f"{step.src} -> {step.site}"),
            *self._list_late_arrivals(step, hops),
            Part("rate", own_s, where, None, own, f"{rate_mbps:.4g} Mbit/s"),
            *self.list_slowdowns(slowest, span, step.begun),
            Part("background traffic", background_s, where, None, background),
            *(
                Part("other tasks", self.loads.carry_s(size, rate_mbps), where, None, size, str(n))
                for n, size in sorted(others.items(), key=lambda other: -other[1])
            ),
            *(part for hop in hops if hop != slowest for part in self.list_slowdowns(hop, span)),
        ]
        left_s = step.duration_s
        for part in limit_parts(found, left_s):
            yield part
            left_s -= part.seconds
        if left_s > 0:
            yield from self._name_rest(task, step, found, left_s)

    def _name_rest(
        self, task: Task, step: PathStep, found: list[Part], left_s: float
    ) -> Iterator[Part]:
        """The causes by TCP in the time that nothing else explains."""
        ends, span = (step.src, step.site), (step.start_ns, step.end_ns)
        if (silence := self._find_silence(found, ends, span)) is not None:
            for part in limit_parts([silence], left_s):
                yield part
                left_s -= part.seconds
            if left_s <= 0:
                return
        limits = self.limits.find_troubles(ends, span)
        cold, sure = [*self._list_cold(task, step)], self.limits.find_sure_losses(ends, span)
        if sure is not None:  # then the losses are why it took longer to find the link's rate
            least_s = self.connections.find_slow_start_s(ends)
            cold = [replace(part, seconds=min(part.seconds, least_s)) for part in cold]
        elif (earlier := find_earlier_losses(self, ends, span)) is not None:
            cold = [self.name_trouble(step, earlier, part.seconds) for part in cold]
        found = [
            *(self.name_trouble(step, each.trouble, each.due_s) for each in limits),
            *cold,
            *([self.name_trouble(step, sure, left_s)] if sure is not None else []),
            *(self.name_trouble(step, each.trouble, each.seconds - each.due_s) for each in limits),
        ]
        for part in limit_parts(found, left_s):
            yield part
            left_s -= part.seconds
        if left_s > 0:
            yield from name_rest(self, task, step, left_s)

    def _find_silence(self, found: Iterable[Part], ends: Directed, span: Interval) -> Part | None:
        """What a cut or a stop took in a transfer after its end: until TCP's timer went off.

        TCP doubles the time between two tries, so it is silent at most as long again, and after a
        cut for its shortest timer at least.
        """
        cut = next((part for part in found if part.cause in ("outage", "stop")), None)
        if cut is None:
            return None
        is_cut = cut.cause == "outage"
        least_s = SHORTEST_TIMER_S + self.limits.find_trip_s(ends, span[0]) if is_cut else 0.0
        since_s = (span[1] - self.faults.find_begin_ns(cut.fault, span)) / 1e9
        seconds = min(since_s - cut.seconds, max(cut.seconds, least_s))
        silent = ", and TCP was silent until its timer went off" * is_cut
        return replace(cut, seconds=seconds, text=silent)

    def name_trouble(self, step: PathStep, trouble: Trouble, seconds: float) -> Part:
        """The part of what kept TCP below the rate of the link, or had done so before."""
        name, since_ns = " -> ".join(trouble.hop), trouble.start_ns
        is_cut, until_ns = trouble.cause == "outage", int(min(trouble.end_ns, step.end_ns))
        kinds, until_ns = (CUTS, until_ns) if is_cut else (CHANGES, since_ns)
        usual = self.topology.link(*trouble.hop).lost_percent
        fault = None
        if trouble.cause != "loss" or trouble.amount > usual:
            fault = self.faults.find({name}, kinds, since_ns, until_ns)
        return Part(trouble.cause, seconds, name, fault, text=self._describe(trouble, step))

    def _describe(self, trouble: Trouble, step: PathStep) -> str:
        """What a link did or does to the packets of a step, in words."""
        is_back = trouble.hop not in self.list_hops((step.src, step.site))
        held = ", which held up acknowledgements" if is_back else ""
        if trouble.cause == "outage":
            if step.start_ns < trouble.end_ns:
                return held
            left = f"{held} and left" if held else ", which left"
            return f" until {trouble.end_ns / 1e9:.3f} s{left} TCP a small window"
        if trouble.cause == "delay":
            usual_ms = self.topology.link(*trouble.hop).delay_ms
            timed_out = (trouble.amount - usual_ms) / 1e3 > SHORTEST_TIMER_S
            small = ", and TCP carries less until its window has grown"
            over = trouble.end_ns <= step.start_ns
            until = f" until {trouble.end_ns / 1e9:.3f} s" if over else ""
            delays = compare_delays(trouble.amount, usual_ms)
            return f"{delays}{until}{held}{MISTAKEN if timed_out else small}"
        if trouble.cause == "slowdown":
            usual_mbps = self.topology.link(*trouble.hop).rate_mbps
            rates = f"{trouble.amount:.4g} of {usual_mbps:.4g} Mbit/s"
            return f"{rates} until {trouble.end_ns / 1e9:.3f} s, which left TCP a small window"
        if step.end_ns < trouble.end_ns:
            return f"loses {trouble.amount:g} %, and lost packets delayed TCP"
        lost = f"lost {trouble.amount:g} % until {trouble.end_ns / 1e9:.3f} s"
        if step.start_ns < trouble.end_ns:
            return f"{lost}, and lost packets delayed TCP"
        return f"{lost}, which left TCP a small window"

    def _list_late_arrivals(self, step: PathStep, hops: Iterable[Directed]) -> Iterator[Part]:
        """By how much the last byte was later than with the scenario's delays."""
        for hop in hops:
            usual_ms, name = self.topology.link(*hop).delay_ms, " -> ".join(hop)
            spells = list(self.conditions.within(hop, step.start_ns, step.end_ns))
            arriving = [
                spell
                for spell, from_ns, _ in spells
                if from_ns + spell.link.delay_ms * 1e6 <= step.end_ns
            ]
            if arriving and (late_ms := arriving[-1].link.delay_ms - usual_ms) > 0:
                since_ns = arriving[-1].start_ns
                fault = self.faults.find({name}, CHANGES, since_ns, since_ns)
                text = compare_delays(arriving[-1].link.delay_ms, usual_ms)
                yield Part("delay", late_ms / 1e3, name, fault, text=text)

    def _list_cold(self, task: Task, step: PathStep) -> Iterator[Part]:
        """The time that a cold connection may need."""
        ends = step.src, step.site
        since_ns, where = self.connections.find(ends, step.end_ns)[0], " -> ".join(ends)
        cold_s = self.connections.find_cold_s(ends, step)
        repairs = task.all(TaskRearranged, TaskHalted)
        repaired = [event.t_ns for event in repairs if event.t_ns <= step.end_ns]
        if repaired and not self.connections.find(ends, min(repaired))[1]:
            first = self._explain_repair(task, step)
            needed = ", which the repair needed,"
            yield Part("cold start", cold_s, where, first.fault, text=needed)
            return
        noticed_ns = since_ns - self.faults.detection_ns  # what broke the connection before it
        hops = {" -> ".join(hop) for way in (ends, ends[::-1]) for hop in self.list_hops(way)}
        fault = None
        if since_ns and self.connections.was_used_before(ends, since_ns, step.bytes):
            fault = self.faults.find({*hops, *ends}, HARMS, noticed_ns, since_ns)
        text = f", made at {since_ns / 1e9:.3f} s," if since_ns else ""
        yield Part("cold start", cold_s, where, fault, text=text)

    # -- links --------------------------------------------------------------------------------

    @cached_property
    def loads(self) -> LinkLoads:
        """The load of every link."""
        return LinkLoads.of(self.pieces, self.history, self.conditions, self.mtu, self.flows)

    @cached_property
    def transfers(self) -> tuple[Transfer, ...]:
        """Every payload of the run, on the overlay's links."""
        return transfers(self.history.tasks, self.delays_ms)

    @cached_property
    def pieces(self) -> Sequence[Transfer]:
        """The same payload in pieces that moved at one pace each."""
        return spread(self.history, self.conditions, payload_share(self.mtu))

    @cached_property
    def limits(self) -> TcpLimits:
        """The limit of TCP on every connection."""
        made = self.history.all(LinkFound)
        resent = ResentPackets.of(self.history)
        return TcpLimits.of(self.pieces, self.conditions, self.mtu, made, resent)

    @cached_property
    def connections(self) -> ColdConnections:
        """Which connections were cold."""
        return ColdConnections(self.history, self.topology, self.transfers, self._was_at_rate)

    def was_busy(self, ends: Directed, start_ns: int, end_ns: int) -> bool:
        """Whether a link below a link of the overlay carried what it could, or TCP did."""
        span = start_ns, end_ns
        return self._was_at_rate(ends, span) or self.limits.was_full(ends, span)

    def _was_at_rate(self, ends: Directed, span: Interval) -> bool:
        """Whether a link below a link of the overlay carried what its rate allows."""
        return any(self.loads.use(hop, span) >= BUSY for hop in self.list_hops(ends))

    def list_hops(self, ends: Directed) -> tuple[Directed, ...]:
        return tuple(pairwise(self.topology.path(*ends)))

    def _mean_mbps(self, hop: Directed, span: Interval) -> float:
        """The link's mean rate in a span of time, cuts aside."""
        start_ns, end_ns = span[0], max(span[1], span[0] + 1)
        return self.conditions.capacity_bytes(hop, [(start_ns, end_ns)]) * 8e3 / (end_ns - start_ns)

    def list_slowdowns(self, hop: Directed, span: Interval, more: int = 0) -> Iterator[Part]:
        """The time that a lower rate than the scenario's took, with the fault that set it."""
        if (slow := self.loads.find_slowdown(hop, span, more)) is not None:
            name, usual_mbps = " -> ".join(hop), self.topology.link(*hop).rate_mbps
            fault = self.faults.find({name}, CHANGES, slow.since_ns, slow.since_ns)
            rates = f"{slow.rate_mbps:.4g} of {usual_mbps:.4g} Mbit/s"
            yield Part("slowdown", slow.seconds, name, fault, text=rates)

    # -- faults -------------------------------------------------------------------------------

    def list_cuts(self, step: PathStep, hops: Iterable[Directed]) -> Iterator[Part]:
        """The longest cut of any link of the path, with the fault that began it."""
        found = []
        for hop in hops:
            spells = self.conditions.within(hop, step.start_ns, step.end_ns)
            cuts = [(end - start, spell) for spell, start, end in spells if spell.is_cut]
            if cuts:
                name, since_ns = " -> ".join(hop), max(cuts, key=lambda cut: cut[0])[1].start_ns
                fault = self.faults.find({name}, CUTS, since_ns, since_ns)
                found.append(Part("outage", sum(ns for ns, _ in cuts) / 1e9, name, fault))
        if found:
            yield max(found, key=lambda part: part.seconds)

    def find_got_ns(self, site: str, t_ns: int) -> int:
        """When a site stopped, if it goes on at about this time, else that time."""
        for stop in self.stops:
            late_ns = WORKED_OFF * (stop.end_ns - stop.start_ns)
            if stop.who == site and stop.start_ns < t_ns <= stop.end_ns + late_ns:
                return stop.start_ns
        return t_ns

    def list_stops(self, step: PathStep, agents: Collection[str]) -> Iterator[Part]:
        """When the agents at the ends were dead or paused."""
        for stop in self.stops:
            seconds = stop.overlap_s((step.start_ns, step.end_ns))
            if stop.who in agents and seconds:
                yield Part("stop", seconds, stop.who, stop.fault)
