"""The network of a run in the fluid model: links that change, messages of the controller (pure)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from trunkline.agents.events.event import RUNNER
from trunkline.agents.events.fault_events import FaultEnded, FaultStarted, LinkChanged
from trunkline.agents.planning.fluid.agenda import Agenda
from trunkline.agents.planning.fluid.fluid_links import FluidLinks
from trunkline.agents.planning.plan import Directed
from trunkline.harness.background.flows import Flow, leave_rates, list_flows
from trunkline.harness.faults.fault_steps import Began, Ended, FaultStep, LinkStep
from trunkline.harness.faults.fault_writing import write
from trunkline.harness.faults.timeline import Timeline
from trunkline.harness.scenario.settings import Scenario
from trunkline.topologies.links import CHANGEABLE
from trunkline.topologies.model import Topology


@dataclass(slots=True)
class ChangingLinks:
    """The links, whose rates the timeline and background traffic change.

    Attributes:
        links: the links of the run, with the rates that other traffic leaves to it.
        flows: the background traffic, which takes its mean rate.
        rates_mbps: the rates of all links by topology and timeline.
        is_active: whether the run still needs the changes of the timeline.
        log: takes the type of an event, its site and its values.
        start_s: when the timeline started; None before.
    """

    links: FluidLinks
    topology: Topology
    timeline: Timeline
    flows: Sequence[Flow]
    rates_mbps: dict[Directed, float]
    is_active: Callable[[], bool]
    log: Callable[..., None]
    start_s: float | None = None

    @classmethod
    def of(
        cls,
        scenario: Scenario,
        links: FluidLinks,
        is_active: Callable[[], bool],
        log: Callable[..., None],
    ) -> ChangingLinks:
        """The links of a scenario, and the changes that its background traffic makes."""
        topology = scenario.topology
        timeline = Timeline(topology, scenario.timeline, scenario.seed)
        flows = list_flows(scenario.background)
        made = cls(links, topology, timeline, flows, topology.rates_mbps(), is_active, log)
        made._leave_rates()
        for t_s in {t for flow in flows for t in (flow.entry.start_s, flow.entry.stop_s) if t}:
            links.agenda.call_at(t_s, made._leave_rates)
        return made

    def start(self) -> None:
        """Start the timeline now, unless it has started."""
        if self.start_s is None:
            self.start_s = self.links.agenda.now_s
            self._change()

    def _change(self) -> None:
        """Apply all changes of the timeline up to now, and plan the next one."""
        assert self.start_s is not None
        agenda = self.links.agenda
        now_ns = round((agenda.now_s - self.start_s) * 1e9)
        for step in self.timeline.advance(now_ns):
            self._log_step(step)
            if isinstance(step, LinkStep):
                self.rates_mbps[step.after.src, step.after.dst] = step.after.rate_mbps
        self._leave_rates()
        next_ns = self.timeline.next_ns
        if next_ns is not None and self.is_active():
            agenda.call_at(self.start_s + next_ns / 1e9, self._change)

    def _log_step(self, step: FaultStep) -> None:
        match step:
            case Began(number, fault, targets):
                values = {"verb": fault.VERB, "text": write(fault), "targets": tuple(targets)}
                self.log(FaultStarted, RUNNER, fault=number, **values)
            case Ended(number):
                self.log(FaultEnded, RUNNER, fault=number)
            case LinkStep(after=link):
                values = {name: getattr(link, name) for name in CHANGEABLE}
                self.log(LinkChanged, RUNNER, src=link.src, dst=link.dst, cuts=(), **values)

    def _leave_rates(self) -> None:
        """Leave each flow of background traffic that is active now its mean rate."""
        active = [flow for flow in self.flows if flow.is_active(self.links.agenda.now_s)]
        self.links.set_rates(leave_rates(self.rates_mbps, self.topology, active))


@dataclass(slots=True)
class Messages:
    """The messages between the controller and sites, which take the delays of their paths."""

    agenda: Agenda
    delays_s: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, scenario: Scenario, agenda: Agenda) -> Messages:
        """The messages of a scenario's controller."""
        centre, topology = scenario.controller_site, scenario.topology
        sites = topology.site_names
        return cls(agenda, {site: topology.path_delay_ms(centre, site) / 1e3 for site in sites})

    def find_arrival_s(self, site: str) -> float:
        """When a message arrives that the controller and a site exchange now, in seconds."""
        return self.agenda.now_s + self.delays_s.get(site, 0.0)

    def call(self, site: str, what: Callable[[], None]) -> None:
        """Call a function when a message between the controller and a site has arrived."""
        self.call_at(self.find_arrival_s(site), what)

    def call_at(self, time_s: float, what: Callable[[], None]) -> None:
        """Call a function at a time; at once if that has come."""
        if time_s > self.agenda.now_s:
            self.agenda.call_at(time_s, what)
        else:
            what()
