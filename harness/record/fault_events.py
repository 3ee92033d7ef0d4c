"""The events of what is done to a run from outside (pure)."""

from __future__ import annotations

from dataclasses import dataclass

from trunkline.harness.record.events import Event


@dataclass(frozen=True, slots=True)
class FaultStarted(Event):
    """Runner: a fault starts, in the words that ask for it.

    `targets` are the directed links (`a -> b`) or the agent it is aimed at; none are all links.
    It is `asked` for by somebody while the run goes on, or else of the timeline.
    """

    fault: int
    verb: str
    text: str
    targets: tuple[str, ...]
    asked: bool = False


@dataclass(frozen=True, slots=True)
class FaultEnded(Event):
    """Runner: that fault is undone."""

    fault: int


@dataclass(frozen=True, slots=True)
class LinkChanged(Event):
    """Runner: from now on the link src -> dst has these values; `cuts` say how it is cut."""

    src: str
    dst: str
    rate_mbps: float
    delay_ms: float
    jitter_ms: float
    loss_percent: float
    cuts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AgentChanged(Event):
    """Runner: a fault killed, restarted, paused or resumed an agent or program."""

    who: str
    do: str
    fault: int


@dataclass(frozen=True, slots=True)
class CommandTyped(Event):
    """Runner: somebody has this command run at a site, or between sites."""

    line: str
