"""The events of what a site does, round by round (pure)."""

from __future__ import annotations

from dataclasses import dataclass

from trunkline.agents.events.event import Count, Event


@dataclass(frozen=True, slots=True)
class ComputeStarted(Event):
    """Worker: an iteration's own work begins, with a `batch` if the policy has set one.

    Branches of it may have been computed before, while the model was handed out.
    """

    iteration: Count
    batch: Count | None = None

    def omitted_keys(self) -> tuple[str, ...]:
        return ("batch",) if self.batch is None else ()


@dataclass(frozen=True, slots=True)
class ComputeFinished(Event):
    """Worker: an iteration's own work is done."""

    iteration: Count


@dataclass(frozen=True, slots=True)
class BranchArrived(Event):
    """Worker: it has all parameters of a branch of the model that a task hands out."""

    task: Count
    branch: Count


@dataclass(frozen=True, slots=True)
class BranchComputed(Event):
    """Worker: the forward computation of a branch is done.

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
class SyncStarted(Event):
    """Program: it synchronizes with others; all report the same task number, size and operation.

    The size is in bytes. A lower bound of the time is known for `allreduce` only.
    """

    task: Count
    bytes: Count = 0
    operation: str = "program"


@dataclass(frozen=True, slots=True)
class SyncFinished(Event):
    """Program: the synchronization is over for this site."""

    task: Count


@dataclass(frozen=True, slots=True)
class Ready(Event):
    """Worker: it waits for a group to synchronize this iteration with."""

    iteration: Count


@dataclass(frozen=True, slots=True)
class RoundFinished(Event):
    """Worker: one more iteration computed and synchronized."""

    rounds: Count


@dataclass(frozen=True, slots=True)
class RoundAlone(Event):
    """Worker: it computed an iteration and had no controller to synchronize it with others."""

    iteration: Count


@dataclass(frozen=True, slots=True)
class WorkerFinished(Event):
    """Worker: it has stopped, as the controller told it."""

    rounds: Count
