"""The events of a run as a whole and of its processes (pure)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from trunkline.agents.events.causes import BY_TYPE, Broken, Ending
from trunkline.agents.events.event import By, Count, Event


@dataclass(frozen=True, slots=True)
class LinkTotals:
    """What the interface of one directed link counted during the run, headers included."""

    src: str
    dst: str
    bytes: Count
    packets: Count
    drops: Count


@dataclass(frozen=True, slots=True)
class LinkBytes:
    """What the interface of one directed link has counted since the start, headers included."""

    src: str
    dst: str
    bytes: Count


@dataclass(frozen=True, slots=True)
class LinkCapture:
    """The packets of one directed link that are in its file, and those that are missing there.

    `bytes` is the sum of the sizes that the packets had; `digest` is XXH3 (16 bytes, hex) of the
    file.
    """

    src: str
    dst: str
    packets: Count
    missed: Count
    bytes: Count
    digest: str


@dataclass(frozen=True, slots=True)
class SiteTotals:
    """What took virtual time at a site: computing that was charged, and empty polls.

    Attributes:
        measured_ns: the processor time of its processes on the host.
        charged_ns: the virtual time that this took.
        queued_ns: how long processes waited for one of the site's processors.
        charges: how often processes were charged.
        polls: the empty polls that took time.
    """

    site: str
    measured_ns: Count
    charged_ns: Count
    queued_ns: Count
    charges: Count
    polls: Count


@dataclass(frozen=True, slots=True)
class SiteDatagrams:
    """Packets of UDP: those that a site sent, that its processes got, and that found no socket."""

    site: str
    sent: Count
    received: Count
    refused: Count


@dataclass(frozen=True, slots=True)
class RunStarted(Event, by=By.RUNNER):
    """The agents are about to start."""

    scenario: str
    seed: int
    backend: str
    clock: str
    sites: tuple[str, ...]
    model_bytes: Count
    chunk_bytes: Count
    policy: str
    plan: str


@dataclass(frozen=True, slots=True)
class Predicted(Event, by=By.RUNNER):
    """There was no run: this `model` predicted the events of this log, and nothing was measured."""

    model: str


@dataclass(frozen=True, slots=True)
class NetworkReady(Event, by=By.RUNNER):
    """Every link is up and shaped."""


@dataclass(frozen=True, slots=True)
class ProgramsStarted(Event, by=By.RUNNER):
    """The clock of the programs begins now."""


@dataclass(frozen=True, slots=True)
class ProgramStarted(Event, by=By.RUNNER):
    """The program `who`, such as `n1.trainer`, begins; `attempt` counts its processes from 0."""

    who: str
    attempt: Count


@dataclass(frozen=True, slots=True)
class ProgramReady(Event, by=By.RUNNER):
    """The program `who` is ready as the scenario says: its port listens, or it wrote its line."""

    who: str
    attempt: Count


@dataclass(frozen=True, slots=True)
class LinksCounted(Event, by=By.RUNNER):
    """In a run of programs: these links carried something since the last count."""

    links: tuple[LinkBytes, ...]


@dataclass(frozen=True, slots=True)
class SiteQuiet(Event, by=By.RUNNER):
    """In a run of programs: the site `who` moved no data from `since_ns` until now, a second or
    more. Packets that only open a connection, refuse it or acknowledge data are no data.
    """  # noqa: D205

    who: str
    since_ns: Count


@dataclass(frozen=True, slots=True)
class TimeCharged(Event, by=By.RUNNER):
    """At the end of a run of programs, if anything was charged or many polls were empty.

    `samples_ns` has what the same loop took, before and after the run: it shows the noise.
    """

    sites: tuple[SiteTotals, ...]
    samples_ns: tuple[Count, ...] = ()


@dataclass(frozen=True, slots=True)
class Stopping(Event, by=By.STOPPER):
    """The stop condition is met, no more tasks."""

    cause: Annotated[Ending, BY_TYPE]


@dataclass(frozen=True, slots=True)
class AgentExited(Event, by=By.RUNNER):
    """The process of `who` ended with this exit code, or by this signal.

    The `fault` is the number of the one that killed it, or had it leave. Only a program has
    `asked`: whether it was told to end; its exit code then means nothing.
    """

    who: str
    asked: bool | None = field(default=None, kw_only=True)
    code: int | None = None
    signal: int | None = None
    fault: Count | None = None

    @property
    def status(self) -> int:
        """The exit code, or minus the signal."""
        return -self.signal if self.signal else self.code or 0

    def omitted_keys(self) -> tuple[str, ...]:
        if self.asked is None:
            return ("asked",)
        return ("fault",) if self.fault is None else ()


@dataclass(frozen=True, slots=True)
class ExpectedOutput(Event, by=By.RUNNER):
    """The program `who` wrote the line that an entry of `expect:` waits for; the first is 0."""

    who: str
    entry: Count
    line: str


@dataclass(frozen=True, slots=True)
class OutputOutOfBounds(Event, by=By.RUNNER):
    """The pattern of an entry of `expect:` was in `lines` lines of a program that has exited.

    The number in them was never within its bounds, or was no number; `line` came nearest. The lines
    are those since the last such event of this program.
    """

    who: str
    entry: Count
    lines: Count
    line: str


@dataclass(frozen=True, slots=True)
class CaptureEnded(Event, by=By.RUNNER):
    """The files with the packets of these links are complete."""

    links: tuple[LinkCapture, ...]


@dataclass(frozen=True, slots=True)
class RunFinished(Event, by=By.RUNNER):
    """Every process is reaped; `links` are the interface counters at that moment.

    At the sites `short_of_memory` TCP met the kernel's limit of its memory. In a run of programs,
    TCP of the sites `with_data` sent data, and `datagrams` has what the UDP of each site did; older
    logs lack these, and UDP counts in `with_data`, too.
    """

    cause: Annotated[Ending | Broken, BY_TYPE] | None
    links: tuple[LinkTotals, ...]
    short_of_memory: tuple[str, ...] = ()
    with_data: tuple[str, ...] | None = None
    datagrams: tuple[SiteDatagrams, ...] | None = None

    def omitted_keys(self) -> tuple[str, ...]:
        return tuple(key for key in ("with_data", "datagrams") if getattr(self, key) is None)


@dataclass(frozen=True, slots=True)
class AgentFailed(Event, by=By.ANY):
    """The agent or program failed, for this reason."""

    reason: str


@dataclass(frozen=True, slots=True)
class Late(Event, by=By.SITE):
    """On a real clock: the worker's work took this much longer than it is modelled to take."""

    seconds: float


@dataclass(frozen=True, slots=True)
class TimersLate(Event, by=By.ANY):
    """On a real clock, at the end: the agent's timers were late by `seconds` in all.

    They were watched for `of_s`.
    """

    seconds: float
    of_s: float
