"""When agents could do nothing because a fault had stopped them (pure)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from trunkline.agents.events.fault_events import AgentChanged
from trunkline.harness.record.history import History
from trunkline.harness.record.lives import Interval, overlap_ns

StopKind = Literal["kill", "pause"]
_KINDS: dict[str, StopKind] = {"kill": "kill", "pause": "pause"}


@dataclass(frozen=True, slots=True)
class Standstill:
    """An agent was dead or paused from `start_ns` to `end_ns`, because of this fault."""

    who: str
    do: StopKind
    start_ns: int
    end_ns: int
    fault: int

    def overlap_s(self, span: Interval) -> float:
        """How long the agent was stopped within a span of time, in seconds."""
        return overlap_ns((self.start_ns, self.end_ns), span) / 1e9


def list_stops(history: History) -> list[Standstill]:
    """All stops of agents in the order of their end; those that no event ends end with the log."""
    found = []
    for who, moments in history.lives.moments.items():
        changes = [each.event for each in moments if isinstance(each.event, AgentChanged)]
        ends_ns = [change.t_ns for change in changes[1:]] + [history.end_ns]
        for change, end_ns in zip(changes, ends_ns, strict=False):
            if (do := _KINDS.get(change.do)) is not None:
                found.append(Standstill(who, do, change.t_ns, end_ns, change.fault))
    return sorted(found, key=lambda stop: stop.end_ns)
