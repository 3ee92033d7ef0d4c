"""The events of connections that break and are made again (pure)."""

from __future__ import annotations

from dataclasses import dataclass

from trunkline.agents.events.event import By, Count, Event


@dataclass(frozen=True, slots=True)
class WorkerLost(Event, by=By.CONTROLLER):
    """The connection to this worker broke, or there is none.

    A worker that has not `reported` was not heard of when the controller began to decide.
    """

    worker: str
    reason: str
    reported: bool = True

    def omitted_keys(self) -> tuple[str, ...]:
        return ("reported",) if self.reported else ()


@dataclass(frozen=True, slots=True)
class WorkerFound(Event, by=By.CONTROLLER):
    """A worker that was lost follows it again and has reported its state."""

    worker: str


@dataclass(frozen=True, slots=True)
class LossesReported(Event, by=By.CONTROLLER):
    """This worker has reported that it is not connected to these neighbours.

    With the workers that are lost, these are the links that new plans do not use.
    """

    worker: str
    lost: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ControllerLost(Event, by=By.SITE):
    """The connection to the controller broke; the worker continues alone."""

    reason: str


@dataclass(frozen=True, slots=True)
class ControllerFound(Event, by=By.SITE):
    """The worker follows this controller, the same as before or another."""

    controller: str


@dataclass(frozen=True, slots=True)
class LinkLost(Event, by=By.SITE):
    """The connection to a neighbour broke."""

    peer: str
    reason: str


@dataclass(frozen=True, slots=True)
class LinkFound(Event, by=By.SITE):
    """The worker is connected to this neighbour again."""

    peer: str


@dataclass(frozen=True, slots=True)
class CallerRefused(Event, by=By.ANY):
    """The agent refused the `count`-th caller that is not of this run; not every one is logged."""

    reason: str
    count: Count


@dataclass(frozen=True, slots=True)
class BackupTookOver(Event, by=By.BACKUP):
    """The backup acts as the controller from now on."""


@dataclass(frozen=True, slots=True)
class BackupStoodDown(Event, by=By.BACKUP):
    """The backup acts no more, because the first controller is back."""
