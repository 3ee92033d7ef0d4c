"""Links that carry nothing: after a cut, since TCP's timers have backed off, or at all (pure).

While a link is cut, TCP tries again and again, and the time between two tries doubles. After the
cut the link stays silent until the next one: for as long again as the cut lasted, at most.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from trunkline.agents.events.fault_events import LinkChanged
from trunkline.agents.events.run_events import LinksCounted
from trunkline.agents.planning.plan import Directed
from trunkline.harness.network.count_times import list_times
from trunkline.harness.record.history import Disturbance, History

CUTS = ("outage", "isolate", "partition")
"""The faults that cut links once."""

EMPTY_BYTES = 94
"""The most bytes of a packet without data, such as an acknowledgement."""

FULL_BYTES = 3028
"""More than a try to send again: two full packets."""

LEAST_NS = 100_000_000
"""A link that is silent for a shorter time carried data at once."""

Count = tuple[int, int, int]
"""From one count to the next one, in ns, and what a link carried meanwhile."""


def find_silence(history: History) -> Mapping[int, int]:
    """Until when the links of cuts stayed silent, in ns, by fault; only of those that did so.

    A link counts if it was to carry data during the cut.
    """
    return history.remember(_find_silence)


def find_counts(history: History) -> Mapping[Directed, Sequence[Count]]:
    """The bytes of each link from one count to the next one; counts without any are left out."""
    return history.remember(_list_counts)


def _find_silence(history: History) -> Mapping[int, int]:
    counts = find_counts(history)
    found = {}
    for fault in history.faults:
        if fault.started.verb in CUTS and fault.end_ns is not None and counts:
            links = (counts[link] for link in _list_links(fault, history) if link in counts)
            last_ns = max((_find_again(each, fault, fault.end_ns) for each in links), default=0)
            if last_ns > fault.end_ns:
                found[fault.started.fault] = min(last_ns, history.end_ns)
    return found


def carry_nothing(fault: Disturbance, history: History, until_ns: int) -> bool:
    """Whether the links of a fault carried no byte from its start until then.

    It is false for a fault that affects more than links between sites, and without counts.
    """
    counts = find_counts(history)
    sites = {site for link in counts for site in link}
    links = [tuple(target.split(" -> ")) for target in fault.started.targets]
    if not links or not all(len(link) == 2 and sites.issuperset(link) for link in links):
        return False
    begin_ns = fault.started.t_ns
    spans = (span for src, dst in links for span in counts.get((src, dst), ()))
    return not any(
        carried and begin_ns < t_ns and since_ns < until_ns for since_ns, t_ns, carried in spans
    )


def _list_links(fault: Disturbance, history: History) -> Iterable[Directed]:
    """The links of a fault; of one that names none, those that were cut while it lasted."""
    named = [target.split(" -> ") for target in fault.started.targets if " -> " in target]
    if named:
        return [(src, dst) for src, dst in named]
    begin_ns, end_ns = fault.started.t_ns, fault.end_ns or 0
    changes = (each for each in history.all(LinkChanged) if begin_ns <= each.t_ns <= end_ns)
    return {(each.src, each.dst) for each in changes if each.cuts}


def _list_counts(history: History) -> Mapping[Directed, Sequence[Count]]:
    due_ns, found = list_times(history.end_ns), defaultdict[Directed, list[Count]](list)
    before = defaultdict[Directed, int](int)
    for event in history.all(LinksCounted):
        place = bisect_right(due_ns, event.t_ns) - 1
        since_ns = due_ns[place - 1] if place > 0 else 0
        for link in event.links:
            ends = link.src, link.dst
            found[ends].append((since_ns, event.t_ns, link.bytes - before[ends]))
            before[ends] = link.bytes
    return found


def _find_again(counts: Iterable[Count], fault: Disturbance, end_ns: int) -> int:
    """When a link carried data again after a cut, or the longest that TCP is silent.

    It is 0 for a link that had no data to carry, and for one that carried it at once.
    """
    begin_ns, tried = fault.started.t_ns, False
    for since_ns, t_ns, carried in counts:
        if t_ns <= begin_ns or carried <= EMPTY_BYTES:
            continue
        if since_ns >= end_ns:
            is_silent = tried and since_ns - end_ns >= LEAST_NS
            return min(t_ns, 2 * end_ns - begin_ns) if is_silent else 0
        if t_ns > end_ns and carried > FULL_BYTES:
            return 0
        tried = tried or since_ns >= begin_ns
    return 2 * end_ns - begin_ns if tried else 0
