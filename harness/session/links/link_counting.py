"""Logs what links carried so far, from time to time, in runs whose processes do not log it."""

from __future__ import annotations

import time
from collections.abc import Iterator

from trunkline.agents.events.event import RUNNER
from trunkline.agents.events.event_writing import LoggedEvent
from trunkline.agents.events.run_events import LinkBytes, LinksCounted
from trunkline.agents.planning.plan import Directed
from trunkline.harness.network.interface import Network
from trunkline.harness.processes.timer import Alarm

FIRST_PERIOD_NS = 100_000_000
"""The time between two counts at the beginning, in ns."""

COUNTS = 50
"""After so many counts the period doubles, so a run of any length has few."""


class LinkCounting:
    """Counts from `start` on; `fd` becomes readable when `count` is to be called."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._alarm = Alarm()
        self.fd = self._alarm.fd
        self._epoch_ns = self._next_ns = self._counts = 0
        self._last: dict[Directed, int] = {}

    def close(self) -> None:
        """Free the alarm."""
        self._alarm.close()

    def start(self, epoch_ns: int) -> None:
        """Count from this time on, by `time.monotonic_ns`; it is the epoch of the run's clock."""
        self._epoch_ns = self._next_ns = epoch_ns
        self._wait()

    def count(self) -> Iterator[LoggedEvent]:
        """The event of the count that is due: the links whose bytes have changed."""
        self._counts += 1
        now = {ends: counters.bytes for ends, counters in self._network.counters().items()}
        changed = {ends: size for ends, size in now.items() if size != self._last.get(ends, 0)}
        self._last = now
        self._wait()
        if changed:
            links = tuple(LinkBytes(*ends, size) for ends, size in changed.items())
            t_ns = time.monotonic_ns() - self._epoch_ns
            yield LoggedEvent.of(LinksCounted(t_ns, RUNNER, links))

    def _wait(self) -> None:
        self._next_ns += FIRST_PERIOD_NS << (self._counts // COUNTS)
        self._alarm.set(self._next_ns)
