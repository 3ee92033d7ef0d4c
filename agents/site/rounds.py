"""The state of a worker's rounds: its phase, its offer, and its rounds without a controller."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from enum import Enum, auto

from trunkline.agents.events.causes import Ending
from trunkline.agents.events.lifecycle import Doing, SiteLife
from trunkline.agents.planning.site_plan import BlockPart
from trunkline.agents.wire.messages import ProtocolError


class Outcome(Enum):
    """How the wait for a synchronization ended.

    FINISHED: the result is installed. DROPPED: the task ended without a result. RELEASED: the
    policy lets this site continue alone. STOPPED: the run ends. ALONE: no controller is connected.
    """

    FINISHED = auto()
    DROPPED = auto()
    RELEASED = auto()
    STOPPED = auto()
    ALONE = auto()


@dataclass(slots=True)
class Rounds:
    """The rounds of a worker.

    iteration: the iteration that the worker computes, or that waits for a task.
    synchronized: how many rounds are done that were not done alone.
    batch: the samples in each step of the next iteration, if the policy has set them.
    given: whether the contribution of the iteration that waits is in the result of a task already.
    stopping: whether no new round begins; `stopped_by` is why, if the whole run ends.
    life: what the worker does, by the events that it has logged.
    """

    iteration: int
    synchronized: int
    life: SiteLife
    batch: int | None = None
    given: bool = False
    stopping: bool = False
    stopped_by: Ending | None = None
    _outcome: asyncio.Future[Outcome] | None = None

    @property
    def is_waiting(self) -> bool:
        """Whether this site has reported ready and is an active member of no task."""
        return self._has_no_outcome and self.life.doing is Doing.WAITING

    @property
    def has_left(self) -> bool:
        """Whether the worker has done its rounds."""
        return self.life.doing is Doing.LEFT

    @property
    def _has_no_outcome(self) -> bool:
        return self._outcome is not None and not self._outcome.done()

    def is_active_in(self, task: int) -> bool:
        """Whether the worker is an active member of this task, and has not gone on."""
        doing = self.life.doing is Doing.IN_TASK and self.life.task == task
        return doing and self._has_no_outcome

    def begin_wait(self) -> asyncio.Future[Outcome]:
        """Wait for a task; the future tells how that ended."""
        self._outcome = asyncio.get_running_loop().create_future()
        return self._outcome

    def forget_wait(self) -> None:
        """The wait has ended, and its outcome is known."""
        self._outcome = None

    def end_wait(self, outcome: Outcome) -> None:
        """End the wait. Raises ProtocolError if no round waits."""
        if self._outcome is None or not self._has_no_outcome:
            raise ProtocolError(f"{outcome.name.lower()}, but no round is waiting")
        self._outcome.set_result(outcome)

    def set_batch(self, batch: int | None) -> None:
        """Take over the samples that the policy has set, if it has."""
        self.batch = batch or self.batch

    def stop(self, cause: Ending | None) -> None:
        """Begin no new round; a wait ends at once."""
        self.stopping, self.stopped_by = True, cause
        if self.is_waiting:
            self.end_wait(Outcome.STOPPED)


@dataclass(slots=True)
class Alone:
    """What a worker does while no controller is in charge.

    standalone: whether it waits for no controller any more.
    lost_peers: the neighbours that it has lost since its last report, in their order.
    timers: end what would wait for a controller forever.
    """

    standalone: bool = False
    lost_peers: dict[str, None] = field(default_factory=dict)
    timers: list[asyncio.TimerHandle] = field(default_factory=list)

    def cancel(self) -> None:
        """A controller is in charge, or the worker ends."""
        for timer in self.timers:
            timer.cancel()
        self.timers.clear()


@dataclass(slots=True)
class EarlyScatter:
    """What a worker sends before it knows its task: the number of the offer, and how it is split.

    The `default` split is empty without a non-blocking scatter.
    """

    number: int
    default: tuple[BlockPart, ...] = ()
