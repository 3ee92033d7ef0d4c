"""The calls of `torch.distributed` in programs whose scenario has `time_calls` (pure)."""

from __future__ import annotations

from dataclasses import dataclass

from trunkline.agents.events.event import By, Count, Event


@dataclass(frozen=True, slots=True)
class CallStarted(Event, by=By.SITE):
    """A call of `torch.distributed` began.

    Attributes:
        process: the process's id at its site.
        call: the number of the call in its process, from 0.
        thread: the number of the thread that made it, in the order of their first calls.
        name: the function, as Python has it.
        bytes: the tensors that it reads or those that it writes, whichever are more.
        group: the name of the group of processes.
        ranks: the group's members, by their ranks in the default group.
        rank: the process's own rank.
        peer: the rank that sends, receives or is the root; None if there is none or any.
        blocks: whether the caller waits for its end before it does anything else.
    """

    process: Count
    call: Count
    thread: Count
    name: str
    bytes: Count
    group: str
    ranks: tuple[Count, ...]
    rank: Count
    peer: Count | None
    blocks: bool


@dataclass(frozen=True, slots=True)
class CallFinished(Event, by=By.SITE):
    """The call of this process with this number ended, or `failed`."""

    process: Count
    call: Count
    failed: bool


@dataclass(frozen=True, slots=True)
class TimingStopped(Event, by=By.SITE):
    """The further calls of this process are not timed, for this reason."""

    process: Count
    reason: str
