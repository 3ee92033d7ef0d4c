"""When agents could do nothing because a fault had stopped them (pure)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from trunkline.agents.events.fault_events import AgentChanged
from trunkline.harness.record.history import History, Interval

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
        return max(0, min(self.end_ns, span[1]) - max(self.start_ns, span[0])) / 1e9


def list_stops(history: History) -> list[Standstill]:
    """All stops of agents in the order of their end; those that no event ends end with the log."""
    return list(_find_stops(history))


def _find_stops(history: History) -> Iterator[Standstill]:
    open_: dict[str, AgentChanged] = {}
    for event in history.all(AgentChanged):
        if (since := open_.pop(event.who, None)) is not None:
            yield _make_stop(since, event.t_ns)
        if event.do in _KINDS:
            open_[event.who] = event
    for since in open_.values():
        yield _make_stop(since, history.end_ns)


def _make_stop(since: AgentChanged, end_ns: int) -> Standstill:
    return Standstill(since.who, _KINDS[since.do], since.t_ns, end_ns, since.fault)
