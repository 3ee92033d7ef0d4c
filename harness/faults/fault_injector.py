"""Carries out the faults of a run, scripted and typed, on network and agents, and logs each step.

`harness.faults.timeline` makes all decisions. Here its steps become calls and events, in order. The
timeline starts with the first task, and an alarm goes off when a step is due. All faults end when
the run stops, at the latest at its `stop.time`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Iterable
from typing import Any, Protocol

from trunkline.agents.events import fault_events
from trunkline.agents.events.event import Log
from trunkline.agents.timing.exact_waits import Alarm
from trunkline.harness.faults.fault_steps import (
    AgentChange,
    AgentStep,
    Began,
    Ended,
    FaultStep,
    LinkStep,
)
from trunkline.harness.faults.fault_types import Fault, needs_blackholes
from trunkline.harness.faults.fault_writing import write
from trunkline.harness.faults.timeline import Timeline
from trunkline.harness.network.interface import Network
from trunkline.topologies.links import CHANGEABLE, Link
from trunkline.topologies.model import Topology


class Agents(Protocol):
    """The part of the run's supervisor that faults need."""

    def can_change(self, name: str, do: AgentChange) -> bool: ...

    def change(self, name: str, do: AgentChange, fault: int) -> None: ...


def require_blackholes(network: Network, topology: Topology, faults: Iterable[Fault]) -> None:
    """Raises NetworkError if one of the faults wants blackholes and this kernel has none."""
    if needs_blackholes(faults):
        first = topology.links[0]
        network.cut(first.src, first.dst, "blackhole")
        network.mend(first.src, first.dst, "blackhole")


class FaultInjector:
    """Carries out one run's timeline.

    Attributes:
        fd: a descriptor that becomes readable when `perform_due` is to be called.
        start_ns: the start of the first task, by `time.monotonic_ns`; 0 before.
        stop_ns: when all faults end, by the same clock; infinite if nothing but `finish` ends them.
    """

    def __init__(
        self,
        timeline: Timeline,
        network: Network,
        agents: Agents,
        log: Log,
        programs: Collection[str] = (),
    ) -> None:
        """`programs` stay dead when all faults end."""
        self.timeline = timeline
        self._programs = programs
        self._network = network
        self._agents = agents
        self._log = log
        self._alarm = Alarm()
        self.fd = self._alarm.fd
        self.start_ns = 0
        self.stop_ns = math.inf

    def close(self) -> None:
        """Free the alarm."""
        self._alarm.close()

    def start(self, at_ns: int, stop_ns: float = math.inf) -> None:
        """Start the timeline: the first task started at this time, by `time.monotonic_ns`."""
        self.start_ns, self.stop_ns = at_ns, stop_ns
        self._set_alarm()

    def perform_due(self) -> None:
        """Carry out the steps that are due; at `stop_ns`, end all faults."""
        now_ns = time.monotonic_ns()
        self._perform(self.timeline.advance(int(min(now_ns, self.stop_ns)) - self.start_ns))
        if now_ns >= self.stop_ns:
            self.stop_ns = math.inf  # what stays dead needs no further alarm
            self.finish()
        self._set_alarm()

    def inject(self, fault: Fault, at_end: bool = False) -> None:
        """Begin a typed fault now; the log says that it was `asked` for, or goes before the end.

        What was due before it comes first, also if the alarm has not been heard yet. That takes
        time: each event of the log moves the clock.
        """
        if self.start_ns:
            while steps := self.timeline.advance(
                int(min(self._now_ns(), self.stop_ns - self.start_ns))
            ):
                self._perform(steps)
        self._perform(self.timeline.begin(fault, self._now_ns()), asked=True, at_end=at_end)
        self._set_alarm()

    def log_command(self, line: str) -> None:
        """Log that a command was typed, which may do anything to network and sites."""
        self._log(fault_events.CommandTyped, line=line)

    def finish(self, done: Collection[str] = ()) -> None:
        """Undo all active faults except kills of agents that are `done`; drop the later ones."""
        self._perform(self.timeline.finish({*done, *self._programs}))
        self._set_alarm()

    def _now_ns(self) -> int:
        return time.monotonic_ns() - self.start_ns if self.start_ns else 0

    def _set_alarm(self) -> None:
        next_ns = self.timeline.next_ns
        due_ns = math.inf if next_ns is None else self.start_ns + next_ns
        if self.timeline.active:
            due_ns = min(due_ns, self.stop_ns)
        self._alarm.set(int(due_ns) if self.start_ns and due_ns < math.inf else None)

    def _perform(
        self, steps: Iterable[FaultStep], asked: bool = False, at_end: bool = False
    ) -> None:
        for step in steps:
            match step:
                case Began(number=number, fault=fault, targets=targets):
                    self._log(
                        fault_events.FaultStarted,
                        fault=number,
                        verb=fault.VERB,
                        text=write(fault),
                        targets=tuple(targets),
                        asked=asked,
                        at_end=at_end,
                    )
                case Ended(number=number):
                    self._log(fault_events.FaultEnded, fault=number)
                case LinkStep():
                    self._change_link(step)
                case AgentStep(who=who, do=do) if self._agents.can_change(who, do):
                    self._change_agent(step)

    def _change_agent(self, step: AgentStep) -> None:
        """Change an agent, and log it while the agent cannot log anything itself."""
        wakes = step.do in ("resume", "restart")
        if not wakes:
            self._agents.change(step.who, step.do, step.number)
        self._log(fault_events.AgentChanged, who=step.who, do=step.do, fault=step.number)
        if wakes:
            self._agents.change(step.who, step.do, step.number)

    def _change_link(self, step: LinkStep) -> None:
        src, dst = step.after.src, step.after.dst
        values = _values(step.after)
        before = _values(step.before)
        changed = {name: value for name, value in values.items() if value != before[name]}
        if changed:
            self._network.set_link(src, dst, **changed)
        for how in sorted(step.cuts_before - step.cuts_after):
            self._network.mend(src, dst, how)
        for how in sorted(step.cuts_after - step.cuts_before):
            self._network.cut(src, dst, how)
        cuts = tuple(sorted(step.cuts_after))
        self._log(fault_events.LinkChanged, src=src, dst=dst, **values, cuts=cuts)


def _values(link: Link) -> dict[str, Any]:
    return {name: getattr(link, name) for name in CHANGEABLE}
