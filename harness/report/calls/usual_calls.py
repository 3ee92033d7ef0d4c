"""How long calls of programs take that no fault touched (pure)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterator, Sequence
from statistics import median

from trunkline.harness.record.calls import Call, find_meetings, list_calls
from trunkline.harness.record.history import History
from trunkline.harness.record.lives import Interval


class Usual:
    """How long calls take that no fault touched: they wait for their last member, and then move.

    A member is compared with itself: one that begins later than the others waits less in each call.
    """

    def __init__(self, history: History, touched: Container[Call]) -> None:
        self.meetings = find_meetings(history)
        self.spans = defaultdict[tuple[str | int, ...], list[Interval]](list)
        for call in list_calls(history):
            if call not in touched and call.finished is not None and not call.finished.failed:
                waited_ns = self._measure_wait(call)
                span = waited_ns, call.finished.t_ns - call.started.t_ns - waited_ns
                for key in _list_likes(call):
                    self.spans[key].append(span)

    def expect(self, call: Call, fault_ns: int) -> int | None:
        """How long a call would have taken without faults; None if there was none like it.

        It waits for its last member, but after the first fault began, at `fault_ns`, no longer than
        usual. Then it moves as long as usual.
        """
        if not (spans := self._find_like(call)):
            return None
        waited_ns = max(median(waited_ns for waited_ns, _ in spans), fault_ns - call.started.t_ns)
        moved_ns = median(moved_ns for _, moved_ns in spans)
        return round(min(waited_ns, self._measure_wait(call)) + moved_ns)

    def find_total_ns(self, call: Call) -> float | None:
        """How long such calls usually take, with their waits; None if there was none like it."""
        spans = self._find_like(call)
        return median(waited_ns + moved_ns for waited_ns, moved_ns in spans) if spans else None

    def _find_like(self, call: Call) -> Sequence[Interval]:
        """How long like calls waited, and then moved."""
        return next((found for key in _list_likes(call) if (found := self.spans.get(key))), ())

    def _measure_wait(self, call: Call) -> int:
        """How long it waited for a member whose data it needs to begin it."""
        met, begin_ns = self.meetings.get(call.key), call.started.t_ns
        if met is None:
            return 0
        if call.outcome == "completed" and call.finished and met.last_ns > call.finished.t_ns:
            return 0  # that was another call: some calls of the group were not timed
        return max(met.last_ns - begin_ns, 0)


def _list_likes(call: Call) -> Iterator[tuple[str | int, ...]]:
    """Calls that share the first of these are compared; else those that share the second."""
    begun = call.started
    yield begun.name, begun.bytes, begun.site, begun.rank
    yield begun.name, begun.bytes
