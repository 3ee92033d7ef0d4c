"""The events of what is done to a run from outside (pure)."""

from __future__ import annotations

from dataclasses import MISSING, dataclass, fields

from trunkline.agents.events.event import By, Count, Event


@dataclass(frozen=True, slots=True)
class FaultStarted(Event, by=By.RUNNER):
    """A fault starts; `text` is the line that asks for it.

    `targets` are the directed links (`a -> b`) or the agent that it affects; none means all links.
    A user has `asked` for it while the run is in progress; otherwise it is of the timeline. A heal
    `at_end` was not typed: it goes before an end that a user asked for.
    """

    fault: Count
    verb: str
    text: str
    targets: tuple[str, ...]
    asked: bool = False
    at_end: bool = False

    def omitted_keys(self) -> tuple[str, ...]:
        return tuple(name for name in ("asked", "at_end") if not getattr(self, name))


@dataclass(frozen=True, slots=True)
class FaultEnded(Event, by=By.RUNNER):
    """That fault is undone."""

    fault: Count


@dataclass(frozen=True, slots=True)
class LinkChanged(Event, by=By.RUNNER):
    """From now on the link src -> dst has these values; `cuts` say how it is cut.

    `burst` is the mean number of packets in a row that are lost. What is as on most links is left
    out. Measured delays are their quantiles in the field `distribution`.
    """

    src: str
    dst: str
    rate_mbps: float
    delay_ms: float
    jitter_ms: float
    loss_percent: float
    cuts: tuple[str, ...]
    burst: float = 1.0
    reorder_percent: float = 0.0
    duplicate_percent: float = 0.0
    corrupt_percent: float = 0.0
    distribution: str = "uniform"
    correlation_percent: float = 0.0

    def omitted_keys(self) -> tuple[str, ...]:
        """See `Event`."""
        usual = (each for each in fields(self) if each.default is not MISSING)
        return tuple(each.name for each in usual if getattr(self, each.name) == each.default)


@dataclass(frozen=True, slots=True)
class LinkAltered(Event, by=By.RUNNER):
    """Not the run, but a program or a typed command changed the link src -> dst, or its interface.

    `expected` is what the run has set, `found` what the kernel has now, both in words.
    """

    src: str
    dst: str
    expected: str
    found: str


@dataclass(frozen=True, slots=True)
class WaysAltered(Event, by=By.RUNNER):
    """Not the run, but a program or a typed command changed how packets leave this node.

    `what` is a route, an address, or the hardware address of a neighbour; `expected` is what the
    run has set, `found` what the kernel has now, both in words.
    """

    node: str
    what: str
    expected: str
    found: str


@dataclass(frozen=True, slots=True)
class AgentChanged(Event, by=By.RUNNER):
    """A fault did this to an agent or program: kill, leave (a program), restart, pause, resume."""

    who: str
    do: str
    fault: Count


@dataclass(frozen=True, slots=True)
class CommandTyped(Event, by=By.RUNNER):
    """A user runs this command at a site, or between sites."""

    line: str
