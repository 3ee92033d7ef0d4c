"""Why the program that others waited for most began its calls last (pure)."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import fmean

from trunkline.harness.record.calls import (
    Call,
    list_calls,
    list_groups,
    list_needed,
    list_same,
    may_be_new,
)
from trunkline.harness.record.history import History
from trunkline.workloads.program_roles import find_owner, site_of

LEAST_S = 0.0005
"""Who began later by less on average began at once."""

Ends = Mapping[tuple[str, int], Sequence[int]]
"""When the calls of each site's process ended, in order of time."""


def describe_late_start(history: History, programs: Iterable[str], who: str) -> Iterator[str]:
    """A sentence on why a program began calls after the others; none if the log does not tell.

    Either its calls before had ended later than those of the others, or it took longer from there
    to the next call, for example because it computed longer.
    """
    names = defaultdict[str, list[str]](list)
    for program in programs:
        names[site_of(program)].append(program)
    ends = defaultdict[tuple[str, int], list[int]](list)
    for call in list_calls(history):
        if call.finished is not None:
            ends[call.key[:2]].append(call.finished.t_ns)
    for times in ends.values():
        times.sort()
    late, ended = [], []
    for same in _list_meetings(history):
        last = max(same, key=lambda call: call.started.t_ns)
        own = last.started.site
        if find_owner(names.get(own, [own]), last.started.process) != who:
            continue
        before = {call.key: _find_end_before(call, ends) for call in same}
        others = [call for call in same if call is not last]
        known = [end for call in others if (end := before[call.key]) is not None]
        if (last_end := before[last.key]) is not None and len(known) == len(others):
            late.append(last.started.t_ns - fmean(call.started.t_ns for call in others))
            ended.append(last_end - fmean(known))
    if not late or fmean(late) < LEAST_S * 1e9:
        return
    late_s, ended_s = fmean(late) / 1e9, fmean(ended) / 1e9
    if ended_s >= late_s / 2:
        why = f"its calls before had ended {ended_s:.3f} s later"
    else:
        between = "from the end of a call to the start of the next one"
        why = f"it took {late_s - ended_s:.3f} s longer {between}"
    yield f"{who} began {late_s:.3f} s after those that waited for it, mostly because {why}."


def _list_meetings(history: History) -> Iterator[Sequence[Call]]:
    """The calls in which members need each other's data: all members of each."""
    for (name, _), members in list_groups(history).items():
        for same in list_same(members, may_be_new(name, members)):
            if len(same) > 1 and all(len(list_needed(c, rank)) > 1 for rank, c in same.items()):
                yield tuple(same.values())


def _find_end_before(call: Call, ends: Ends) -> int | None:
    """When the process had ended its last call before it began this one; None if it had none."""
    times = ends.get(call.key[:2], ())
    place = bisect_right(times, call.started.t_ns)
    return times[place - 1] if place else None
