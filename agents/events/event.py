"""What all events of a run have in common (pure).

Every process of a run logs events, stamped with the run's one clock; the runner merges them by time
into `events.jsonl`. Each class of this package is one type of event: its name in snake case is the
line's `"event"`, its fields are the line's keys, in the same order. `event_writing` makes a line of
an event, `event_reading` an event of a line.

The head of a class says who may log its events: `class Sent(TaskEvent, by=By.SITE)`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Annotated, ClassVar, Concatenate, ParamSpec, Protocol

from pydantic import Field

CONTROLLER = "controller"
BACKUP = "backup"
RUNNER = "runner"

MOST = 2**56
"""No count and no time in ns is larger (two years): sums of them fit in 64 bits."""

Count = Annotated[int, Field(ge=0, le=MOST)]
"""A whole number of 0 or more."""

P = ParamSpec("P")


class By(Enum):
    """Who may log an event.

    RUNNER: the process that runs the scenario.
    CONTROLLER: a controller, first or backup.
    STOPPER: a controller, or in a run of programs the runner.
    BACKUP: the backup controller.
    SITE: the worker or the program of a site.
    ANY: each of these.
    """

    RUNNER = auto()
    CONTROLLER = auto()
    STOPPER = auto()
    BACKUP = auto()
    SITE = auto()
    ANY = auto()


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened at `site` (a site, "controller" or "runner"), `t_ns` into the run."""

    by: ClassVar[By]

    t_ns: Count
    site: str

    def __init_subclass__(cls, by: By | None = None) -> None:
        if by is not None:
            cls.by = by

    def omitted_keys(self) -> tuple[str, ...]:
        """The keys that the line of this event leaves out."""
        return ()


@dataclass(frozen=True, slots=True)
class TaskEvent(Event):
    """An event of one task."""

    task: Count


Kind = Callable[Concatenate[int, str, P], Event]
"""A type of event; P are its fields other than the time and the site."""


class Log(Protocol):
    """Takes the type of an event and its fields; stamps the event with the time and the site."""

    def __call__(self, kind: Kind[P], *values: P.args, **fields: P.kwargs) -> None: ...
