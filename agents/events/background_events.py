"""The events of background traffic, which the scenario adds to a run (pure).

The runner logs them. A flow is named by its number: the flows of the scenario's `background:` are
numbered in their order, from 0.
"""

from __future__ import annotations

from dataclasses import dataclass

from trunkline.agents.events.event import By, Count, Event


@dataclass(frozen=True, slots=True)
class BackgroundSent(Event, by=By.RUNNER):
    """The flow's sender gave its kernel this payload since `since_ns`.

    `packets` is 0 with TCP, where the kernel makes the packets.
    """

    flow: Count
    bytes: Count
    packets: Count
    since_ns: Count


@dataclass(frozen=True, slots=True)
class BackgroundReceived(Event, by=By.RUNNER):
    """The flow's receiver got this payload since `since_ns`; `packets` is 0 with TCP."""

    flow: Count
    bytes: Count
    packets: Count
    since_ns: Count


@dataclass(frozen=True, slots=True)
class BackgroundFile(Event, by=By.RUNNER):
    """A file of the flow, which the sender began at `start_ns`, has arrived completely."""

    flow: Count
    bytes: Count
    start_ns: Count


@dataclass(frozen=True, slots=True)
class BackgroundFailed(Event, by=By.RUNNER):
    """A connection of the flow broke, or could not be opened, for this reason."""

    flow: Count
    reason: str
