"""Which connections did not know their link's rate yet (pure)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from trunkline.agents.events.connection_events import LinkFound
from trunkline.agents.events.task_events import Sent
from trunkline.agents.planning.plan import Directed
from trunkline.harness.record.history import History
from trunkline.harness.record.lives import Interval
from trunkline.harness.record.transfers import Transfer
from trunkline.harness.report.explanations.critical_path import PathStep
from trunkline.topologies.model import Topology

COLD_WINDOWS = 64
"""A connection is cold until it has carried this many bandwidth-delay products."""

COLD_TRIPS = 128
"""The most round trips that a cold connection takes to find its link's rate."""

GROWTH = 0.025
"""A cold window grows by this share per round trip: a twentieth, and queues double round trips."""

WARM_WINDOWS = 2
"""A transfer of this many products shows what its connection can carry."""

ALIKE = 0.9
"""A transfer with this share of the bytes of another one needs about as large a window."""

INITIAL_WINDOW_BYTES = 14_480
"""TCP begins with ten packets; a smaller product does not matter."""


@dataclass(frozen=True, slots=True)
class ColdConnections:
    """The connections of a run; `was_at_rate` tells whether a link carried what its rate allows."""

    history: History
    topology: Topology
    transfers: Sequence[Transfer]
    was_at_rate: Callable[[Directed, Interval], bool]

    def find_cold_s(self, ends: Directed, step: PathStep) -> float:
        """How long the connection of a step may have been cold, in seconds; 0 if it was warm."""
        since_ns, carried = self.find(ends, step.end_ns)
        if carried >= self._count_warm(ends) or self.was_warm(ends, since_ns, step.start_ns):
            return 0.0
        most_s = COLD_TRIPS * self._find_trip_ms(ends) / 1e3
        return min([most_s, *self._list_bounds_s(ends, since_ns, step)])

    def find_slow_start_s(self, ends: Directed) -> float:
        """How long a new connection takes to find its link's rate if it loses no packet, at most.

        Its window doubles in each round trip until it fills the link (RFC 5681, 3.1).
        """
        window, sent, trips = float(INITIAL_WINDOW_BYTES), 0.0, 0
        while window < self._count_product(ends):
            window, sent, trips = 2 * window, sent + window, trips + 1
        needed_s = sent * 8e-6 / self.topology.overlay.link(*ends).rate_mbps
        return trips * self._find_trip_ms(ends) / 1e3 - needed_s

    def _list_bounds_s(self, ends: Directed, since_ns: int, step: PathStep) -> Iterator[float]:
        """The most that a connection lost in a step, by each of its long transfers until then.

        Until the end of a transfer, the connection lost the time that the transfer's bytes did not
        need at the link's rate. Then its window allowed their mean rate, and it grew from there.
        """
        own = [e for e in self.transfers if (e.src, e.dst) == ends and since_ns <= e.start_ns]
        yield from self._list_earlier_s(ends, own, step)
        begin_ns = max(step.start_ns, min((e.start_ns for e in own), default=0))
        for each in own:
            length_ns = each.end_ns - each.start_ns
            if length_ns <= 0 or each.end_ns > step.end_ns or not self._is_long(ends, each):
                continue
            needed_s = self._need_s(ends, each)
            share = min(1.0, needed_s / (length_ns / 1e9))
            trips = (share - 1 - math.log(share)) / GROWTH
            inside_ns = max(0, each.end_ns - max(begin_ns, each.start_ns))
            before_s = max(0, each.end_ns - begin_ns) / 1e9 - needed_s * inside_ns / length_ns
            yield max(0.0, before_s) + trips * self._find_trip_ms(ends) / 1e3

    def _list_earlier_s(
        self, ends: Directed, own: Iterable[Transfer], step: PathStep
    ) -> Iterator[float]:
        """What transfers before a step took beyond their need, if they had about as many bytes.

        A connection becomes no colder from one to the next.
        """
        for each in own:
            if each.end_ns <= step.start_ns and each.bytes >= ALIKE * step.bytes > 0:
                took_s = (each.end_ns - each.start_ns) / 1e9
                yield max(0.0, took_s - self._need_s(ends, each))

    def find_usual_s(self, ends: Directed, size: int, until_ns: int) -> float:
        """The least that transfers of about as many bytes took beyond their need before a time.

        0 if there were none.
        """
        own = [e for e in self.transfers if (e.src, e.dst) == ends]
        step = PathStep("transfer", until_ns, until_ns, ends[1], ends[0], size)
        return min(self._list_earlier_s(ends, own, step), default=0.0)

    def _need_s(self, ends: Directed, transfer: Transfer) -> float:
        """How long the bytes of a transfer need at the link's rate."""
        return transfer.bytes * 8e-6 / self.topology.overlay.link(*ends).rate_mbps

    def find(self, ends: Directed, t_ns: int) -> tuple[int, int]:
        """When the connection that a link had then was found again, and its payload in bytes.

        The time is 0 if it was never lost.
        """
        found = self.history.all(LinkFound)
        since_ns = max(
            (e.t_ns for e in found if {e.site, e.peer} == set(ends) and e.t_ns <= t_ns), default=0
        )
        return since_ns, self._count_carried(ends, since_ns, t_ns)

    def _count_carried(self, ends: Directed, since_ns: int, until_ns: int) -> int:
        """The payload that was sent between these times, in bytes."""
        return sum(
            event.bytes
            for task in self.history.tasks
            for event in task.all(Sent)
            if (event.site, event.dst) == ends and since_ns <= event.start_ns < until_ns
        )

    def was_used_before(self, ends: Directed, t_ns: int, size: int) -> bool:
        """Whether connections of a link had carried as many bytes before that time.

        If they had not, it would have been cold for such a payload, too.
        """
        return self._count_carried(ends, 0, t_ns) >= size

    def was_warm(self, ends: Directed, since_ns: int, until_ns: int) -> bool:
        """Whether a long transfer of a connection had its link's rate, before a time."""
        return any(
            self.was_at_rate(ends, (each.start_ns, each.end_ns))
            for each in self.transfers
            if (each.src, each.dst) == ends
            and since_ns <= each.start_ns
            and each.end_ns <= until_ns
            and self._is_long(ends, each)
        )

    def _is_long(self, ends: Directed, transfer: Transfer) -> bool:
        """Whether a transfer shows what its connection could carry."""
        return transfer.bytes >= WARM_WINDOWS * self._count_product(ends)

    def _count_warm(self, ends: Directed) -> float:
        """The bytes that a connection must carry before TCP knows the rate of its link."""
        return COLD_WINDOWS * max(INITIAL_WINDOW_BYTES, self._count_product(ends))

    def _count_product(self, ends: Directed) -> float:
        """The bandwidth-delay product of a link of the overlay, in bytes."""
        return self.topology.overlay.link(*ends).rate_mbps * self._find_trip_ms(ends) * 1e3 / 8

    def _find_trip_ms(self, ends: Directed) -> float:
        overlay = self.topology.overlay
        return overlay.link(*ends).delay_ms + overlay.link(*reversed(ends)).delay_ms
