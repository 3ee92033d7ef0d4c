"""How much of the time that faults cost, programs made up for in their next calls (pure).

While a fault holds a program up, others begin the next call. Their data are there when the program
begins it, too, so it takes less time than usual.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

from trunkline.harness.record.calls import Call, list_calls
from trunkline.harness.record.history import History
from trunkline.harness.report.calls.calls_in_faults import LONGER_SHARE, FaultTimes


def measure_made_up_s(history: History, times: FaultTimes, rows: int) -> float:
    """By how much calls after late ones were shorter than usual, in s of one of so many programs.

    A call makes up for no more than the late call before it.
    """
    late_ns = {each.call.key: each.end_ns - each.since_ns for each in times.delayed}
    made_up_ns = 0.0
    for before, call in _list_pairs(history):
        if times.usual is None or before.key not in late_ns or call.key in late_ns:
            continue
        usual_ns = times.usual.find_total_ns(call)
        if usual_ns is not None and call.outcome == "completed":
            spared_ns = usual_ns - 1e9 * (call.duration_s or 0.0)
            if spared_ns > LONGER_SHARE * usual_ns:
                made_up_ns += min(spared_ns, late_ns[before.key])
    return made_up_ns / 1e9 / max(rows, 1)


def _list_pairs(history: History) -> Iterator[tuple[Call, Call]]:
    """The calls of each process that follow each other: the first has ended before the second."""
    own = defaultdict[tuple[str, int], list[Call]](list)
    for call in list_calls(history):
        own[call.key[:2]].append(call)
    for calls in own.values():
        calls.sort(key=lambda call: call.started.t_ns)
        for before, call in pairwise(calls):
            if before.finished is not None and before.finished.t_ns <= call.started.t_ns:
                yield before, call
