"""The events of connections that break and are made again (pure)."""

from __future__ import annotations

from dataclasses import dataclass

from trunkline.agents.events.event import Count, Event


@dataclass(frozen=True, slots=True)
class WorkerLost(Event):
    """Controller: the connection to this worker broke, or there is none.

    A worker that has not `reported` was not heard of when the controller began to decide.
    """

    worker: str
    reason: str
    reported: bool = True

    def omitted_keys(self) -> tuple[str, ...]:
        return ("reported",) if self.reported else ()


@dataclass(frozen=True, slots=True)
class WorkerFound(Event):
    """Controller: a worker that was lost follows it again and has reported its state."""

    worker: str


@dataclass(frozen=True, slots=True)
class LossesReported(Event):
    """Controller: this worker has reported that it is not connected to these neighbours.

    With the workers that are lost, these are the links that new plans do not use.
    """

    worker: str
    lost: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ControllerLost(Event):
    """Worker: the connection to the controller broke; it continues alone."""

    reason: str


@dataclass(frozen=True, slots=True)
class ControllerFound(Event):
    """Worker: it follows this controller, the same as before or another."""

    controller: str


@dataclass(frozen=True, slots=True)
class LinkLost(Event):
    """Worker: the connection to a neighbour broke."""

    peer: str
    reason: str


@dataclass(frozen=True, slots=True)
class LinkFound(Event):
    """Worker: it is connected to this neighbour again."""

    peer: str


@dataclass(frozen=True, slots=True)
class CallerRefused(Event):
    """Agent: it refused the `count`-th caller that is not of this run; not every one is logged."""

    reason: str
    count: Count


@dataclass(frozen=True, slots=True)
class BackupTookOver(Event):
    """Backup controller: it acts as the controller from now on."""


@dataclass(frozen=True, slots=True)
class BackupStoodDown(Event):
    """Backup controller: it acts no more, because the first controller is back."""
