"""The events of what a site does, round by round (pure)."""

from __future__ import annotations

from dataclasses import dataclass

from trunkline.agents.events.event import By, Count, Event, TaskEvent


@dataclass(frozen=True, slots=True)
class ComputeStarted(Event, by=By.SITE):
    """An iteration's own work begins, with a `batch` if the policy has set one.

    Branches of it may have been computed before, while the model was handed out. A program's report
    has the id of its `process` at the site.
    """

    iteration: Count
    batch: Count | None = None
    process: Count | None = None

    def omitted_keys(self) -> tuple[str, ...]:
        return tuple(key for key in ("batch", "process") if getattr(self, key) is None)


@dataclass(frozen=True, slots=True)
class ComputeFinished(Event, by=By.SITE):
    """An iteration's own work is done; of a program, by this `process`."""

    iteration: Count
    process: Count | None = None

    def omitted_keys(self) -> tuple[str, ...]:
        return ("process",) if self.process is None else ()


@dataclass(frozen=True, slots=True)
class BranchArrived(TaskEvent, by=By.SITE):
    """The worker has all parameters of a branch of the model that a task hands out."""

    branch: Count


@dataclass(frozen=True, slots=True)
class BranchComputed(Event, by=By.SITE):
    """The forward computation of a branch is done.

    It lasted from `start_ns` to `end_ns` by the times of the workload; timers are up to a
    millisecond later. Its parameters came from a `task`, or were here before the iteration began.
    """

    iteration: Count
    branch: Count
    start_ns: Count
    end_ns: Count
    task: Count | None = None

    def omitted_keys(self) -> tuple[str, ...]:
        return ("task",) if self.task is None else ()


@dataclass(frozen=True, slots=True)
class SyncStarted(TaskEvent, by=By.SITE):
    """The program synchronizes with others; all report the same task number, size and operation.

    The size is in bytes. A lower bound of the time is known for `allreduce` only.
    """

    bytes: Count = 0
    operation: str = "program"


@dataclass(frozen=True, slots=True)
class SyncFinished(TaskEvent, by=By.SITE):
    """The synchronization is over for this site."""


@dataclass(frozen=True, slots=True)
class Ready(Event, by=By.SITE):
    """The worker waits for a group to synchronize this iteration with."""

    iteration: Count


@dataclass(frozen=True, slots=True)
class RoundFinished(Event, by=By.SITE):
    """One more iteration computed and synchronized."""

    rounds: Count


@dataclass(frozen=True, slots=True)
class RoundAlone(Event, by=By.SITE):
    """The worker computed an iteration and had no controller to synchronize it with others."""

    iteration: Count


@dataclass(frozen=True, slots=True)
class WorkerFinished(Event, by=By.SITE):
    """The worker has stopped, as the controller told it."""

    rounds: Count
