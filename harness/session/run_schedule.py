"""What a session has planned for later: functions that are called when their times have come."""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Iterable, Iterator

from trunkline.agents.events.event_writing import LoggedEvent
from trunkline.agents.timing.exact_waits import Alarm

Action = Callable[[], Iterable[LoggedEvent]]
"""Does something and returns events for the log."""


class Schedule:
    """Actions by time. `fd` is readable when `perform_due` is to be called."""

    def __init__(self) -> None:
        self._alarm = Alarm()
        self.fd = self._alarm.fd
        self._plans: list[tuple[int, int, Action]] = []
        self._order = 0

    def add(self, at_ns: int, action: Action) -> None:
        """Plan an action for a time of `time.monotonic_ns`; those of one time keep their order."""
        heapq.heappush(self._plans, (at_ns, self._order, action))
        self._order += 1
        self._alarm.set(self._plans[0][0])

    def perform_due(self) -> Iterator[LoggedEvent]:
        """Perform what is due; yields the events."""
        now_ns = time.monotonic_ns()
        while self._plans and self._plans[0][0] <= now_ns:
            yield from heapq.heappop(self._plans)[2]()
        self._alarm.set(self._plans[0][0] if self._plans else None)

    def close(self) -> None:
        """Free the descriptor."""
        self._alarm.close()
